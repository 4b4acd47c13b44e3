# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The versions of one model that serve: loads, replaces, regroups and retires their pools.

A version asks for new instances when its files, the server's options or the config have changed.
When only instance groups or the version policy have, what is there stays as it is: pools get the
instances they lack and lose those they no longer need, and versions the policy no longer selects
are unloaded.

All that is new is ready before what it replaces leaves. Where there is no room for that, it goes
one for one: an instance leaves when its successor is ready, and stays as long as it has none. Only
with another config, by which routers cannot send to both, all stay until all new ones are ready.

Triton: core/src/model_repository_manager/model_lifecycle.cc ModelLifeCycle::AsyncLoad @73aad7c
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import shown
from backends.config.autoscaling import is_autoscaled
from backends.config.normalisation import with_groups_of
from cluster.models.contracts import (
    Candidate,
    Choose,
    LifecycleSettings,
    ModelSource,
    NoInstances,
    VersionPool,
)
from cluster.models.dependencies import differ
from cluster.models.records import Records
from cluster.models.states import (
    LifecycleEvent,
    ModelRecord,
    VersionRecord,
    no_version,
    versions_failed,
)
from cluster.models.succession import Spawn, Succession
from cluster.models.version_loader import Loaded, VersionLoader
from cluster.placement.staying import instances_by_node
from deployments.contracts.routing_table import UNLOADED_REASON, ModelReadyState
from deployments.model_files.contracts import ModelChangedError

_log = logging.getLogger(__name__)

# Called by an operation that waits for room.
OnBlocked = Callable[[], None]

# What an instance that is one too many may take to end what it has begun. Nobody waits for it.
RESIZE_DRAIN_S: Final = 3600.0


