# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Stages the instances a version lacks: plans, attempts, and the bound on parallel loads.

When the backend shall complete the config, one instance loads first; the config it comes back with
is normalised, validated and used to plan the others, which then load in parallel.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from backends.api.errors import InternalError, TritonError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import shown
from backends.config.normalisation import change_requires_reload, with_groups_of
from cluster.instances.pool import InstancePool
from cluster.models.contracts import (
    Candidate,
    LifecycleSettings,
    ModelSource,
    OnBlocked,
)
from cluster.models.operation import finished
from cluster.placement.planner import regroup, staying_first
from deployments.instance.spec import InstanceSpec
from deployments.model_files.contracts import ModelChangedError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A version with what it serves with, or what is staged to serve.

    Attributes:
        pool: Its instances.
        config: Its complete config; as written before the first load.
        leaving: The instances that shall leave the pool.
    """

    pool: InstancePool
    config: ModelConfig
    leaving: tuple[str, ...] = ()


# Stages instances once, given what to call when it waits for room.
_Work = Callable[[OnBlocked], Awaitable[Loaded]]


class VersionLoader:
    """Loads versions.

    Each method but the constructor stages in the pool that a version serves with what that lacks,
    as often as it is to be tried, and calls ``on_blocked`` when it has to wait for room. When it
    raises, as a `TritonError`, nothing is staged.

    Args:
        spawn: Runs under a name what goes on whatever becomes of who waits for it.
    """

    def __init__(
        self,
        source: ModelSource,
        settings: LifecycleSettings,
        spawn: Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._source = source
        self._retry_count = settings.retry_count
        self._slots = asyncio.Semaphore(settings.thread_count)
        self._spawn = spawn

    async def load(
        self, candidate: Candidate, version: int, serving: Loaded, on_blocked: OnBlocked
    ) -> Loaded:
        """Stage a new generation, until it can take over from what serves.

        An ensemble runs in its caller: its generations have no instance.
        """
        pool = serving.pool

        async def work(on_blocked: OnBlocked) -> Loaded:
            generation = await self._source.next_generation()

            async def plan(*, auto_complete: bool) -> Sequence[InstanceSpec]:
                return await self._source.plan(
                    candidate, config, version, generation, auto_complete=auto_complete
                )

            config, started = candidate.config, 0
            if candidate.auto_complete:
                await pool.stage((await plan(auto_complete=True))[:1], 1, on_blocked)
                config, started = pool.staged_config or config, 1
            config = self._source.complete(config)
            specs = (await plan(auto_complete=False))[started:]
            # Routers go by one config of a version: with another one all change over at once.
            is_at_once = pool.is_live and change_requires_reload(serving.config, config)
            await pool.stage(specs, started + len(specs) if is_at_once else 1, on_blocked)
            return Loaded(pool, config, _names(pool.specs))

        if candidate.config.has_ensemble_scheduling:
            return Loaded(pool, self._source.complete(candidate.config), _names(pool.specs))
        return await self._try_often(candidate.key, version, pool, work, on_blocked)

    async def resize(
        self, version: int, serving: Loaded, count: int, instances_by_node: Mapping[str, int]
    ) -> Loaded:
        """Stage what a version lacks that shall have another count of instances.

        Args:
            version: Version number.
            serving: What it serves with: some instance.
            count: How many instances shall take requests.
            instances_by_node: How many live instances each node has, of all models.
        """
        pool = serving.pool

        async def work(on_blocked: OnBlocked) -> Loaded:
            specs = pool.specs
            plan = await self._source.replan(serving.config, specs[0], count)
            present = staying_first(specs, pool.endpoints, instances_by_node)
            change = regroup(plan, present, pool.next_index)
            await pool.stage(change.added, bool(change.leaving), on_blocked)
            return Loaded(pool, serving.config, change.leaving)

        return await self._try_often(pool.specs[0].model_key, version, pool, work, lambda: None)

    async def regroup(
        self, candidate: Candidate, version: int, serving: Loaded, on_blocked: OnBlocked
    ) -> Loaded:
        """Stage what a version lacks whose instance groups have changed.

        Triton: core/src/backend_model.cc TritonModel::UpdateInstanceGroup @73aad7c
        """
        pool = serving.pool

        async def work(on_blocked: OnBlocked) -> Loaded:
            config = self._source.complete(with_groups_of(serving.config, candidate.config))
            present = pool.specs
            if not present:
                return Loaded(pool, config)
            plan = await self._source.plan(
                candidate, config, version, present[0].generation, auto_complete=False
            )
            change = regroup(plan, present, pool.next_index)
            await pool.stage(change.added, bool(change.leaving), on_blocked)
            return Loaded(pool, config, change.leaving)

        return await self._try_often(candidate.key, version, pool, work, on_blocked)

    async def wake(
        self, candidate: Candidate, version: int, dormant: Loaded, on_blocked: OnBlocked
    ) -> None:
        """Stage one instance in the empty pool of a dormant version."""
        pool = dormant.pool

        async def work(on_blocked: OnBlocked) -> Loaded:
            config = self._source.complete(with_groups_of(dormant.config, candidate.config))
            generation = await self._source.next_generation()
            plan = await self._source.plan(
                candidate, config, version, generation, auto_complete=False
            )
            # Names of instances that drain yet are not used again.
            specs = regroup(plan, (), pool.next_index).added
            first = next((spec for spec in specs if not spec.group.passive), specs[0])
            await pool.stage((first,), 1, on_blocked)
            return Loaded(pool, config)

        await self._try_often(candidate.key, version, pool, work, on_blocked)

    async def move(
        self, candidate: Candidate, version: int, serving: Loaded, on_blocked: OnBlocked
    ) -> Loaded:
        """Stage what replaces the instances that shall leave."""
        pool, config, leaving = serving.pool, serving.config, serving.leaving

        async def work(on_blocked: OnBlocked) -> Loaded:
            present = pool.specs
            if version in candidate.digests:
                plan = await self._source.plan(
                    candidate, config, version, present[0].generation, auto_complete=False
                )
            else:
                # Of adopted instances nobody else may know the files.
                count = sum(not spec.group.passive for spec in present)
                plan = await self._source.replan(config, present[0], count)
            staying = [spec for spec in present if spec.name not in leaving]
            change = regroup(plan, staying, pool.next_index)
            gone = (*leaving, *change.leaving)
            await pool.stage(change.added, bool(gone), on_blocked)
            return Loaded(pool, config, gone)

        return await self._try_often(candidate.key, version, pool, work, on_blocked)

    async def _try_often(
        self, key: str, version: int, pool: InstancePool, work: _Work, on_blocked: OnBlocked
    ) -> Loaded:
        name = shown(key)
        for attempts_left in range(self._retry_count, -1, -1):
            _log.debug("loading: %s:%d", name, version)
            try:
                return await self._try(name, version, pool, work, on_blocked)
            except TritonError as error:
                _log.error(
                    "failed to load '%s' version %d: %s",
                    name,
                    version,
                    error.as_string(),
                    extra={"model": name, "version": version},
                )
                # The listing is of what is no longer there.
                if not attempts_left or isinstance(error, ModelChangedError):
                    raise
        raise AssertionError("a load has at least one attempt")

    async def _try(
        self, name: str, version: int, pool: InstancePool, work: _Work, on_blocked: OnBlocked
    ) -> Loaded:
        await self._slots.acquire()
        with ExitStack() as slot:
            slot.callback(self._slots.release)

            def blocked() -> None:
                # Who waits for room keeps nobody else from loading.
                slot.close()
                on_blocked()

            try:
                return await work(blocked)
            except BaseException as error:
                undo = self._spawn(
                    f"undoing the load of '{name}' version {version}", pool.unstage()
                )
                await finished(undo)
                if isinstance(error, TritonError) or not isinstance(error, Exception):
                    raise
                _log.exception("loading %s:%d", name, version)
                raise InternalError(f"{type(error).__name__}: {error}") from error


def _names(specs: Sequence[InstanceSpec]) -> tuple[str, ...]:
    return tuple(spec.name for spec in specs)
