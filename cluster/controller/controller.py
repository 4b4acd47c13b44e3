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
import warnings
from collections.abc import Coroutine, Mapping
from typing import Any

import ray

from backends.api.errors import TritonError, UnavailableError
from backends.api.request import ParameterValue
from cluster.actors.arbiter import end_arbiters
from cluster.controller.durable_state import DurableState
from cluster.controller.ownership import Lifeline, Owner
from cluster.controller.recovery import adopt_live_instances
from cluster.controller.repository_source import RepositorySource
from cluster.controller.routing_publisher import RoutingPublisher
from cluster.instances.live import find_live_instances, kill_instances
from cluster.instances.pool import InstancePool
from cluster.models.contracts import LifecycleSettings, Override, read_override
from cluster.models.lifecycle import ModelLifecycle
from cluster.models.states import index_rows
from cluster.models.status import status_rows
from cluster.options.parsing import ServerOptions
from cluster.options.settings_at_start import log_settings, settings_at_start
from cluster.placement.nodes import read_cluster
from cluster.repository.repository import check_model_name
from deployments.contracts.routing_table import RoutingTable
from deployments.settings.log_lines import set_up_logging
from deployments.settings.server_settings import LogChange, ServerSettings, SettingsChange, changed

_log = logging.getLogger(__name__)

# How long a restarted controller keeps its table to itself while it puts models back in service.
_HOLD_S = 10.0
# What routers get to take a new table; they do within milliseconds or are gone.
_ROUTERS_TIMEOUT_S = 1.0
# Time for the answer to `shutdown` to leave before the process ends.
_LAST_WORDS_S = 0.2


