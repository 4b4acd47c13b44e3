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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import shown
from backends.config.autoscaling import is_autoscaled
from backends.config.normalisation import with_groups_of
from cluster.instances.pool import InstancePool
from cluster.models.contracts import (
    Candidate,
    MakePool,
    OnBlocked,
)
from cluster.models.dependencies import differ
from cluster.models.records import Records, seen, serves
from cluster.models.states import (
    LifecycleEvent,
    ModelRecord,
    VersionRecord,
    no_version,
    versions_failed,
)
from cluster.models.succession import Spawn, Succession
from cluster.models.version_loader import Loaded, VersionLoader
from deployments.contracts.routing_table import UNLOADED_REASON, ModelReadyState
from deployments.model_files.contracts import ModelChangedError

_log = logging.getLogger(__name__)

# What an instance that is one too many may take to end what it has begun. Nobody waits for it.
RESIZE_DRAIN_S: Final = 3600.0


@dataclass(slots=True, eq=False)
class ModelVersions:
    """The pools of one model. One call of `load` or `retire` at a time.

    Attributes:
        name: The model's key.
        records: Where the state of the versions is kept.
        loader: Loads versions.
        make_pool: Makes an empty pool, given the callback for its changes.
        spawn: Runs in the background, under a name, what nobody waits for.
        succession: Lets instances go, and frees what they were made from.
        pools: The instances of the versions in service.
        failed: The candidate of the last load, if its versions failed.
        is_outdated: Whether they did because its files have changed since they were listed.
    """

    name: str
    records: Records
    loader: VersionLoader
    make_pool: MakePool
    spawn: Spawn
    succession: Succession
    failed: Candidate | None = None
    is_outdated: bool = False
    pools: dict[int, InstancePool] = field(default_factory=dict)
    # What all instances are made of; nothing while some are being replaced.
    _digests: dict[int, str] = field(default_factory=dict)
    _composing: Mapping[str, ModelConfig] = field(default_factory=dict)
    # Versions whose instances may be more or fewer than their config asks for.
    _adopted: set[int] = field(default_factory=set)

    @property
    def record(self) -> ModelRecord:
        """What is known of the model."""
        return self.records.of(self.name)

    @property
    def candidate(self) -> Candidate | None:
        """What serves was loaded from it; None when nothing serves, or what was adopted."""
        return self.succession.candidate

    async def load(
        self,
        candidate: Candidate,
        composing: Mapping[str, ModelConfig],
        on_blocked: OnBlocked,
        *,
        is_poll: bool,
    ) -> bool:
        """Make what serves what the candidate says; all or nothing.

        Args:
            candidate: The model as just read.
            composing: Configs of the models an ensemble is made of.
            on_blocked: Called when it waits for room.
            is_poll: Whether nobody has asked: what has lost its instances comes back by itself.

        Returns:
            Whether ensembles made of this model have to be looked at.

        Raises:
            TritonError: A version failed to load; what served before still serves.
        """
        name, began_s = self.name, asyncio.get_running_loop().time()
        self.is_outdated = False
        self.records.note(replace(self.record, is_known=True))
        if not candidate.digests:
            raise no_version(name)
        is_composed_anew = differ(self._composing, composing)
        wanted = sorted(candidate.digests)
        changed = [v for v in wanted if is_composed_anew or self._has_changed(candidate, v)]
        new = [v for v in wanted if v in changed or (not is_poll and self._has_lost(v))]
        regrouped = [v for v in wanted if v not in new and self._needs_regrouping(candidate, v)]
        staying: Mapping[int, tuple[str, ...]] = {}
        if new or regrouped:
            loaded = await self._prepare(candidate, new, regrouped, on_blocked)
            staying = self._take_over(candidate, composing, loaded, new)
        elif self.record != _described(self.record, candidate, composing):
            # An adopted version came without what its instances do not know.
            self.records.put(_described(self.record, candidate, composing))
        self._composing = composing
        stale = tuple(v for v in self.pools if v not in candidate.digests)
        if stale:
            self.spawn(f"unload of old versions of '{name}'", self.retire(stale))
        if staying:
            by_pool = {self.pools[version]: names for version, names in staying.items()}
            await self.succession.replace(by_pool, None, on_blocked)
            self._taken_over(candidate, staying)
        if new or regrouped:
            _log.info(
                "successfully loaded '%s' in %.1f s",
                shown(name),
                asyncio.get_running_loop().time() - began_s,
                extra={"model": shown(name)},
            )
        return bool(new or stale)

    def adopt(
        self, version: int, digest: str, config: ModelConfig, make: MakePool, files_dir: str = ""
    ) -> None:
        """Put a version in service that an earlier controller loaded.

        Args:
            version: Version number.
            digest: Digest its instances carry.
            config: Their complete config.
            make: Makes the pool of live instances, given the callback for its changes.
            files_dir: Directory made for the load, if the files came with it.
        """
        if files_dir:
            # To be released with the last version that serves from it.
            self.succession.candidate = Candidate(config, files_dir, {}, is_temporary=True)
        pool = self.pools[version] = self._made(version, make)
        self._digests[version] = digest
        self._adopted.add(version)
        record = VersionRecord(version).after(LifecycleEvent.LOAD).after(LifecycleEvent.LOADED)
        record = record.serving(config, pool.load_duration_ns, digest)
        known = replace(self.record, is_known=True)
        self.records.put(known.with_version(seen(record, pool)))
        # Those that drain may be what a resize has let go.
        drain_s = RESIZE_DRAIN_S if is_autoscaled(config) else None
        self.succession.shrink(pool, drain_s)

    async def retire(self, versions: Sequence[int]) -> None:
        """End versions: tell routers first, then drain and end the instances."""
        pools = {}
        for version in versions:
            pools[version] = self.pools.pop(version)
            self._digests.pop(version, None)
            self._adopted.discard(version)
            record = self.record.versions[version]
            record = replace(record, instances=(), leaving=(), past={}, is_dormant=False)
            self.records.note(self.record.with_version(record))
            self.records.event(self.name, version, LifecycleEvent.UNLOAD)
        await asyncio.shield(self.succession.end(pools.values(), is_all=not self.pools))
        for version in pools:
            if self.record.versions[version].state is ModelReadyState.UNLOADING:
                self.records.event(self.name, version, LifecycleEvent.UNLOADED, UNLOADED_REASON)
                _log.info("successfully unloaded '%s' version %d", shown(self.name), version)

    async def close(self, drain_s: float) -> None:
        """Drain and end every instance; the records stay as they are."""
        await self.succession.close(self.pools.values(), drain_s)

    def _has_changed(self, candidate: Candidate, version: int) -> bool:
        return version not in self.pools or self._digests[version] != candidate.digests[version]

    def _has_lost(self, version: int) -> bool:
        """Whether a version has lost its instances: who asks for a load does not wait for them."""
        record = self.record.versions[version]
        return not (serves(record, self.pools[version]) or record.is_dormant)

    def _needs_regrouping(self, candidate: Candidate, version: int) -> bool:
        config = self.record.versions[version].config
        if config is None or version in self._adopted:
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
            if version not in self.pools:
                self.records.event(self.name, version, LifecycleEvent.LOAD)
        loaded: dict[int, Loaded] = {}
        errors: dict[int, TritonError] = {}

        async def keep(version: int) -> None:
            stage = self.loader.load if version in new else self.loader.regroup
            serving = self.serving(candidate, version)
            try:
                loaded[version] = await stage(candidate, version, serving, on_blocked)
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
            raise versions_failed(self.name, errors)
        return loaded

    def serving(self, candidate: Candidate, version: int) -> Loaded:
        """Return what a version serves with; an empty pool before its first load."""
        pool = self.pools.get(version) or self._made(version, self.make_pool)
        return Loaded(pool, self.record.versions[version].config or candidate.config)

    def _made(self, version: int, make: MakePool) -> InstancePool:
        pool: InstancePool = make(lambda: self._pool_changed(version, pool))
        return pool

    async def _undo(
        self,
        new: Iterable[int],
        loaded: Mapping[int, Loaded],
        errors: Mapping[int, TritonError],
    ) -> None:
        for version in new:
            if self.record.versions[version].state is ModelReadyState.LOADING:
                error = errors.get(version)
                reason = error.as_string() if error else UNLOADED_REASON
                self.records.event(self.name, version, LifecycleEvent.LOAD_FAILED, reason)
        staged = []
        for version, outcome in loaded.items():
            if self.pools.get(version) is outcome.pool:
                staged.append(outcome.pool)
            else:
                self.succession.end((outcome.pool,))
        await self.succession.unstage(staged)

    def _take_over(
        self,
        candidate: Candidate,
        composing: Mapping[str, ModelConfig],
        loaded: Mapping[int, Loaded],
        new: Sequence[int],
    ) -> Mapping[int, tuple[str, ...]]:
        """Put what was prepared in service; return which instances stay, for want of successors."""
        record = _described(self.record, candidate, composing)
        changed: list[InstancePool] = []
        staying = {}
        self.succession.begin(candidate)
        self.failed = None
        for version, its in loaded.items():
            # Taken out, so that routers hear of all of it at once, below.
            is_first = self.pools.pop(version, None) is None
            if version in new:
                its.pool.count_anew()
                changed += [] if is_first else [its.pool]
            left = its.pool.commit(its.leaving)
            self.pools[version] = its.pool
            if version not in new:
                self.succession.shrink(its.pool)
            at = record.versions[version]
            if left:
                staying[version] = left
                self._digests[version] = ""
            else:
                self._is_of(candidate, version)
                at = replace(at, digest=candidate.digests[version])
            at = _put_in_service(at, its) if version in new else replace(at, config=its.config)
            record = record.with_version(seen(at, its.pool))
        self.records.put(record)
        self.succession.leave(changed, is_last=not staying)
        return staying

    def _is_of(self, candidate: Candidate, version: int) -> None:
        """Note that a version has no instance any more that is not of a candidate."""
        self._adopted.discard(version)
        self._digests[version] = candidate.digests[version]

    def _taken_over(self, candidate: Candidate, staying: Iterable[int]) -> None:
        """Note that what stayed for want of successors has left."""
        record = self.record
        for version in staying:
            self._is_of(candidate, version)
            at = replace(record.versions[version], digest=candidate.digests[version])
            record = record.with_version(at)
        self.records.put(record)
        self.succession.leave([self.pools[version] for version in staying], is_last=True)

    def _pool_changed(self, version: int, pool: InstancePool) -> None:
        """Carry over to the record what a pool says of its instances."""
        record = self.record.versions[version]
        if self.pools.get(version) is pool:
            self.records.put_version(self.name, seen(record, pool))
        elif record.state is ModelReadyState.LOADING and record.reason != pool.reason:
            self.records.put_version(self.name, replace(record, reason=pool.reason))


def _described(
    record: ModelRecord, candidate: Candidate, composing: Mapping[str, ModelConfig]
) -> ModelRecord:
    """Return a model's record with what a candidate that serves says of all its versions."""
    return replace(record, labels=candidate.labels, composing=frozenset(composing))


def _put_in_service(at: VersionRecord, its: Loaded) -> VersionRecord:
    """Return the record of a version that a new generation serves."""
    is_first = at.state is ModelReadyState.LOADING
    at = at.after(LifecycleEvent.LOADED if is_first else LifecycleEvent.RELOADED)
    at = at.serving(its.config, its.pool.load_duration_ns, at.digest)
    return replace(at, is_dormant=False)
