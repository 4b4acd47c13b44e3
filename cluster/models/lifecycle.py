# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Loads, reloads and unloads models: the order in which repository, pools and records change.

Rules, each of which a test holds:

- What may be done to a version at the same time is the table of `cluster.models.operation`; an
  unload cancels a load in progress, since the newer operation wins. Different models load in
  parallel.
- Versions load all or none. What served before goes on serving until every new instance is ready,
  or, where there is no room for all, until its successor is; then routers are told first, and the
  old instances drained after.
- A version whose files and config have not changed is left alone. When nothing but its instance
  groups has, its pool gets what it lacks and loses what is too much.
- An ensemble loads after the models it is made of and again when one of them has changed. It is
  unloaded before one of them is, or when they no longer fit, and comes back with them.
- A load whose files have changed since they were listed reads the model again, a few times.

The way of a load, and who answers for what on it:

- The *candidate* (a model as just read) belongs to `ModelLifecycle._load` until `ModelVersions`
  takes it over with the first version that serves from it. `_load` releases, and so removes the
  temporary directory of, a candidate that nobody took over; `ModelVersions` releases one when the
  last instance made from it has drained.
- An *operation* is begun by `OperatedModel.run` alone, when its turn comes. It is cancelled once,
  and cleans up after itself before the next one begins; what it began ends in a task of its own
  (`VersionLoader`, `Succession`), which nobody cancels.
- *Pending*, for want of room, is an operation that has called `Operation.block`: `load` then
  returns to who asked, and the operation goes on. `is_pending` alone tells.

Models go by their keys here (`backends.api.model_identifier`). This module knows neither Ray nor
the file system: pools and the repository are passed in.

Triton: core/src/model_repository_manager/model_lifecycle.cc, model_repository_manager.cc @73aad7c
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from backends.api.errors import TritonError, UnavailableError
from backends.api.model_identifier import shown
from cluster.instances.pool import InstancePool
from cluster.models.contracts import (
    Candidate,
    LifecycleSettings,
    MakePool,
    ModelSource,
)
from cluster.models.dependencies import affected_by, dependents_of
from cluster.models.dormancy import Dormancy
from cluster.models.ensembles import Ensembles
from cluster.models.evacuation import Evacuation
from cluster.models.operated_model import OperatedModel
from cluster.models.operation import Kind, Meeting, Operation
from cluster.models.override import NO_OVERRIDE, Override
from cluster.models.records import Records
from cluster.models.renewal import Renewal
from cluster.models.succession import Succession
from cluster.models.turns import Turns
from cluster.models.version_loader import VersionLoader
from cluster.models.versions import ModelVersions
from cluster.models.wake_room import WakeRoom
from deployments.supervision.supervisor import Supervisor

_log = logging.getLogger(__name__)

# A model in a store that changes while nodes download it is listed again after each of these.
_RELIST_DELAYS_S: Final = (1.0, 2.0, 4.0)

_OUTDATED = (
    "Newer operation has been applied to the model lifecycle, current load operation is out-dated."
)


