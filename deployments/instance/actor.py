# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The instance actor: one model instance in a process of its own.

Three threads: Ray's event loop answers the controller. The execution thread loads the model and
then executes batches; between short executions it serves the lanes too. During long ones a follower
does (`deployments.instance.lead`). So control calls and lanes are answered while the model loads or
computes, and a model sees one thread from its first line to its last, but for its ``is_ready``
(`deployments.instance.readiness`). A fault in any of the three ends the process
(`deployments.instance.ending`). The execution thread is the main one where Ray leaves that free
(`deployments.instance.main_thread`). Ray's own thread mostly rests (`deployments.instance.rest`).

The constructor only starts the load. `describe` waits for it, opens the lanes at its first call and
raises what went wrong, as often as it is asked: a failed load must not look like a crash, which Ray
would answer with a restart.
"""

import asyncio
import concurrent.futures
import functools
import gc
import logging
import os
import secrets
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Self

import ray
import setproctitle
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from backends.api.errors import InternalError, TritonError, UnavailableError
from deployments.contracts.control import ControllerLink
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.crash_page import CrashPage, own_log
from deployments.instance.ending import Ending
from deployments.instance.executor import Executor
from deployments.instance.freed_memory import keep_freed_memory
from deployments.instance.lanes import InstanceLanes
from deployments.instance.lead import Lead
from deployments.instance.load_watch import LoadWatch
from deployments.instance.loading import LoadedInstance, load_instance
from deployments.instance.main_thread import MAIN
from deployments.instance.model_calls import CallingProcess, RouterCaller
from deployments.instance.model_files import FetchToNode, with_local_files
from deployments.instance.model_signals import MODEL_CODE, guard_handlers
from deployments.instance.plain_process import become_plain
from deployments.instance.progress import NOT_SERVING, Progress, ProgressWatch
from deployments.instance.readiness import Readiness
from deployments.instance.rest import Rest
from deployments.instance.spec import NAMESPACE, InstanceDescription, InstanceSpec
from deployments.instance.watchdog import Watchdog, execution_timeout_us
from deployments.lane.messages import limits_of
from deployments.lane.server import LaneServer
from deployments.lane.tls import lane_tls
from deployments.metrics import counters as statistics
from deployments.rate_limiter.arbiter import Limit
from deployments.rate_limiter.claim import ResourceClaim
from deployments.reactor.reactor import Reactor
from deployments.scheduling.factory import Conditions
from deployments.scheduling.holds import holds_of
from deployments.settings.log_lines import set_known_fields
from deployments.shared_memory.objects import RegionMemory
from deployments.slabs.pool import SlabPool

ArbiterStarter = Callable[[Sequence[Limit]], str]
ReadCache = Callable[[], tuple[str, Mapping[str, str]] | None]
ReadSecret = Callable[[], bytes]

_log = logging.getLogger(__name__)

# What a model's close and the execution it may still be in get before the process ends anyway.
_CLOSE_TIMEOUT_S = 30.0
_RAY_EXIT_TIMEOUT_S = 2
# What routers get to stop sending, once told; a round trip takes a thousandth of that.
_GOAWAY_GRACE_S = 0.2


class ModelInstanceActor:
    """One loaded model instance, as the controller sees it.

    Args:
        spec: The recipe.
        connect: Makes the link to the controller, for models that call models; importable here.
        start_arbiter: Starts the rate limiter of this node unless there is one, and returns the
            name of its socket; importable here.
        fetch_to_node: Has files of a model on this node; importable here.
        read_cache: Tells name and settings of the response cache, which the arguments do not have;
            None where there is none.
        read_secret: Tells the key of the lanes, which the arguments do not have either; None where
            the spec has it.
    """

    _rest: Rest

    def __new__(cls, *_arguments: object) -> Self:
        """Make the object; Ray does so on its main thread, and runs everything else on others."""
        made = super().__new__(cls)
        made._rest = Rest()
        made._rest.prepare()
        return made

    def __init__(
        self,
        spec: InstanceSpec,
        connect: Callable[[], ControllerLink] | None = None,
        start_arbiter: ArbiterStarter | None = None,
        fetch_to_node: FetchToNode | None = None,
        read_cache: ReadCache | None = None,
        read_secret: ReadSecret | None = None,
    ) -> None:
        spec = spec if read_cache is None else replace(spec, cache=read_cache())
        spec = spec if read_secret is None else replace(spec, secret=read_secret())
        become_plain(spec.log_level, spec.log_format, spec.title)
        guard_handlers()
        set_known_fields(
            {"model": spec.model_name, "version": str(spec.version), "instance": spec.title}
        )
        setproctitle.setproctitle(f"manta: {spec.title}")
        # Ray titles an idle process, and its lines of log, by class.
        self.__class__ = type(spec.title, (type(self),), {})
        self._spec = spec
        self._started_s = time.monotonic()
        self._incarnation = secrets.token_hex(8)
        self._loaded: concurrent.futures.Future[LoadedInstance] = concurrent.futures.Future()
        self._serving: concurrent.futures.Future[Executor] = concurrent.futures.Future()
        self._slabs = SlabPool()
        self._limits = limits_of(spec.lanes)
        self._reactor = Reactor()
        self._lanes: LaneServer | None = None
        self._progress: ProgressWatch | None = None
        self._readiness: Readiness | None = None
        self._description: InstanceDescription | None = None
        self._describing = asyncio.Lock()
        self._ending = Ending(spec.name, self._close_lanes)
        self._caller = None if connect is None else self._make_caller(connect)
        self._start_arbiter = start_arbiter
        self._fetch_to_node = fetch_to_node
        self._claim: ResourceClaim | None = None
        MAIN.run(self._load_and_run, "manta-execute")

    async def describe(self) -> InstanceDescription:
        """Wait for the load and return what the instance is and where its lanes end.

        Raises:
            TritonError: The load failed or takes too long, or a fault is ending the process.
        """
        if self._caller is not None:
            self._caller.run_on(asyncio.get_running_loop())
        loaded = await self._wait_loaded()
        self._ending.check()
        async with self._describing:
            if self._description is None:
                self._description = await self._serve(loaded)
                self._rest.begin(asyncio.get_running_loop())
        return self._description

    async def health(self) -> bool:
        """Return whether the instance is loaded and its model says it is ready."""
        if self._readiness is None:
            return False
        return await asyncio.wrap_future(self._readiness.ask())

    async def statistics(self) -> statistics.Snapshot:
        """Return the counters since the load, with the model's own."""
        if not self._serving.done():
            return statistics.merge(())
        snapshot = self._serving.result().statistics()
        snapshot.custom = self._loaded.result().instance.custom_metrics()
        return snapshot

    async def progress(self) -> Progress:
        """Return whether the lanes are served and executions get on; within a second or so."""
        if self._progress is None:
            return NOT_SERVING
        return await self._progress.ask()

    async def drain(self, timeout_s: float) -> bool:
        """Refuse new requests and wait for those in flight.

        Returns:
            Whether all were answered in time.
        """
        self._rest.end()
        if not self._serving.done():
            return True
        if self._description is not None:
            self._description = replace(self._description, is_draining=True)
        if self._lanes is not None:
            self._reactor.call_soon_threadsafe(self._lanes.start_draining)
        # Requests may be under way from routers that have not heard of it; they are still served.
        grace_s = min(_GOAWAY_GRACE_S, timeout_s / 2)
        await asyncio.sleep(grace_s)
        return await self._serving.result().drain(timeout_s - grace_s)

    async def wait_closed(self) -> None:
        """Return when `shutdown` was called; a crash fails the call. The controller's watch.

        Raises:
            InternalError: A fault is about to end the process; the message is the reason.
        """
        await self._ending.wait()

    async def shutdown(self) -> None:
        """Close the model and end the process; its caller sees the actor's death."""
        self._rest.end()
        self._ending.finish()
        if self._serving.done():
            await self._serving.result().close(_CLOSE_TIMEOUT_S)
        if self._claim is not None:
            await asyncio.wrap_future(self._reactor.submit(self._claim.close))
        await asyncio.wrap_future(self._close_lanes())
        if self._caller is not None:
            await self._caller.close()
        self._slabs.close()
        # Ray's own clean-up now and then waits ten seconds for its metrics agent; it knows by then.
        MAIN.let_alarms_end()
        signal.alarm(_RAY_EXIT_TIMEOUT_S)
        ray.actor.exit_actor()

    async def _wait_loaded(self) -> LoadedInstance:
        timeout_s = self._spec.load_timeout_s
        loading = asyncio.shield(asyncio.wrap_future(self._loaded))
        if not timeout_s or self._loaded.done():
            return await loading
        try:
            async with asyncio.timeout(self._started_s + timeout_s - time.monotonic()):
                return await loading
        except TimeoutError:
            # Who asked ends this process; nothing else stops a thread that loads.
            raise UnavailableError(
                f"instance {self._spec.name} has not loaded model '{self._spec.model_name}' within "
                f"{timeout_s:g} s; load it faster or raise --model-load-timeout-secs"
            ) from None

    def _close_lanes(self) -> "Future[None]":
        if self._lanes is None:
            closed: Future[None] = Future()
            closed.set_result(None)
            return closed
        return self._reactor.submit(self._lanes.close)

    def _make_caller(self, connect: Callable[[], ControllerLink]) -> RouterCaller:
        process = CallingProcess(
            node_id=ray.get_runtime_context().get_node_id(),
            incarnation=self._incarnation,
            secret=self._spec.secret,
            slabs=self._slabs,
            cache=self._spec.cache,
            lanes=self._spec.lanes,
        )
        return RouterCaller(connect, process)

    async def _serve(self, loaded: LoadedInstance) -> InstanceDescription:
        spec = self._spec
        executor = Executor(
            loaded.config,
            spec.version,
            loaded.instance,
            Lead(self._reactor, on_fault=self._ending.die),
            loaded.statistics,
            loaded.state_files,
            Conditions(holds_of(spec.scheduler_holds), self._claim),
        )
        executor.crash_page = page = CrashPage(own_log())
        timeout_us = execution_timeout_us(loaded.config)
        if timeout_us:
            Watchdog(spec.model_name, timeout_us, executor.activity, self._ending.die).start()
        memory = RegionMemory()
        uds = f"\0manta/{self._incarnation}"
        host = ray.util.get_node_ip_address()
        self._readiness = Readiness(spec.model_name, loaded.instance.is_ready)
        handler = InstanceLanes(loaded.config, executor, loaded.instance, memory, self._readiness)
        if self._claim is not None:
            self._claim.serve(handler.adoption.granted)
        self._lanes = LaneServer(
            handler,
            reactor=self._reactor,
            secret=spec.secret,
            slabs=self._slabs,
            incarnation=self._incarnation,
            limits=self._limits,
            memory=memory,
            crash_place=page.place,
        )
        tcp = self._lanes.start(
            uds, host, spec.lanes.ports, tls=lane_tls(spec.lanes.tls, spec.secret).server
        )
        self._progress = ProgressWatch(executor, self._reactor)
        self._serving.set_result(executor)
        endpoint = InstanceEndpoint(
            name=f"{spec.model_key}/{spec.version}#{spec.index}",
            incarnation=self._incarnation,
            node_id=ray.get_runtime_context().get_node_id(),
            uds=uds,
            tcp=tcp,
            has_readiness=loaded.instance.has_readiness,
        )
        return InstanceDescription(spec, loaded.config, endpoint, os.getpid(), loaded.duration_ns)

    def _join_arbiter(self) -> ResourceClaim | None:
        spec = self._spec
        if spec.demand is None or self._start_arbiter is None:
            return None
        path = self._start_arbiter(spec.resource_limits or ())
        claim = ResourceClaim(spec.name, spec.demand, path, self._reactor)
        claim.join()
        return claim

    def _load_and_run(self) -> None:
        try:
            claim = self._claim = self._join_arbiter()
            pause = None if claim is None else claim.paused
            spec = with_local_files(self._spec, self._fetch_to_node)
            with LoadWatch(spec.name, spec.model_dir):
                try:
                    MODEL_CODE.is_running = True
                    loaded = load_instance(spec, self._caller, pause)
                finally:
                    MODEL_CODE.is_running = False
        except TritonError as error:
            self._loaded.set_exception(error)
            return
        except BaseException as error:
            # Also SystemExit: describe has to say what happened rather than wait for ever.
            _log.exception("instance %s failed to load", self._spec.name)
            failure = InternalError(f"{type(error).__name__}: {error}")
            self._loaded.set_exception(failure)
            return
        # What a load leaves behind lives as long as the process: no collection need visit it again.
        gc.collect()
        gc.freeze()
        # Not before: a load may free as much as a model's weights, which nothing would use again.
        keep_freed_memory()
        self._loaded.set_result(loaded)
        self._serving.result().run()


