# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instance pools: the one module that creates, adopts, watches and kills instance actors.

Each instance of a pool is one task that lives through create, describe, watch, and again from the
start when the actor is lost:

- A `wait_closed` call that never returns is the death watch: it fails the moment Ray knows.
- Ray restarts a crashed actor under its name; then `describe` answers again, with a new endpoint.
- An actor Ray has given up on is created anew, with a growing delay between attempts.

A pool tells its owner about every change by one callback and is asked for its endpoints.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError, RuntimeEnvSetupError

from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from backends.api.model_config import ModelConfig
from cluster.actor_calls import call, cause_of
from cluster.controller_client import connect_controller
from cluster.placement import ClusterResources, NodeResources, blocked_reason
from cluster.planner import ActorName, demand_of, parse_actor_name
from deployments.instance import create_instance_actor
from deployments.instance_spec import InstanceDescription, InstanceSpec
from deployments.routing import InstanceEndpoint

NAMESPACE = "manta"

_log = logging.getLogger(__name__)

# An actor start takes tenths of a second; one still silent after this may be waiting for room.
_PLACEMENT_GRACE_S = 3.0
_PLACEMENT_POLL_S = 5.0
_FIRST_BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 15.0
# What an adopted actor gets to describe itself before it counts as hung or still loading.
_ADOPTION_TIMEOUT_S = 20.0


@dataclass(slots=True, eq=False)
class _Instance:
    """One place in a pool and the actor that fills it now."""

    spec: InstanceSpec
    settled: asyncio.Future[None]
    handle: Any = None
    creation: asyncio.Future[Any] | None = None
    description: InstanceDescription | None = None
    reason: str = ""
    load_error: TritonError | None = None
    failures: int = 0
    task: asyncio.Task[None] | None = None

    def settle(self, error: TritonError | None = None) -> None:
        if self.settled.done():
            return
        if error is None:
            self.settled.set_result(None)
        else:
            self.settled.set_exception(error)


@dataclass(frozen=True, slots=True)
class LiveInstance:
    """An actor found alive by a controller that did not create it."""

    name: ActorName
    handle: Any = field(repr=False)
    description: InstanceDescription