class ModelVersions:
    """The pools of one model. One call of `load` or `retire` at a time.

    Args:
        name: The model's key.
        records: Where the state of the versions is kept.
        source: Frees what candidates were read to.
        loader: Loads versions.
        settings: Limits.
        spawn: Runs in the background, under a name, what nobody waits for.
        routers_know: Returns when routers have heard of the records as they are; nothing drains
            before, so that what a router still sends to a drained instance is the exception.

    Attributes:
        failed: The candidate of the last load, if its versions failed.
        is_outdated: Whether they did because its files have changed since they were listed.
    """

    def __init__(
        self,
        name: str,
        records: Records,
        source: ModelSource,
        loader: VersionLoader,
        settings: LifecycleSettings,
        spawn: Spawn,
        routers_know: Callable[[], Awaitable[None]],
    ) -> None:
        self.failed: Candidate | None = None
        self.is_outdated = False
        self._name = name
        self._records = records
        self._source = source
        self._loader = loader
        self._settings = settings
        self._spawn = spawn
        self._succession = Succession(name, source, spawn, routers_know, settings.drain_s)
        self._pools: dict[int, VersionPool] = {}
        self._digests: dict[int, str] = {}
        self._candidate: Candidate | None = None
        # What instances that are being replaced were made from.
        self._former: list[Candidate] = []
        self._composing: Mapping[str, ModelConfig] = {}
        # Versions whose instances may be others than their config asks for: such as were adopted,
        # or of which not all that shall leave have left.
        self._mixed: set[int] = set()
        self._dormant: set[int] = set()

    @property
    def candidate(self) -> Candidate | None:
        """What serves was loaded from it; None when nothing serves, or what was adopted."""
        return self._candidate

    def pool_of(self, version: int) -> VersionPool | None:
        """Return the instances of a version; None when it has no pool."""
        return self._pools.get(version)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The versions that have a pool."""
        return tuple(self._pools)

    async def load(
        self,
        candidate: Candidate,
        composing: Mapping[str, ModelConfig],
        on_blocked: OnBlocked,
    ) -> bool:
        """Make what serves what the candidate says; all or nothing.

        Args:
            candidate: The model as just read.
            composing: Configs of the models an ensemble is made of.
            on_blocked: Called when it waits for room.

        Returns:
            Whether ensembles made of this model have to be looked at.

        Raises:
            TritonError: A version failed to load; what served before still serves.
        """
        name, began_s = self._name, asyncio.get_running_loop().time()
        self.is_outdated = False
        known = self._records.of(name)
        self._records.note(replace(known, is_known=True))
        if not candidate.digests:
            raise no_version(name)
        is_composed_anew = differ(self._composing, composing)
        wanted = sorted(candidate.digests)
        new = [v for v in wanted if is_composed_anew or self._needs_reload(candidate, v)]
        regrouped = [v for v in wanted if v not in new and self._needs_regrouping(candidate, v)]
        staying: Mapping[int, tuple[str, ...]] = {}
        loaded: Mapping[int, Loaded] = {}
        if new or regrouped:
            loaded = await self._prepare(candidate, new, regrouped, on_blocked)
            staying = self._take_over(candidate, composing, loaded, new)
        else:
            # An adopted version came without what its instances do not know.
            known = self._records.of(name)
            described = _described(known, candidate, composing)
            if described != known:
                self._records.put(described)
        self._composing = composing
        stale = tuple(v for v in self._pools if v not in candidate.digests)
        if stale:
            self._spawn(f"unload of old versions of '{name}'", self.retire(stale))
        if staying:
            by_pool = {self._pools[version]: names for version, names in staying.items()}
            await self._succession.replace(by_pool, None, on_blocked)
            self._taken_over(candidate, staying)
        if loaded:
            _log.info(
                "successfully loaded '%s' in %.1f s",
                shown(name),
                asyncio.get_running_loop().time() - began_s,
                extra={"model": shown(name)},
            )
        return bool(new or stale)

    def owns(self, candidate: Candidate) -> bool:
        """Whether instances run from what the candidate was read to."""
        return self._candidate is candidate

    def adopt(
        self, version: int, digest: str, config: ModelConfig, make: "MakePool", files_dir: str
    ) -> None:
        """Put a version in service that an earlier controller loaded; see `ModelLifecycle`."""
        if files_dir:
            # To be released with the last version that serves from it.
            self._candidate = Candidate(config, files_dir, {}, is_temporary=True)
        pool: VersionPool = make(lambda: self._pool_changed(version, pool))
        self._pools[version] = pool
        self._digests[version] = digest
        self._mixed.add(version)
        record = VersionRecord(version).after(LifecycleEvent.LOAD).after(LifecycleEvent.LOADED)
        record = record.serving(config, pool.load_duration_ns, digest)
        known = replace(self._records.of(self._name), is_known=True)
        self._records.put(known.with_version(self._of_pool(record, pool)))
        # Those that drain may be what a resize has let go.
        drain_s = RESIZE_DRAIN_S if is_autoscaled(config) else None
        self._succession.shrink(pool, drain_s)

    async def resize(self, version: int, count: int, on_blocked: OnBlocked) -> None:
        """Give a version another count of instances; one that has no instance is left alone.

        New instances take requests once each of them is ready or waits for room. Those that are too
        many take none any more and end when their requests and sequences have ended.

        Args:
            version: Version number.
            count: How many instances shall take requests.
            on_blocked: Called when an instance that leaves waits for its successor.

        Raises:
            TritonError: A new instance failed to load; there are as many as before.
        """
        pool, record = self._pools.get(version), self._records.of(self._name).versions.get(version)
        if pool is None or record is None or record.config is None or not pool.specs:
            return
        everywhere = instances_by_node(self._records.all_endpoints())
        outcome = await self._loader.resize(
            self._name, version, Loaded(pool, record.config), count, everywhere
        )
        if self._pools.get(version) is not pool:
            await pool.unstage()
            return
        await self._let_leave(outcome, on_blocked, RESIZE_DRAIN_S)

    async def retire(self, versions: Sequence[int]) -> None:
        """End versions: tell routers first, then drain and end the instances."""
        name, pools = self._name, {}
        for version in versions:
            pools[version] = self._pools.pop(version)
            self._digests.pop(version, None)
            self._mixed.discard(version)
            self._dormant.discard(version)
            record = self._records.of(name).versions[version].with_instances(())
            self._records.note(self._records.of(name).with_version(record))
            self._records.event(name, version, LifecycleEvent.UNLOAD)
        unused: list[Candidate] = []
        if not self._pools:
            unused = self._take_former()
            unused += [] if self._candidate is None else [self._candidate]
            self._candidate = None
        await asyncio.shield(self._succession.end(pools.values(), unused))
        for version in pools:
            state = self._records.of(name).versions[version].state
            if state is ModelReadyState.UNLOADING:
                self._records.event(name, version, LifecycleEvent.UNLOADED, UNLOADED_REASON)
                _log.info("successfully unloaded '%s' version %d", shown(name), version)

    def rest(self, version: int) -> bool:
        """Let all instances of a version go; see `cluster.models.dormancy`."""
        pool, candidate = self._pools.get(version), self._candidate
        if pool is None or candidate is None or version not in candidate.digests:
            return False
        names = [spec.name for spec in pool.specs]
        if not (names and self._records.of(self._name).versions[version].is_ready):
            return False
        self._dormant.add(version)
        pool.commit(names)
        self._records.event(self._name, version, LifecycleEvent.RESTED)
        self._succession.shrink(pool)
        return True

    def displace(self, version: int, instances: Collection[str], by: str) -> Mapping[str, str]:
        """Let instances go for another one; each is followed by one that waits for room.

        Args:
            version: Version number.
            instances: Their actor names.
            by: Actor name of the one that needs the room.

        Returns:
            By the name of an instance that goes: that of the one that follows it.
        """
        pool = self._pools.get(version)
        if pool is None:
            return {}
        followers = pool.displace(instances)
        for each in followers:
            _log.info("'%s' version %d: %s makes room for %s", shown(self._name), version, each, by)
        self._succession.shrink(pool)
        return followers

    async def wake(self, version: int, on_blocked: OnBlocked) -> None:
        """Start one instance of a dormant version, then the others its config asks for.

        Raises:
            TritonError: The first instance failed to load; the version is dormant as before.
        """
        name, pool, candidate = self._name, self._pools[version], self._candidate
        config = self._records.of(name).versions[version].config
        if candidate is None or config is None:
            return
        await self._loader.wake(candidate, version, Loaded(pool, config), on_blocked)
        pool.commit(())
        self._records.event(name, version, LifecycleEvent.WOKEN)
        try:
            others = await self._regroup_version(candidate, version, on_blocked)
        except TritonError:
            # It is awake, and the loader has said why there is one instance.
            return
        await self._let_leave(others, on_blocked)

    async def move(
        self,
        version: int,
        choose: Choose,
        on_blocked: OnBlocked,
        drain_s: float | None = None,
    ) -> None:
        """Start others for some instances of a version; each lets one of those go when it is ready.

        Raises:
            TritonError: An instance failed to load; nothing has changed.
        """
        pool, candidate = self._pools.get(version), self._candidate
        config = self._records.of(self._name).versions[version].config
        leaving = () if pool is None else choose(pool)
        if pool is None or candidate is None or config is None or not leaving:
            return
        serving = Loaded(pool, config, leaving)
        moved = await self._loader.move(candidate, version, serving, on_blocked)
        await self._let_leave(moved, on_blocked, drain_s)

    async def close(self, drain_s: float) -> None:
        """Drain and end every instance; the records stay as they are."""
        candidates = self._take_former()
        candidates += [] if self._candidate is None else [self._candidate]
        self._candidate = None
        for candidate in candidates:
            await self._source.unloading(candidate)
        await asyncio.gather(*(pool.close(drain_s) for pool in self._pools.values()))
        for candidate in candidates:
            await self._source.release(candidate)

    def _needs_reload(self, candidate: Candidate, version: int) -> bool:
        pool = self._pools.get(version)
        if pool is None or self._digests[version] != candidate.digests[version]:
            return True
        # Asked to load what has lost its instances, do not wait for them to come back.
        return not pool.is_live and version not in self._dormant

    def _needs_regrouping(self, candidate: Candidate, version: int) -> bool:
        config = self._records.of(self._name).versions[version].config
        if config is None or version in self._mixed:
            return True
        return with_groups_of(config, candidate.config) is not config

    async def _prepare(
        self,
        candidate: Candidate,
        new: Sequence[int],
        regrouped: Sequence[int],
        on_blocked: OnBlocked,
    ) -> Mapping[int, Loaded]:
        """Load versions and stage instances; all of them, or an error and none."""
        for version in new:
            if version not in self._pools:
                self._records.event(self._name, version, LifecycleEvent.LOAD)
        loaded: dict[int, Loaded] = {}
        errors: dict[int, TritonError] = {}

        async def keep(version: int) -> None:
            prepare = self._load_version if version in new else self._regroup_version
            try:
                loaded[version] = await prepare(candidate, version, on_blocked)
            except TritonError as error:
                errors[version] = error

        try:
            await asyncio.gather(*(keep(version) for version in (*new, *regrouped)))
        except asyncio.CancelledError:
            await self._undo(new, loaded, {})
            raise
        if errors:
            await self._undo(new, loaded, errors)
            self.failed = candidate
            self.is_outdated = any(isinstance(e, ModelChangedError) for e in errors.values())
            raise versions_failed(self._name, errors)
        return loaded

    async def _load_version(
        self, candidate: Candidate, version: int, on_blocked: OnBlocked
    ) -> Loaded:
        def on_change(pool: VersionPool) -> None:
            self._pool_changed(version, pool)

        pool = self._pools.get(version)
        config = self._records.of(self._name).versions[version].config
        is_pool = not isinstance(pool, NoInstances) and not candidate.config.has_ensemble_scheduling
        if pool is not None and config is not None and is_pool:
            serving = Loaded(pool, config)
            return await self._loader.reload(candidate, version, serving, on_blocked)
        return await self._loader.load(candidate, version, on_change, on_blocked)

    async def _regroup_version(
        self, candidate: Candidate, version: int, on_blocked: OnBlocked
    ) -> Loaded:
        config = self._records.of(self._name).versions[version].config or candidate.config
        serving = Loaded(self._pools[version], config)
        return await self._loader.regroup(candidate, version, serving, on_blocked)

    async def _undo(
        self,
        new: Iterable[int],
        loaded: Mapping[int, Loaded],
        errors: Mapping[int, TritonError],
    ) -> None:
        for version in new:
            if self._records.of(self._name).versions[version].state is ModelReadyState.LOADING:
                error = errors.get(version)
                reason = error.as_string() if error else UNLOADED_REASON
                self._records.event(self._name, version, LifecycleEvent.LOAD_FAILED, reason)
        staged = []
        for version, outcome in loaded.items():
            if self._pools.get(version) is outcome.pool:
                staged.append(outcome.pool)
            else:
                undo = outcome.pool.close(self._settings.drain_s)
                self._spawn(f"undoing the load of '{self._name}'", undo)
        await self._succession.unstage(staged)

    def _take_over(
        self,
        candidate: Candidate,
        composing: Mapping[str, ModelConfig],
        loaded: Mapping[int, Loaded],
        new: Sequence[int],
    ) -> Mapping[int, tuple[str, ...]]:
        """Put what was prepared in service; return which instances stay, for want of successors."""
        record = _described(self._records.of(self._name), candidate, composing)
        replaced: list[VersionPool] = []
        changed: list[VersionPool] = []
        staying = {}
        if self._candidate is not None and self._candidate is not candidate:
            self._former.append(self._candidate)
        self._candidate = candidate
        self.failed = None
        for version, its in loaded.items():
            # Taken out, so that routers hear of all of it at once, below.
            before = self._pools.pop(version, None)
            if before is its.pool and version in new:
                its.pool.count_anew()
            left = its.pool.commit(its.leaving)
            self._pools[version] = its.pool
            if before is its.pool and version in new:
                changed.append(before)
            elif before is its.pool:
                self._succession.shrink(before)
            elif before is not None:
                replaced.append(before)
            if left:
                staying[version] = left
                self._mixed.add(version)
                self._digests[version] = ""
            else:
                self._is_of(candidate, version)
            at = self._of_loaded(record.versions[version], its, is_new=version in new)
            record = record.with_version(at)
        self._records.put(record)
        self._spawn(f"notice of '{self._name}'", self._source.loaded(candidate))
        self._succession.end(replaced, () if staying else self._take_former(), changed)
        return staying

    def _of_loaded(self, at: VersionRecord, its: Loaded, *, is_new: bool) -> VersionRecord:
        """Return the record of a version that is put in service."""
        if not is_new:
            return self._of_pool(replace(at, config=its.config), its.pool)
        self._dormant.discard(at.version)
        is_first = at.state is ModelReadyState.LOADING
        at = at.after(LifecycleEvent.LOADED if is_first else LifecycleEvent.RELOADED)
        digest = self._digests[at.version] or at.digest
        at = at.serving(its.config, its.pool.load_duration_ns, digest)
        return self._of_pool(at, its.pool)

    def _is_of(self, candidate: Candidate, version: int) -> None:
        """Note that a version has no instance any more that is not of a candidate."""
        self._mixed.discard(version)
        self._digests[version] = candidate.digests[version]

    def _take_former(self) -> list[Candidate]:
        former, self._former = self._former, []
        return former

    def _taken_over(self, candidate: Candidate, staying: Iterable[int]) -> None:
        """Note that what stayed for want of successors has left."""
        record = self._records.of(self._name)
        for version in staying:
            self._is_of(candidate, version)
            at = replace(record.versions[version], digest=candidate.digests[version])
            record = record.with_version(at)
        self._records.put(record)
        pools = [self._pools[version] for version in staying]
        self._succession.end((), self._take_former(), pools)

    async def _let_leave(
        self, changed: Loaded, on_blocked: OnBlocked, drain_s: float | None = None
    ) -> None:
        """Put what is staged in service, and let instances go, each when its successor is ready."""
        staying = changed.pool.commit(changed.leaving)
        self._succession.shrink(changed.pool, drain_s)
        await self._succession.replace({changed.pool: staying}, drain_s, on_blocked)

    def _pool_changed(self, version: int, pool: VersionPool) -> None:
        """Carry over to the record what a pool says of its instances."""
        record = self._records.of(self._name).versions[version]
        if self._pools.get(version) is pool:
            self._records.put_version(self._name, self._of_pool(record, pool))
        elif record.state is ModelReadyState.LOADING and record.reason != pool.reason:
            self._records.put_version(self._name, record.because(pool.reason))

    def _of_pool(self, record: VersionRecord, pool: VersionPool) -> VersionRecord:
        """Return the record with what a pool says of its instances."""
        if pool.is_live:
            self._dormant.discard(record.version)
        is_dormant = record.version in self._dormant
        if record.is_ready and not (pool.is_live or is_dormant):
            record = record.after(LifecycleEvent.INSTANCES_LOST)
        elif record.state is ModelReadyState.UNAVAILABLE and pool.is_live:
            record = record.after(LifecycleEvent.RECOVERED)
        endpoints = (pool.endpoints, pool.leaving, pool.past)
        return record.with_instances(*endpoints, is_dormant=is_dormant).because(pool.reason)


def _described(
    record: ModelRecord, candidate: Candidate, composing: Mapping[str, ModelConfig]
) -> ModelRecord:
    """Return a model's record with what a candidate that serves says of all its versions."""
    return replace(record, labels=candidate.labels, composing=frozenset(composing))


MakePool = Callable[[Callable[[], None]], VersionPool]
