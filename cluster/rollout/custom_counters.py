# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counters of the models' own, read for rollouts that are judged by them."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from backends.api.custom_metrics import MetricKind as Kind
from cluster.rollout.state import State
from deployments.metrics.counters import Snapshot
from deployments.rollouts.spec import MetricKind

_TIMEOUT_S: Final = 2.0


class CountingPool(Protocol):
    """The instances of a version."""

    async def statistics(self) -> Mapping[str, Snapshot]:
        """Return what each has counted, by name."""


class CountingModels(Protocol):
    """Finds pools; `cluster.models.lifecycle.ModelLifecycle` does."""

    def pool_of(self, name: str, version: int) -> CountingPool | None:
        """Return the instances of a version; None while it is not in service."""


class CustomCounters:
    """Sums of counters by model key, version and family, as they were read last.

    Args:
        models: Finds who counts.
    """

    def __init__(self, models: CountingModels) -> None:
        self._models = models
        self._sums: dict[tuple[str, int], dict[str, float]] = {}

    def of(self, key: str, version: int) -> Mapping[str, float]:
        """Return the sums of a version, by family."""
        return self._sums.get((key, version), {})

    async def read(self, rollouts: Iterable[tuple[str, State]]) -> None:
        """Read the counters of the rollouts that are judged by some; keep those of no other."""
        wanted = {
            (key, arm.version): families
            for key, state in rollouts
            if not state.phase.is_terminal and (families := _families(state))
            for arm in state.rollout.arms
        }
        for at in self._sums.keys() - wanted:
            del self._sums[at]
        await asyncio.gather(*(self._read(at, families) for at, families in wanted.items()))

    async def _read(self, at: tuple[str, int], families: frozenset[str]) -> None:
        pool = self._models.pool_of(*at)
        if pool is None:
            return
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                counted = await pool.statistics()
        except TimeoutError:
            # What was read before still holds: counters only grow.
            return
        sums = dict.fromkeys(families, 0.0)
        for snapshot in counted.values():
            for family in snapshot.custom:
                if family.name in sums and family.kind is Kind.COUNTER:
                    sums[family.name] += sum(each.value for each in family.metrics)
        self._sums[at] = sums


def _families(state: State) -> frozenset[str]:
    metrics = state.analysis.metrics
    return frozenset(each.family for each in metrics if each.kind is MetricKind.CUSTOM)
