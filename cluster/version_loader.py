# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Loads one version of a model: attempts, the bound on parallel loads, and the first instance.

When the backend shall complete the config, one instance loads first; the config it comes back with
is normalised, validated and used to plan the others, which then load in parallel.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backends.api.errors import InternalError, TritonError
from backends.api.model_config import ModelConfig
from cluster.loading import (
    Candidate,
    LifecycleSettings,
    LoadSlots,
    ModelSource,
    NoInstances,
    Pool,
)
from deployments.instance_spec import InstanceSpec

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A version whose instances are ready, and its complete config."""

    pool: Pool
    config: ModelConfig


@dataclass(frozen=True, slots=True)
class _Attempt:
    candidate: Candidate
    version: int
    generation: int
    pool: Pool
    on_blocked: Callable[[], None]


class VersionLoader:
    """Loads versions.

    Args:
        source: Reads and plans models.
        make_pool: Makes an empty pool that calls its argument after each change.
        settings: Limits.
    """

    def __init__(
        self,
        source: ModelSource,
        make_pool: Callable[[Callable[[], None]], Pool],
        settings: LifecycleSettings,
    ) -> None:
        self._source = source
        self._make_pool = make_pool
        self._retry_count = settings.retry_count
        self._slots = LoadSlots(settings.thread_count)

    async def load(
        self,
        candidate: Candidate,
        version: int,
        on_change: Callable[[Pool], None],
        on_blocked: Callable[[], None],
    ) -> Loaded | TritonError:
        """Load a version; an error is returned, so that siblings can be waited for.

        Args:
            candidate: The model.
            version: Version number.
            on_change: Called with the version's pool after each change of it.
            on_blocked: Called when no instance can start for want of room.
        """
        if candidate.config.has_ensemble_scheduling:
            try:
                return Loaded(NoInstances(), self._source.complete(candidate.config))
            except TritonError as error:
                return error
        name = candidate.config.name
        for attempts_left in range(self._retry_count, -1, -1):
            _log.info("loading: %s:%d", name, version)
            outcome = await self._attempt(candidate, version, on_change, on_blocked)
            if isinstance(outcome, Loaded):
                return outcome
            _log.error("failed to load '%s' version %d: %s", name, version, outcome.as_string())
            if not attempts_left:
                return outcome
        raise AssertionError("a load has at least one attempt")

    async def _attempt(
        self,
        candidate: Candidate,
        version: int,
        on_change: Callable[[Pool], None],
        on_blocked: Callable[[], None],
    ) -> Loaded | TritonError:
        pool: Pool = self._make_pool(lambda: on_change(pool))
        async with self._slots.one() as slot:

            def blocked() -> None:
                slot.release()
                on_blocked()

            generation = self._source.next_generation()
            attempt = _Attempt(candidate, version, generation, pool, blocked)
            try:
                return Loaded(pool, await self._start(attempt))
            except TritonError as error:
                await pool.close(0)
                return error
            except Exception as error:
                _log.exception("loading %s:%d", candidate.config.name, version)
                await pool.close(0)
                return InternalError(f"{type(error).__name__}: {error}")
            except BaseException:
                await pool.close(0)
                raise

    async def _start(self, attempt: _Attempt) -> ModelConfig:
        config = attempt.candidate.config
        started = 0
        if attempt.candidate.auto_complete:
            specs = await self._plan(attempt, config, auto_complete=True)
            await self._start_instances(attempt, specs[:1])
            config = attempt.pool.config or config
            started = 1
        config = self._source.complete(config)
        specs = await self._plan(attempt, config, auto_complete=False)
        await self._start_instances(attempt, specs[started:])
        return config

    async def _plan(
        self, attempt: _Attempt, config: ModelConfig, *, auto_complete: bool
    ) -> Sequence[InstanceSpec]:
        return await self._source.plan(
            attempt.candidate,
            config,
            attempt.version,
            attempt.generation,
            auto_complete=auto_complete,
        )

    async def _start_instances(self, attempt: _Attempt, specs: Sequence[InstanceSpec]) -> None:
        await attempt.pool.start(specs)
        if not attempt.pool.endpoints:
            attempt.on_blocked()
            await attempt.pool.wait_live()