class InstancePool:
    """The instances of one generation of a model version.

    Args:
        on_change: Called on the loop whenever endpoints or reasons changed.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._instances: list[_Instance] = []
        self._changed = asyncio.Event()

    @property
    def endpoints(self) -> tuple[InstanceEndpoint, ...]:
        """Where the live instances listen."""
        return tuple(
            instance.description.endpoint
            for instance in self._instances
            if instance.description is not None
        )

    @property
    def reason(self) -> str:
        """What instances that are not live wait for; empty when all are."""
        return "; ".join(instance.reason for instance in self._instances if instance.reason)

    @property
    def config(self) -> ModelConfig | None:
        """Config of the first live instance, as its backend completed it."""
        live = (i.description for i in self._instances if i.description is not None)
        return next((description.config for description in live), None)

    @property
    def size(self) -> int:
        """Instances the pool shall have."""
        return len(self._instances)

    @property
    def load_duration_ns(self) -> int:
        """Longest load among the live instances."""
        return max(
            (i.description.load_duration_ns for i in self._instances if i.description is not None),
            default=0,
        )

    async def start(self, specs: Iterable[InstanceSpec]) -> None:
        """Add instances and wait until each is ready or waits for room in the cluster.

        Raises:
            TritonError: An instance failed to load. The others go on; close the pool.
        """
        await asyncio.gather(*[self._add(spec).settled for spec in specs])

    async def wait_live(self) -> None:
        """Wait until an instance is live, however long the cluster has no room for one.

        Raises:
            TritonError: An instance got room and failed to load.
        """
        while not self.endpoints:
            failed = next((i.load_error for i in self._instances if i.load_error), None)
            if failed is not None:
                raise failed
            self._changed.clear()
            await self._changed.wait()

    def adopt(self, live: Iterable[LiveInstance], missing: Iterable[InstanceSpec]) -> None:
        """Take over actors that another controller created, and start those it lacks.

        Args:
            live: Actors that have described themselves.
            missing: Specs of the instances that are not alive; they start in the background.
        """
        for found in live:
            self._add(found.description.spec, found.handle, found.description).settle()
        for spec in missing:
            self._add(spec).settle()

    async def close(self, drain_s: float) -> None:
        """Drain, shut down and kill every instance, in parallel.

        Args:
            drain_s: How long requests in flight, and then the model's own clean-up, may take.
        """
        instances, self._instances = self._instances, []
        for instance in instances:
            if instance.task is not None:
                instance.task.cancel()
            if instance.settled.done() and not instance.settled.cancelled():
                instance.settled.exception()
        await asyncio.gather(*(_end(instance, drain_s) for instance in instances))

    def _notify(self) -> None:
        self._changed.set()
        self._on_change()

    def _add(
        self,
        spec: InstanceSpec,
        handle: Any = None,
        description: InstanceDescription | None = None,
    ) -> _Instance:
        settled = asyncio.get_running_loop().create_future()
        instance = _Instance(spec, settled, handle, description=description)
        self._instances.append(instance)
        instance.task = asyncio.create_task(self._live(instance), name=spec.name)
        return instance

    async def _live(self, instance: _Instance) -> None:
        while True:
            if instance.description is None:
                error = await self._bring_up(instance)
                if error is not None and not await self._may_retry(instance, error):
                    return
                if error is not None:
                    continue
                instance.settle()
            await self._watch(instance)

    async def _bring_up(self, instance: _Instance) -> Exception | None:
        """Create the actor unless there is one, and wait for it to load."""
        try:
            if instance.handle is None:
                # Shielded and kept, so that closing the pool meanwhile still finds the actor.
                instance.creation = asyncio.ensure_future(
                    asyncio.to_thread(create_instance_actor, instance.spec, connect_controller)
                )
                instance.handle = await asyncio.shield(instance.creation)
            instance.description = await self._describe(instance)
        except (RayError, TritonError, ValueError) as error:
            # ValueError: the name is still held by an actor that is on its way out.
            return error
        instance.failures = 0
        instance.load_error = None
        instance.reason = ""
        self._notify()
        return None

    async def _may_retry(self, instance: _Instance, error: Exception) -> bool:
        """Clean up after a failed attempt and wait before the next; a first load has no next."""
        if isinstance(error, RayError) and not instance.settled.done():
            happened = (
                "was not started" if isinstance(error, RuntimeEnvSetupError) else "died loading"
            )
            error = InternalError(f"instance {instance.spec.name} {happened}: {cause_of(error)}")
        if isinstance(error, ValueError) and not instance.settled.done():
            error = InvalidArgumentError(f"instance {instance.spec.name} cannot be placed: {error}")
        loaded_badly = isinstance(error, TritonError)
        if instance.handle is not None and (loaded_badly or await _is_gone(instance)):
            handle, instance.handle, instance.creation = instance.handle, None, None
            await asyncio.to_thread(_kill, handle)
        if isinstance(error, TritonError) and not instance.settled.done():
            instance.settle(error)
            return False
        instance.load_error = error if isinstance(error, TritonError) else None
        instance.reason = f"instance {instance.spec.name} is restarting: {cause_of(error)}"
        _log.warning("%s", instance.reason)
        self._notify()
        delay_s = min(_FIRST_BACKOFF_S * 2**instance.failures, _LONGEST_BACKOFF_S)
        instance.failures += 1
        await asyncio.sleep(delay_s)
        return True

    async def _describe(self, instance: _Instance) -> InstanceDescription:
        placement = asyncio.create_task(self._report_placement(instance))
        try:
            return await call(instance.handle.describe.remote())
        finally:
            placement.cancel()

    async def _report_placement(self, instance: _Instance) -> None:
        """Say what an actor without a process waits for; a process answers `health` at once."""
        placed = asyncio.create_task(_answers(instance.handle))
        timeout_s = _PLACEMENT_GRACE_S
        while not (await asyncio.wait({placed}, timeout=timeout_s))[0]:
            timeout_s = _PLACEMENT_POLL_S
            blocked = blocked_reason(demand_of(instance.spec), await read_cluster())
            if blocked:
                instance.reason = f"instance {instance.spec.name} is {blocked}"
                instance.settle()
                self._notify()
        if instance.reason:
            instance.reason = f"instance {instance.spec.name} is loading"
            self._notify()

    async def _watch(self, instance: _Instance) -> None:
        """Return when the actor's process has ended."""
        why = "it closed"
        try:
            await call(instance.handle.wait_closed.remote())
        except (RayError, TritonError) as error:
            why = cause_of(error)
        instance.description = None
        instance.reason = f"instance {instance.spec.name} died: {why}; restarting"
        _log.warning("%s", instance.reason)
        self._notify()