class ModelController:
    """The actor; created by `cluster.server.start_controller`.

    Args:
        options: The server's options.
        owner: Whom the server belongs to.
    """

    async def __init__(  # type: ignore[misc]  # Ray awaits it
        self, options: ServerOptions, owner: Owner
    ) -> None:
        set_up_logging(log_settings(options))
        self._options = options
        self._is_explicit = options.model_control_mode == "explicit"
        self._shutting_down = False
        self._lifeline = Lifeline(owner, time.monotonic())
        is_restart = _was_restarted()
        self._state = await (DurableState.restore() if is_restart else DurableState.create())
        self._source = RepositorySource(options, self._state, read_cluster)
        self._lifecycle = ModelLifecycle(
            self._source,
            InstancePool,
            self._changed,
            LifecycleSettings(
                thread_count=options.model_load_thread_count,
                retry_count=options.model_load_retry_count,
                drain_s=float(options.exit_timeout_secs),
            ),
        )
        self._publisher = RoutingPublisher(
            self._lifecycle.records,
            time.time_ns,
            self._state.saved.settings or settings_at_start(options),
            self._state.saved.router_ids,
        )
        set_up_logging(self._publisher.settings.log)
        self._tasks: set[asyncio.Task[None]] = set()
        self._recovered = asyncio.Event()
        self._boot_error: TritonError | None = None
        self._boot_task = self._spawn(self._boot())
        if self._lifeline.period_s:
            self._spawn(self._watch_owner())
        if options.model_control_mode == "poll":
            self._spawn(self._poll())

    # The driver's calls

    async def start(self) -> list[dict[str, str]]:
        """Wait until start-up loading is done and return `status`.

        Raises:
            TritonError: There is no model repository that can be read.
        """
        await asyncio.shield(self._boot_task)
        if self._boot_error is not None:
            raise self._boot_error
        return status_rows(self._lifecycle.records)

    async def server_options(self) -> ServerOptions | None:
        """Return the options this controller runs with; None when it is about to end."""
        return None if self._shutting_down else self._options

    async def owner(self) -> tuple[Owner, float]:
        """Return the owner and for how many seconds nothing was heard of it."""
        return self._lifeline.owner, self._lifeline.silence_s(time.monotonic())

    async def heartbeat(self) -> None:
        """Note that the owner is there."""
        self._lifeline.heard(time.monotonic())

    async def status(self) -> list[dict[str, str]]:
        """Return name, version, backend, instances, state and reason of each model version."""
        return status_rows(self._lifecycle.records)

    async def end(self) -> None:
        """End the whole server in its owner's place: the ingress, then `shutdown`."""
        end_ingress = self._lifeline.owner.end_ingress
        if end_ingress is not None and not self._shutting_down:
            try:
                await asyncio.to_thread(end_ingress)
            except Exception:
                # Serve may be as gone as the owner; that must not keep the instances alive.
                _log.exception("end of the ingress")
        await self.shutdown(float(self._options.exit_timeout_secs))

    async def shutdown(self, timeout_s: float) -> None:
        """Tell routers, drain and end every instance, then end this actor.

        Args:
            timeout_s: How long requests in flight may take.
        """
        if self._shutting_down:
            return
        self._shutting_down = True
        self._publisher.mark_exiting()
        self._boot_task.cancel()
        await asyncio.wait({self._boot_task})
        try:
            async with asyncio.timeout(timeout_s + 5):
                await self._lifecycle.close(timeout_s)
        except TimeoutError:
            _log.error("Exit timeout expired. Exiting immediately.")
        await kill_instances(await find_live_instances())
        await asyncio.to_thread(end_arbiters)
        await self._state.clear()
        handle = ray.get_runtime_context().current_actor
        asyncio.get_running_loop().call_later(_LAST_WORDS_S, _end_actor, handle)

    # The ingresses' calls

    async def lane_secret(self) -> bytes:
        """Return the key of the lanes' handshake."""
        return self._state.secret

    async def routing_table(
        self, known_version: int, timeout_s: float, router_id: str = "", report: bytes = b""
    ) -> RoutingTable | None:
        """Return the table once it is newer than ``known_version``; None after ``timeout_s``.

        Args:
            known_version: The table the router has.
            timeout_s: How long to wait.
            router_id: Who asks.
            report: What it has counted itself; see `deployments.routing.reports`.
        """
        if router_id and router_id not in self._state.saved.router_ids:
            self._state.saved.router_ids = [*self._publisher.router_ids, router_id]
            self._spawn(self._state.save())
        return await self._publisher.wait_newer(known_version, timeout_s, router_id, report)

    async def router_reports(self, router_id: str) -> list[bytes]:
        """Return what all routers but the one that asks have counted until now."""
        return await self._publisher.collect(router_id, _ROUTERS_TIMEOUT_S)

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
        await self._publisher.wait_known(_ROUTERS_TIMEOUT_S)
        return settings

    async def index(self, ready_only: bool = False) -> list[dict[str, str]]:
        """Return the repository index.

        Raises:
            TritonError: A repository cannot be listed.
        """
        names, duplicates = await self._source.list_names()
        return index_rows(self._lifecycle.records, names, duplicates, ready_only=ready_only)

    async def load(self, name: str, parameters: Mapping[str, ParameterValue | bytes]) -> None:
        """Load or reload a model and wait until that is done.

        Raises:
            TritonError: As Triton's repository API would.
        """
        self._require_explicit()
        check_model_name(name)
        override = read_override(name, parameters)
        await self._recovered.wait()
        try:
            await self._lifecycle.load(name, override)
        except TritonError:
            if self._lifecycle.is_pending(name):
                await self._remember_load(name)
            raise
        await self._remember_load(name)
        await self._publisher.wait_known(_ROUTERS_TIMEOUT_S)

    async def _remember_load(self, name: str) -> None:
        self._state.saved.want(name, self._lifecycle.records.values())
        if not await self._state.save_override(name, self._lifecycle.override_of(name)):
            _log.warning("the files model '%s' was loaded with are too big to be kept", name)
        await self._state.save()

    async def unload(self, name: str, unload_dependents: bool = False) -> None:
        """Unload a model and wait until that is done; an unknown one is no error.

        Raises:
            TritonError: As Triton's repository API would.
        """
        self._require_explicit()
        await self._recovered.wait()
        gone = await self._lifecycle.unload(name, unload_dependents=unload_dependents)
        self._state.saved.forget(gone, self._lifecycle.records.values())
        await self._state.save_override(name, Override())
        await self._state.save()
        await self._publisher.wait_known(_ROUTERS_TIMEOUT_S)

    def _require_explicit(self) -> None:
        if self._shutting_down:
            raise UnavailableError("Server exiting")
        if not self._is_explicit:
            raise UnavailableError(
                "explicit model load / unload is not allowed if polling is enabled"
            )

    # Start, restart, poll, lease

    async def _boot(self) -> None:
        try:
            adopted = await adopt_live_instances(
                self._source, self._lifecycle, self._state.has_files_of
            )
            _log.info("%d live instances adopted", adopted)
            if self._state.saved.is_initialised:
                self._publisher.mark_initialised()
            for name, versions in self._state.saved.unloaded.items():
                self._lifecycle.restore_unloaded(name, versions)
            loads = self._spawn(self._load_wanted())
            # Routers go on with their last table until this one is as complete.
            is_restart = bool(adopted) or self._state.saved.is_initialised
            await asyncio.wait({loads}, timeout=_HOLD_S if is_restart else 0)
            self._publisher.release()
            self._recovered.set()
            await asyncio.wait({loads})
            loads.result()
        except TritonError as error:
            _log.error("start of the models: %s", error.message)
            self._boot_error = error
        except Exception:
            # A controller that cannot start models must still answer, if only with reasons.
            _log.exception("start of the models")
        self._recovered.set()
        self._publisher.release()
        self._publisher.mark_initialised()
        if not self._state.saved.is_initialised:
            self._state.saved.is_initialised = True
            await self._state.save()

    async def _load_wanted(self) -> None:
        names = await self._wanted()
        self._state.saved.wanted = list(names) if self._is_explicit else []
        await self._state.save()
        # Files given with a load are as they were: what is alive with them needs no reload.
        is_as_given = {
            name
            for name, record in self._lifecycle.records.items()
            if record.ready_versions and self._state.has_files_of(name)
        }
        others = [name for name in names if name not in is_as_given]
        await self._lifecycle.load_all(others, self._state.overrides)
        adopted_in_vain = [
            name
            for name, record in self._lifecycle.records.items()
            if name not in names and record.ready_versions and not self._is_composing(name)
        ]
        await asyncio.gather(*map(self._lifecycle.unload, adopted_in_vain))

    def _is_composing(self, name: str) -> bool:
        records = self._lifecycle.records.values()
        return any(name in record.composing and record.ready_versions for record in records)

    async def _wanted(self) -> list[str]:
        """Return the models that shall be loaded."""
        if self._state.saved.is_initialised and self._is_explicit:
            return list(self._state.saved.wanted)
        # Also where nothing is to be loaded: a repository that is not there stops the start.
        names, duplicates = await self._source.list_names()
        if self._is_explicit and "*" not in self._options.load_model:
            return list(dict.fromkeys(self._options.load_model))
        return sorted(set(names) - set(duplicates))

    async def _poll(self) -> None:
        """Follow the repositories: load what is new or changed, unload what is gone."""
        await self._recovered.wait()
        while True:
            await asyncio.sleep(self._options.repository_poll_secs)
            try:
                names, duplicates = await self._source.list_names()
            except TritonError as error:
                _log.error("failed to poll the model repositories: %s", error.message)
                continue
            wanted = set(names) - set(duplicates)
            await self._lifecycle.load_all(sorted(wanted), retry_failed=False)
            gone = [n for n, r in self._lifecycle.records.items() if n not in wanted and r.versions]
            await asyncio.gather(*map(self._lifecycle.unload, gone))

    async def _watch_owner(self) -> None:
        owner = self._lifeline.owner
        while not self._lifeline.is_lost(time.monotonic()):
            await asyncio.sleep(self._lifeline.period_s)
            if owner.is_deployed is None:
                continue
            try:
                is_deployed = await asyncio.to_thread(owner.is_deployed)
            except ray.exceptions.RayError as error:
                _log.warning("Serve does not say whether the application is there: %s", error)
                continue
            self._lifeline.saw_application(time.monotonic(), is_deployed=is_deployed)
        _log.error("the server ends, because its owner is gone: %s", owner.description)
        await self.end()

    def _changed(self) -> None:
        self._publisher.changed()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _was_restarted() -> bool:
    with warnings.catch_warnings():
        # Ray's own property still uses a call Ray has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)


def _end_actor(handle: Any) -> None:
    ray.kill(handle, no_restart=True)
