# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Loads one version of a model: attempts, the bound on parallel loads, and the first instance.

When the backend shall complete the config, one instance loads first; the config it comes back with
is normalised, validated and used to plan the others, which then load in parallel.

A version that has a pool keeps it: the loader stages in it what it lacks, which is all of it where
files have changed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backends.api.errors import InternalError, TritonError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import shown
from backends.config.normalisation import change_requires_reload, with_groups_of
from cluster.models.contracts import (
    Candidate,
    LifecycleSettings,
    ModelSource,
    NoInstances,
    VersionPool,
)
from cluster.models.load_slots import LoadSlots
from cluster.models.operation import finished
from cluster.placement.planner import Regrouping, regroup
from cluster.placement.staying import staying_first
from deployments.instance.spec import InstanceSpec
from deployments.model_files.contracts import ModelChangedError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A version whose instances are ready.

    Attributes:
        pool: Its instances, which are staged; of a version that has a pool that one.
        config: Its complete config.
        leaving: The instances that shall leave such a pool.
    """

    pool: VersionPool
    config: ModelConfig
    leaving: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt: the work, given what to call when it waits for room, and how to undo it."""

    work: Callable[[Callable[[], None]], Awaitable[Loaded]]
    undo: Callable[[], Coroutine[Any, Any, None]]