class ModelLifecycle:
    """All models of the server.

    Args:
        make_pool: Makes an empty pool that calls its argument after each change.
        on_change: Called on the loop with a model's key after each change of its record.
        routers_know: Returns when routers have heard of the records as they are; bounded in time.

    Attributes:
        records: By key.
        dormancy: Puts versions to rest and wakes them.
        evacuation: Empties nodes.
        renewal: Replaces instances of other releases.
    """

    def __init__(
        self,
        source: ModelSource,
        make_pool: MakePool,
        on_change: Callable[[str], None],
        settings: LifecycleSettings,
        routers_know: Callable[[], Awaitable[None]],
    ) -> None:
        self._records = Records(on_change)
        self.records = self._records.by_name
        self.desire = self._records.desire
        self.direct = self._records.direct
        self.restore_unloaded = self._records.restore_unloaded
        self._source = source
        self._make_pool = make_pool
        self._loader = VersionLoader(source, settings, self._spawn)
        self._drain_s = settings.drain_s
        self._routers_know = routers_know
        self._models: dict[str, OperatedModel] = {}
        self._supervisor = Supervisor("models")
        self._background: set[asyncio.Task[None]] = set()
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._ensembles = Ensembles(source, self._records, self._load_part)
        self._composing = self._ensembles.composing
        room = WakeRoom(self._records)
        self.dormancy = Dormancy(self._records, room, self.model_of, self.load)
        self.evacuation = Evacuation(self._records, self.model_of, self._followed)
        self.renewal = Renewal(self.pools, self.model_of, settings.drain_s)

    async def load_all(
        self,
        names: Iterable[str],
        overrides: Mapping[str, Override] | None = None,
        *,
        is_poll: bool = False,
    ) -> None:
        """Load models in parallel; failures are left in the records.

        What an earlier call still loads is left to it.
        """
        given, turns = overrides or {}, Turns()
        for name in names:
            if name not in self._starting:
                work = partial(self.load, name, given.get(name, NO_OVERRIDE), is_poll=is_poll)
                load = self._starting[name] = turns.spawn(work)
                load.add_done_callback(partial(self._started, name))
        await turns.run()

    def _started(self, name: str, load: asyncio.Task[None]) -> None:
        if self._starting.get(name) is load:
            del self._starting[name]

    def begin_all(
        self, names: Iterable[str], overrides: Mapping[str, Override] | None = None
    ) -> asyncio.Task[None]:
        """`load_all` for a poll, which need not wait for it: it is followed here."""
        loads = self.load_all(names, overrides, is_poll=True)
        return self._supervisor.spawn("loads of a poll", loads)

    async def load(
        self,
        name: str,
        override: Override = NO_OVERRIDE,
        *,
        is_explicit: bool = True,
        is_poll: bool = False,
        needed_by: str = "",
    ) -> None:
        """Load or reload a model; a model that has not changed is left as it is.

        Args:
            name: Model.
            override: What to load it with in place of the repository's.
            is_explicit: Whether a user asked for it.
            is_poll: Whether the poll of the repository asks. What failed, or is pending, is then
                left alone unless it has changed since.
            needed_by: The ensemble that is waiting for it; others made of it are loaded anew.

        Raises:
            TritonError: The load failed; what served before still serves. UNAVAILABLE when it is
                pending for want of room, or when an unload overtook it.
        """
        model = self.model_of(name)
        may_join = is_poll and Meeting.JOIN in model.meetings(Kind.POLL)
        if may_join and await self._is_loading(name, model):
            return
        starting = self._starting.get(name)
        is_starting = starting is not None and starting is asyncio.current_task()

        async def load(operation: Operation) -> None:
            await self._load(name, model, operation, override, is_explicit, is_poll)
            if operation.has_changed:
                # An ensemble that loads anew and needs it again must not wait for it.
                if is_starting and self._starting.get(name) is starting:
                    del self._starting[name]
                reload = self._reload_dependents(name, needed_by)
                operation.following = self._spawn(f"ensembles of '{name}'", reload)

        operation = await model.run(Kind.LOAD, None, f"load of '{name}'", load)
        if operation is None or operation.was_cancelled:
            raise UnavailableError(_OUTDATED)
        if not operation.is_over:
            raise UnavailableError(
                f"load of model '{shown(name)}' is pending and goes on in the background:"
                f" {self._records.reasons(name)}"
            )
        operation.result()
        if operation.following is not None:
            await asyncio.shield(operation.following)

    async def unload(self, name: str, *, unload_dependents: bool = False) -> frozenset[str]:
        """Unload all versions of a model, and the ensembles made of it.

        A model that is not loaded is left alone.

        Returns:
            The models that are no longer wanted: this one, those ensembles and, when asked for,
            what they were made of.

        Args:
            name: Model.
            unload_dependents: Whether the models an ensemble is made of go too, unless a user asked
                for them or another ensemble needs them.
        """
        if name not in self._models and name not in self.records:
            return frozenset((name,))
        self.model_of(name).kept_override = NO_OVERRIDE
        composing = self._composing.pop(name, frozenset())
        if name in self.records:
            unwanted = replace(self.records[name], is_explicit=False, is_on_demand=False)
            self._records.put(unwanted)
        gone = await self._withdraw(name)
        if unload_dependents:
            for part in sorted(composing):
                record = self.records.get(part)
                if record and not record.is_explicit and not dependents_of(part, self._composing):
                    gone |= await self.unload(part, unload_dependents=True)
        return gone

    async def unload_all(self, names: Iterable[str]) -> None:
        """Unload models in parallel; one that fails is logged and keeps no other from going."""
        wanted = tuple(names)
        ends = await asyncio.gather(*map(self.unload, wanted), return_exceptions=True)
        for name, end in zip(wanted, ends, strict=True):
            if isinstance(end, Exception):
                _log.error("failed to unload '%s'", name, exc_info=end)

    async def _withdraw(self, name: str) -> frozenset[str]:
        """End what serves of a model, after the ensembles made of it; returns all their names."""
        gone = frozenset((name,))
        for dependent in dependents_of(name, self._composing):
            gone |= await self._withdraw(dependent)
        model = self.model_of(name)

        async def unload(_: Operation) -> None:
            await model.versions.retire(tuple(model.versions.pools))

        operation = await model.run(Kind.UNLOAD, None, f"unload of '{name}'", unload)
        if operation is not None:
            operation.result()
        return gone

    async def _reload_dependents(self, name: str, needed_by: str) -> None:
        """Load the ensembles made of a model anew, also those that had failed for want of it."""
        for dependent in affected_by(name, self._composing):
            starting = self._starting.get(dependent)
            is_busy = self.model_of(dependent).is_busy
            # Unless it has failed since, for want of this model.
            is_waiting = dependent == needed_by and is_busy
            if is_waiting or (starting is not None and not starting.done()):
                continue
            reload = self._reload(dependent)
            if is_busy:
                # An operation on it may in turn be waiting for this model.
                self._spawn(f"reload of '{dependent}'", reload)
            else:
                await reload

    async def _reload(self, ensemble: str) -> None:
        try:
            await self.load(ensemble, self.model_of(ensemble).override, is_explicit=False)
        except TritonError:
            await self._withdraw(ensemble)

    @property
    def loading_names(self) -> frozenset[str]:
        """Keys of the models with an operation that does not just wait for room."""
        return frozenset(name for name, model in self._models.items() if model.is_busy)

    def is_pending(self, name: str) -> bool:
        """Whether a load of the model goes on in the background, for want of room."""
        model = self._models.get(name)
        loading = None if model is None else model.find(Kind.LOAD)
        return loading is not None and loading.is_pending

    async def close(self, drain_s: float) -> None:
        """Drain and end every instance. Nothing may be loaded afterwards."""
        self.dormancy.close()
        for model in self._models.values():
            for operation in list(model.operations):
                operation.cancel()
        await asyncio.gather(*(each.versions.close(drain_s) for each in self._models.values()))
        while self._background:
            await asyncio.gather(*self._background, return_exceptions=True)

    async def resize(self, name: str, version: int, count: int) -> bool:
        """Give a version another count of instances; see `OperatedModel.resize`."""
        model = self._models.get(name)
        return model is not None and await model.resize(version, count)

    def pool_of(self, name: str, version: int) -> InstancePool | None:
        """Return the instances of a version; None while it is not in service."""
        model = self._models.get(name)
        return None if model is None else model.versions.pools.get(version)

    def pools(self) -> Iterator[tuple[str, int, InstancePool]]:
        """Return model key, version and instances of all versions in service, in this order."""
        for key, model in sorted(self._models.items()):
            for version, pool in sorted(model.versions.pools.items()):
                yield key, version, pool

    async def _load(
        self,
        name: str,
        model: OperatedModel,
        operation: Operation,
        override: Override,
        is_explicit: bool,
        is_poll: bool,
    ) -> None:
        candidate: Candidate | None = None
        failed = model.versions.failed
        try:
            candidate = await self._source.read(name, override, model.kept_override)
            if is_poll and failed is not None and failed.is_same(candidate):
                await self._source.release(candidate)
                return
            for delay_s in (*_RELIST_DELAYS_S, None):
                failed = model.versions.failed
                try:
                    await self._take(name, model, operation, candidate, is_poll)
                    break
                except TritonError as error:
                    if delay_s is None or not model.versions.is_outdated:
                        raise
                    _log.warning("'%s' is listed again: %s", shown(name), error.message.strip())
                await asyncio.sleep(delay_s)
                candidate = await self._source.read(name, override, model.kept_override)
        except TritonError as error:
            record = self._records.of(name)
            cause = error.__cause__
            reason = cause.message if isinstance(cause, TritonError) else error.message
            self._records.put(replace(record, failure=reason.strip()))
            if record.composing and record.ready_versions:
                # What goes on serving goes with what it is made of.
                self._composing[name] = self._composing.get(name, frozenset()) | record.composing
            if record.ready_versions or not self._waits_for_models(name):
                # Nobody asks for what was refused when it is loaded anew with its models.
                model.override = model.kept_override
            if candidate is not None and model.versions.failed is failed:
                # What cannot be read, and versions that fail, are logged where that happens.
                _log.error(
                    "failed to load '%s': %s",
                    shown(name),
                    reason.strip(),
                    extra={"model": shown(name)},
                )
            raise
        model.kept_override = model.override
        is_explicit = is_explicit or self.records[name].is_explicit
        self._records.put(replace(self.records[name], failure="", is_explicit=is_explicit))

    def _waits_for_models(self, name: str) -> bool:
        """Whether a model that an ensemble is made of does not serve."""
        parts = self._composing.get(name, frozenset())
        return not all(self._records.of(part).ready_versions for part in parts)

    async def _take(
        self,
        name: str,
        model: OperatedModel,
        operation: Operation,
        candidate: Candidate,
        is_poll: bool,
    ) -> None:
        """Load what was read; nothing is left of it unless it serves."""
        operation.candidate = candidate
        try:
            model.override = candidate.override
            candidate, composing = await self._ensembles.compose(name, candidate)
            operation.has_changed = await model.versions.load(
                candidate, composing, operation.block, is_poll=is_poll
            )
        finally:
            operation.candidate = None
            if model.versions.candidate is not candidate:
                self._spawn(f"release of '{name}'", self._source.release(candidate))

    async def _is_loading(self, name: str, model: OperatedModel) -> bool:
        """Whether the pending load of a model is what a load begun now would be."""
        try:
            candidate = await self._source.read(name, NO_OVERRIDE, model.kept_override)
        except TritonError:
            # The load that comes next meets the error too, and says so.
            return False
        await self._source.release(candidate)
        candidates = [each.candidate for each in model.operations if each.candidate is not None]
        return any(each.is_same(candidate) for each in candidates)

    async def _load_part(self, part: str, needed_by: str) -> TritonError | None:
        if self._records.of(part).ready_versions:
            return None
        starting = self._starting.get(part)
        try:
            if starting is not None:
                await asyncio.shield(starting)
            else:
                await self.load(part, is_explicit=False, needed_by=needed_by)
        except TritonError as error:
            return error
        return None

    def ensembles_of(self, name: str) -> Iterable[str]:
        """Return the ensembles made of a model, also those that failed for want of it."""
        return affected_by(name, self._composing)

    def model_of(self, name: str) -> OperatedModel:
        """Return what is kept of a model, known or not."""
        model = self._models.get(name)
        if model is None:
            succession = Succession(
                name, self._source, self._spawn, self._routers_know, self._drain_s
            )
            versions = ModelVersions(
                name, self._records, self._loader, self._make_pool, self._spawn, succession
            )
            model = self._models[name] = OperatedModel(versions, self._followed)
        return model

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._followed(self._supervisor.spawn(name, work))

    def _followed(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        """Have `close` wait for a task."""
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task
