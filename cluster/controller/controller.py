# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The model controller: one named actor that owns every model instance.

It is the only writer of cluster state. Nothing on the data path waits for it: routers and instances
go on with what they have while it is gone. It restarts without limit, and its constructor is its
recovery: find the live instances, put in service those whose files and options are unchanged, load
what is missing, unload what nobody wants, and hand out a table that is newer than any before.

A detached actor outlives the process that made it. It therefore watches its owner
(`cluster.controller.ownership`), and drains and ends the server itself once the owner is gone.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from cluster.autoscaling.autoscaler import Autoscaler
from cluster.controller.backend_options import device_rules
from cluster.controller.boot import ROUTERS_TIMEOUT_S, Boot, read_state, try_or_restart
from cluster.controller.events import EventLog
from cluster.controller.explaining import explain, instances
from cluster.controller.gcs_watch import GcsWatch
from cluster.controller.host import ControllerHost, ray_host
from cluster.controller.model_calls import ModelCalls
from cluster.controller.owner_calls import OwnerCalls, watch_owner
from cluster.controller.ownership import Lifeline, Owner
from cluster.controller.policies import RESIDENCY, make_reconciler
from cluster.controller.prestarting import Preloading
from cluster.controller.repository_source import RepositorySource
from cluster.controller.routing_publisher import RoutingPublisher
from cluster.controller.shared_files import SharedFiles, node_files_settings
from cluster.controller.started_with import settings_now
from cluster.models.contracts import LifecycleSettings
from cluster.models.downloads import Downloads
from cluster.models.lifecycle import ModelLifecycle
from cluster.models.states import status_rows
from cluster.options.parsing import ServerOptions
from cluster.options.settings_at_start import log_settings, settings_at_start
from cluster.rollout.driver import Rollouts
from cluster.rollout.evidence import CustomCounters
from cluster.tenancy.lease_board import LeaseBoard
from cluster.threads import GCS
from deployments.contracts.routing_table import PollAnswer
from deployments.settings.log_lines import set_up_logging
from deployments.settings.server_settings import LogChange, ServerSettings, SettingsChange, changed
from deployments.supervision.supervisor import Supervisor

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

# Time for the answer to `shutdown` to leave before the process ends.
_LAST_WORDS_S = 0.2
# Longer than replicas get to drain (`serve_application.delete`); Serve's own calls have no end.
_INGRESS_TIMEOUT_S = 150.0
# A head that is gone has no state that could be cleared.
_CLEAR_TIMEOUT_S = 10.0