class VersionLoader:
    """Loads versions.

    Args:
        source: Reads and plans models.
        make_pool: Makes an empty pool that calls its argument after each change.
        settings: Limits.
        spawn: Runs under a name what goes on whatever becomes of who waits for it.
    """

    def __init__(
        self,
        source: ModelSource,
        make_pool: Callable[[Callable[[], None]], VersionPool],
        settings: LifecycleSettings,
        spawn: Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._source = source
        self._make_pool = make_pool
        self._retry_count = settings.retry_count
        self._slots = LoadSlots(settings.thread_count)
        self._spawn = spawn

    async def load(
        self,
        candidate: Candidate,
        version: int,
        on_change: Callable[[VersionPool], None],
        on_blocked: Callable[[], None],
    ) -> Loaded:
        """Load a version.

        Args:
            candidate: The model.
            version: Version number.
            on_change: Called with the version's pool after each change of it.
            on_blocked: Called when no instance can start for want of room.

        Raises:
            TritonError: It failed to load, as often as it was tried; nothing is left of it. The
                same holds for what is staged by the other methods.
        """
        if candidate.config.has_ensemble_scheduling:
            return Loaded(NoInstances(), self._source.complete(candidate.config))

        def begin() -> _Attempt:
            pool: VersionPool = self._make_pool(lambda: on_change(pool))

            async def work(on_blocked: Callable[[], None]) -> Loaded:
                return await self._start(
                    candidate, version, Loaded(pool, candidate.config), on_blocked
                )

            return _Attempt(work, lambda: pool.close(0))

        return await self._try_often(shown(candidate.key), version, begin, on_blocked)

    async def reload(
        self,
        candidate: Candidate,
        version: int,
        serving: Loaded,
        on_blocked: Callable[[], None],
    ) -> Loaded:
        """Stage what replaces all instances of a version.

        Args:
            candidate: The model.
            version: Version number.
            serving: What the version serves with.
            on_blocked: Called when those that serve have to wait for room for others.
        """

        async def work(on_blocked: Callable[[], None]) -> Loaded:
            return await self._start(candidate, version, serving, on_blocked)

        pool = serving.pool
        return await self._stage_often(candidate.key, version, pool, work, on_blocked)

    async def resize(
        self,
        key: str,
        version: int,
        serving: Loaded,
        count: int,
        instances_by_node: Mapping[str, int],
    ) -> Loaded:
        """Stage what a version lacks that shall have another count of instances.

        Args:
            key: The model's key.
            version: Version number.
            serving: What the version serves with.
            count: How many instances shall take requests.
            instances_by_node: How many live instances each node has, of all models.
        """
        pool = serving.pool

        async def work(on_blocked: Callable[[], None]) -> Loaded:
            specs = pool.specs
            plan = await self._source.replan(serving.config, specs[0], count)
            present = staying_first(specs, pool.endpoints, instances_by_node)
            change = regroup(plan, present, pool.next_index)
            await pool.stage(change.added, bool(change.leaving), on_blocked)
            return Loaded(pool, serving.config, change.leaving)

        return await self._stage_often(key, version, pool, work, lambda: None)

    async def regroup(
        self,
        candidate: Candidate,
        version: int,
        serving: Loaded,
        on_blocked: Callable[[], None],
    ) -> Loaded:
        """Stage what a version lacks whose instance groups have changed.

        Args:
            candidate: The model.
            version: Version number.
            serving: What the version serves with.
            on_blocked: Called when the instances that leave have to wait for room for others.

        Triton: core/src/backend_model.cc TritonModel::UpdateInstanceGroup @73aad7c
        """
        pool = serving.pool

        async def work(on_blocked: Callable[[], None]) -> Loaded:
            config = self._source.complete(with_groups_of(serving.config, candidate.config))
            change = await self._regrouping(candidate, version, pool, config)
            await pool.stage(change.added, bool(change.leaving), on_blocked)
            return Loaded(pool, config, change.leaving)

        return await self._stage_often(candidate.key, version, pool, work, on_blocked)

    async def wake(
        self,
        candidate: Candidate,
        version: int,
        dormant: Loaded,
        on_blocked: Callable[[], None],
    ) -> None:
        """Stage one instance in the empty pool of a dormant version.

        Args:
            candidate: The model.
            version: Version number.
            dormant: The pool, and the complete config that its instances had.
            on_blocked: Called when there is no room for the instance.
        """
        pool = dormant.pool

        async def work(on_blocked: Callable[[], None]) -> Loaded:
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

        await self._stage_often(candidate.key, version, pool, work, on_blocked)

    async def move(
        self,
        candidate: Candidate,
        version: int,
        serving: Loaded,
        on_blocked: Callable[[], None],
    ) -> Loaded:
        """Stage what replaces some instances of a pool.

        Args:
            candidate: The model.
            version: Version number.
            serving: What the version serves with, and which instances shall leave it.
            on_blocked: Called when those have to wait for room for others.
        """
        pool, config, leaving = serving.pool, serving.config, serving.leaving

        async def work(on_blocked: Callable[[], None]) -> Loaded:
            present = pool.specs
            plan = await self._plan_like(present, candidate, config, version)
            staying = [spec for spec in present if spec.name not in leaving]
            change = regroup(plan, staying, pool.next_index)
            gone = (*leaving, *change.leaving)
            await pool.stage(change.added, bool(gone), on_blocked)
            return Loaded(pool, config, gone)

        return await self._stage_often(candidate.key, version, pool, work, on_blocked)

    async def _plan_like(
        self,
        present: Sequence[InstanceSpec],
        candidate: Candidate,
        config: ModelConfig,
        version: int,
    ) -> Sequence[InstanceSpec]:
        """Plan the generation that there is; adopted instances alone may know their files."""
        first = present[0]
        if version not in candidate.digests:
            count = sum(not spec.group.passive for spec in present)
            return await self._source.replan(config, first, count)
        return await self._source.plan(
            candidate, config, version, first.generation, auto_complete=False
        )

    async def _regrouping(
        self, candidate: Candidate, version: int, pool: VersionPool, config: ModelConfig
    ) -> Regrouping:
        present = pool.specs
        if not present:
            return Regrouping()
        generation = present[0].generation
        plan = await self._source.plan(candidate, config, version, generation, auto_complete=False)
        return regroup(plan, present, pool.next_index)

    async def _stage_often(
        self,
        key: str,
        version: int,
        pool: VersionPool,
        work: Callable[[Callable[[], None]], Awaitable[Loaded]],
        on_blocked: Callable[[], None],
    ) -> Loaded:
        """Try work that stages instances in a pool that there is; after an error none is staged."""
        attempt = _Attempt(work, pool.unstage)
        return await self._try_often(shown(key), version, lambda: attempt, on_blocked)

    async def _try_often(
        self,
        name: str,
        version: int,
        begin: Callable[[], _Attempt],
        on_blocked: Callable[[], None],
    ) -> Loaded:
        for attempts_left in range(self._retry_count, -1, -1):
            _log.debug("loading: %s:%d", name, version)
            try:
                return await self._try(name, version, begin, on_blocked)
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
        self,
        name: str,
        version: int,
        begin: Callable[[], _Attempt],
        on_blocked: Callable[[], None],
    ) -> Loaded:
        async with self._slots.one() as slot:

            def blocked() -> None:
                slot.release()
                on_blocked()

            attempt = begin()
            try:
                return await attempt.work(blocked)
            except BaseException as error:
                undo = attempt.undo()
                await finished(self._spawn(f"undoing the load of '{name}' version {version}", undo))
                if isinstance(error, TritonError) or not isinstance(error, Exception):
                    raise
                _log.exception("loading %s:%d", name, version)
                raise InternalError(f"{type(error).__name__}: {error}") from error

    async def _start(
        self,
        candidate: Candidate,
        version: int,
        serving: Loaded,
        on_blocked: Callable[[], None],
    ) -> Loaded:
        """Stage a new generation of a version, until it can take over from what serves."""
        pool = serving.pool
        generation = await self._source.next_generation()

        async def plan(*, auto_complete: bool) -> Sequence[InstanceSpec]:
            return await self._source.plan(
                candidate, config, version, generation, auto_complete=auto_complete
            )

        config = candidate.config
        started = 0
        if candidate.auto_complete:
            await pool.stage((await plan(auto_complete=True))[:1], 1, on_blocked)
            config = pool.staged_config or config
            started = 1
        config = self._source.complete(config)
        specs = (await plan(auto_complete=False))[started:]
        # Routers go by one config of a version: with another one all change over at once.
        is_at_once = pool.is_live and change_requires_reload(serving.config, config)
        await pool.stage(specs, started + len(specs) if is_at_once else 1, on_blocked)
        return Loaded(pool, config, tuple(spec.name for spec in pool.specs))