async def _answers(handle: Any) -> None:
    # That an actor is lost is for `describe` to tell.
    with contextlib.suppress(RayError, TritonError):
        await call(handle.health.remote())


async def _end(instance: _Instance, drain_s: float) -> None:
    if instance.handle is None and instance.creation is not None:
        with contextlib.suppress(RayError, TritonError, ValueError):
            instance.handle = await instance.creation
    if instance.handle is None:
        return
    if instance.description is not None:
        # A hung or dying actor must not hold up the others: whatever happens, it is killed.
        with contextlib.suppress(RayError, TritonError, TimeoutError):
            async with asyncio.timeout(drain_s + 1):
                await call(instance.handle.drain.remote(drain_s))
        with contextlib.suppress(RayError, TritonError, TimeoutError):
            async with asyncio.timeout(drain_s + 1):
                await call(instance.handle.shutdown.remote())
    await asyncio.to_thread(_kill, instance.handle)


def _kill(handle: Any) -> None:
    with contextlib.suppress(RayError, ValueError):
        ray.kill(handle, no_restart=True)


async def _is_gone(instance: _Instance) -> bool:
    """Whether Ray has given the actor up, rather than being about to restart it."""
    try:
        await asyncio.to_thread(ray.get_actor, instance.spec.name, namespace=NAMESPACE)
    except ValueError:
        return True
    return False


async def find_live_instances() -> list[LiveInstance]:
    """Describe the instance actors that are alive, and kill those that cannot answer."""
    texts = await asyncio.to_thread(_actor_names)
    names = [name for name in map(parse_actor_name, texts) if name is not None]
    found = await asyncio.gather(*(_find_live(name) for name in names))
    return [live for live in found if live is not None]


def _actor_names() -> list[str]:
    actors: Sequence[dict[str, str]] = ray.util.list_named_actors(all_namespaces=True)
    return [actor["name"] for actor in actors if actor["namespace"] == NAMESPACE]


async def _find_live(name: ActorName) -> LiveInstance | None:
    try:
        handle = await asyncio.to_thread(ray.get_actor, str(name), namespace=NAMESPACE)
    except ValueError:
        return None
    try:
        async with asyncio.timeout(_ADOPTION_TIMEOUT_S):
            return LiveInstance(name, handle, await call(handle.describe.remote()))
    except (RayError, TritonError, TimeoutError) as error:
        _log.warning("instance %s is not adopted: %s", name, cause_of(error))
        await asyncio.to_thread(_kill, handle)
        return None


async def kill_instances(instances: Iterable[LiveInstance]) -> None:
    """Kill actors that belong to no generation in service."""
    for instance in instances:
        _log.info("orphan instance %s is killed", instance.name)
        await asyncio.to_thread(_kill, instance.handle)


async def read_cluster() -> ClusterResources:
    """Ask Ray for its nodes and what is free on each."""
    return await asyncio.to_thread(_read_cluster)


def _read_cluster() -> ClusterResources:
    state: Any = ray._private.state  # noqa: SLF001 - no public twin tells nodes apart
    available = state.available_resources_per_node()
    nodes: list[dict[str, Any]] = ray.nodes()
    return ClusterResources(
        tuple(
            NodeResources(node["NodeID"], node["Resources"], available.get(node["NodeID"], {}))
            for node in nodes
            if node["Alive"]
        )
    )