def passed_to(
    part: str, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method of an actor that calls one of a part."""

    @wraps(method)
    async def pass_on(actor: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await method(getattr(actor, part), *args, **kwargs)

    return pass_on


class ModelController:
    """The actor; created by `cluster.server.start_controller`.

    Args:
        owner: Whom the server belongs to.
        make_host: Connects the actor to its cluster; takes for how many seconds an instance may
            get nowhere before it is replaced.
        resumes: Whether it goes on where another controller of the same owner has ended: of another
            release, with other options, or lost.
        has_secrets: Whether the cluster's store has values of secret options.
    """

    async def __init__(  # type: ignore[misc]  # Ray awaits it
        self,
        options: ServerOptions,
        owner: Owner,
        make_host: Callable[[float], ControllerHost] = ray_host,
        *,
        resumes: bool = False,
        has_secrets: bool = False,
    ) -> None:
        set_up_logging(log_settings(options))
        self._host = host = make_host(options.instance_heartbeat_timeout_secs)
        self._lifeline = Lifeline(owner, time.monotonic())

        async def make() -> None:
            self._make()

        # Nothing here may raise: Ray restarts a controller whose process has ended, and never one
        # whose constructor has raised. Until it returns Ray keeps all calls of it.
        self._options, self._state = await try_or_restart(
            "the look into the cluster's store",
            lambda: read_state(
                host.process, options, owner.token, has_secrets=has_secrets, resumes=resumes
            ),
            host.process.restart_process,
        )
        await try_or_restart("the making of the controller", make, host.process.restart_process)
        self._boot_task = self._supervisor.spawn("start of the models", self._boot.run())
        self._keep_following()

    def _make(self) -> None:
        """Make all parts; none of them does anything yet."""
        options, host = self._options, self._host
        self._downloads = Downloads()
        self._events = EventLog(time.time_ns)
        saved = self._state.saved
        self._gcs = GcsWatch(self._state.check_fence)
        host.actors.placer.devices.rules = device_rules(options, self._state)
        self._caches = node_files_settings(options)
        files = SharedFiles(host.nodes, host.files, self._caches)
        self._source = RepositorySource(
            options,
            self._state,
            host.nodes.read_cluster,
            files,
            self._changed,
            host.files.tell_agents,
        )
        self._lifecycle = ModelLifecycle(
            self._source,
            host.actors.make_pool,
            self._changed,
            LifecycleSettings(
                thread_count=options.model_load_thread_count,
                retry_count=options.model_load_retry_count,
                drain_s=float(options.exit_timeout_secs),
            ),
            lambda: self._publisher.wait_known(ROUTERS_TIMEOUT_S),
        )
        self._publisher = RoutingPublisher(
            self._lifecycle.records,
            time.time_ns,
            settings_now(saved.settings, saved.started_with, settings_at_start(options)),
            saved.router_ids,
            has_namespaces=options.model_namespacing,
            read_reachable=lambda: self._source.watch.reachable,
        )
        if saved.settings is not None:
            saved.settings = self._publisher.settings
        set_up_logging(self._publisher.settings.log)
        # Before any table is handed out: the first one says which versions answer.
        self._rollouts = Rollouts(
            self._lifecycle.records,
            self._lifecycle.direct,
            saved.rollouts,
            self._state.schedule,
            CustomCounters(self._lifecycle.pool_of),
        )
        self._supervisor = Supervisor("controller")
        self._boot = Boot(
            options,
            host,
            self._state,
            self._source,
            self._lifecycle,
            self._publisher,
            saved.started_with,
        )
        self._autoscaler = Autoscaler(
            self._lifecycle,
            self._source.counts,
            self._supervisor.spawn,
            self._lifecycle.dormancy.rest,
        )
        self._tenant_leases = LeaseBoard(time.monotonic())

    def _keep_following(self) -> None:
        """Begin what goes on for as long as the controller lives."""
        if self._lifeline.period_s:
            lifeline = self._lifeline
            self._supervisor.keep("watch of the owner", lambda: watch_owner(lifeline, self.end))
        self._supervisor.keep("watch of the GCS", self._gcs.run)
        self._host.actors.placer.on_loaded.append(Preloading().loaded)
        # Nobody but its own process watches over a Ray of the server's own.
        is_joined = self._lifeline.period_s > 0
        parts = self._autoscaler, self._rollouts, self._caches
        self._reconciler = make_reconciler(self._boot, *parts, is_joined=is_joined)
        self._reconciling = self._supervisor.keep("reconciler", self._reconciler.run)
        self._owner_calls = OwnerCalls(self._boot, self._lifeline, self._supervisor)
        self._model_calls = ModelCalls(
            self._boot,
            self._gcs,
            self._downloads,
            self._rollouts,
            lambda: self._reconciler.look_soon(RESIDENCY),
        )

    # The driver's calls

    server_options = passed_to("_owner_calls", OwnerCalls.server_options)
    owner = passed_to("_owner_calls", OwnerCalls.owner)
    process_settings = passed_to("_owner_calls", OwnerCalls.process_settings)
    heartbeat = passed_to("_owner_calls", OwnerCalls.heartbeat)
    release = passed_to("_owner_calls", OwnerCalls.release)
    hand_over = passed_to("_owner_calls", OwnerCalls.hand_over)
    renewal = passed_to("_owner_calls", OwnerCalls.renewal)
    renew = passed_to("_owner_calls", OwnerCalls.renew)

    async def start(self) -> list[dict[str, str]]:
        """Wait until start-up loading is done and return `status`.

        Raises:
            TritonError: There is no model repository that can be read.
        """
        await asyncio.shield(self._boot_task)
        if self._boot.error is not None:
            raise self._boot.error
        return status_rows(self._lifecycle.records)

    async def status(self) -> list[dict[str, str]]:
        """Return name, version, backend, instances, state and reason of each model version."""
        return status_rows(self._downloads.shown_in(self._lifecycle.records))

    async def explain(self, name: str) -> list[dict[str, Any]]:
        """Return why a model's instances are where they are, or what they wait for.

        Raises:
            NotFoundError: There is no such model.
        """
        return await explain(name, self._host.nodes, self._host.actors.placer, self._lifecycle)

    async def instances(self) -> list[dict[str, Any]]:
        """Return a row for each instance; see `RepositoryControl.instances`."""
        return await instances(self._host.nodes, self._host.actors.placer, self._lifecycle)

    async def events(self, since: int) -> list[dict[str, Any]]:
        """Return what has become of models and instances; see `RepositoryControl.events`."""
        return self._events.since(since)

    async def report_download(
        self, key: str, version: int, node_id: str, there_bytes: int, all_bytes: int
    ) -> None:
        """Note how far a node is with the files of a version; see `Downloads.note`."""
        self._downloads.note(key, version, node_id, there_bytes, all_bytes)

    async def end(self) -> None:
        """End the whole server in its owner's place: the ingress, then `shutdown`."""
        end_ingress = self._lifeline.owner.end_ingress
        if end_ingress is not None and not self._boot.is_ending:
            try:
                async with asyncio.timeout(_INGRESS_TIMEOUT_S):
                    await GCS.run(end_ingress)
            except Exception:
                # Serve may be as gone as the owner; that must not keep the instances alive.
                _log.exception("end of the ingress")
        await self.shutdown(float(self._options.exit_timeout_secs))

    async def shutdown(self, timeout_s: float) -> None:
        """Tell routers, drain and end every instance, then end this actor.

        Args:
            timeout_s: How long requests in flight may take.
        """
        if self._boot.is_ending:
            return
        self._boot.is_ending = True
        self._publisher.mark_exiting()
        for task in (self._reconciling, self._owner_calls.renewing, self._boot_task):
            task.cancel()
        await asyncio.wait({self._boot_task})
        steps: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
            ("drain", lambda: self._drain(timeout_s)),
            ("end of instances", self._kill_instances),
            ("end of the rate limiters", self._host.nodes.end_arbiters),
            ("end of what fetches files", self._host.files.end_node_files),
            ("durable state", self._clear_state),
        )
        for name, step in steps:
            # What is left behind by one step must not keep the next from being made.
            try:
                await step()
            except Exception:
                _log.exception("shutdown: %s", name)
        asyncio.get_running_loop().call_later(_LAST_WORDS_S, self._host.process.end_process)

    async def _drain(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s + 5):
                await self._lifecycle.close(timeout_s)
        except TimeoutError:
            _log.error("Exit timeout expired. Exiting immediately.")

    async def _kill_instances(self) -> None:
        found = await self._host.actors.find_live_instances()
        await self._host.actors.kill_instances(found.described)
        await self._host.actors.kill_instances(await found.late())

    async def _clear_state(self) -> None:
        async with asyncio.timeout(_CLEAR_TIMEOUT_S):
            await self._state.clear()

    # The ingresses' calls

    async def lane_secret(self) -> bytes:
        """Return the key of the lanes' handshake."""
        return self._state.secret

    async def routing_table(
        self,
        known_version: int,
        timeout_s: float,
        router_id: str = "",
        reported: int = 0,
        report: bytes = b"",
    ) -> PollAnswer:
        """Answer a router's poll of the routing table; see `RoutingPublisher.poll`."""
        if router_id and router_id not in self._state.saved.router_ids:
            self._state.saved.router_ids = [*self._publisher.router_ids, router_id]
            self._state.schedule()
        return await self._publisher.poll(known_version, timeout_s, router_id, reported, report)

    async def report_load(self, router_id: str, report: bytes) -> None:
        """Take what a router tells of the load on versions that autoscale.

        Args:
            router_id: The router.
            report: See `deployments.contracts.load_report`.
        """
        self._autoscaler.take(router_id, report)

    async def renew_tenants(self, router_id: str, report: bytes) -> bytes:
        """Return a router's leases of tenants' cluster-wide limits.

        Args:
            router_id: The router.
            report: What it asks for; see `deployments.tenants.leases`.
        """
        return self._tenant_leases.renewed(router_id, report, time.monotonic())

    async def router_reports(self, router_id: str) -> list[bytes]:
        """Return what all routers but the one that asks have counted until now."""
        return await self._publisher.collect(router_id, ROUTERS_TIMEOUT_S)

    async def report_wedged(self, name: str, incarnation: str, reason: str) -> None:
        """Ask an instance at once that a router got no answer from, and replace it if need be.

        Args:
            name: Its name.
            incarnation: Its process; one that is not in service any more is nobody's concern.
            reason: What the router saw.
        """
        _log.warning("a router reports instance %s (%s): %s", name, incarnation, reason)
        self._host.actors.suspect(incarnation)

    async def change_settings(self, change: SettingsChange) -> ServerSettings:
        """Make a change, wait until the ingresses have heard of it and return what holds now.

        Raises:
            TritonError: The change is refused.
        """
        settings = changed(self._publisher.settings, change)
        self._publisher.settings = self._state.saved.settings = settings
        self._publisher.changed()
        if isinstance(change, LogChange):
            set_up_logging(settings.log)
        await self._state.save()
        await self._publisher.wait_known(ROUTERS_TIMEOUT_S)
        return settings

    wake = passed_to("_model_calls", ModelCalls.wake)
    index = passed_to("_model_calls", ModelCalls.index)
    load = passed_to("_model_calls", ModelCalls.load)
    unload = passed_to("_model_calls", ModelCalls.unload)
    report_arms = passed_to("_model_calls", ModelCalls.report_arms)
    rollout = passed_to("_model_calls", ModelCalls.rollout)

    def _changed(self, key: str = "") -> None:
        record = self._lifecycle.records.get(key)
        if record is not None:
            self._events.note(record)
        self._publisher.changed(key)