def create_instance_actor(
    spec: InstanceSpec,
    connect: Callable[[], ControllerLink] | None = None,
    start_arbiter: ArbiterStarter | None = None,
    fetch_to_node: FetchToNode | None = None,
    group: PlacementGroup | None = None,
    read_cache: ReadCache | None = None,
    read_secret: ReadSecret | None = None,
) -> Any:
    """Create the named, detached actor of an instance and return its handle at once.

    The arguments are those of `ModelInstanceActor`, and of a gang instance what has its bundles.

    Raises:
        ValueError: An actor of this name exists.
    """
    # A crashed actor starts again by itself, under its name; calls are never repeated, because
    # nothing tells whether they ran.
    remote: Any = _actor_class().options(
        name=spec.name,
        namespace=NAMESPACE,
        lifetime="detached",
        max_restarts=-1,
        max_task_retries=0,
        num_cpus=spec.num_cpus,
        num_gpus=spec.num_gpus,
        resources=spec.ray_resources or None,
        runtime_env=dict(spec.runtime_env) or None,
        enable_task_events=False,
        label_selector=None if group else dict(spec.label_selector) or None,
        scheduling_strategy=_strategy(spec, group),
    )
    return remote.remote(spec, connect, start_arbiter, fetch_to_node, read_cache, read_secret)


@functools.cache
def _actor_class() -> Any:
    """Return the one class for all: of each class Ray keeps 55 KB here and 20 KB in the GCS."""
    return ray.remote(ModelInstanceActor)


def _strategy(spec: InstanceSpec, group: PlacementGroup | None = None) -> Any:
    """Tie an instance to the node of its device; without that node the actor ends for good.

    A node that was chosen only because the others are elsewhere may turn out to be full or gone.
    What a gang instance starts in turn has the other bundles.
    """
    if group is not None:
        return PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
        )
    if spec.device is not None:
        return NodeAffinitySchedulingStrategy(spec.device.node_id, soft=False)
    if spec.node is None:
        return "DEFAULT"
    is_soft = not spec.node.is_required
    return NodeAffinitySchedulingStrategy(
        spec.node.node_id, soft=is_soft, _spill_on_unavailable=is_soft
    )
