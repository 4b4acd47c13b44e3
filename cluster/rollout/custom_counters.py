# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counters of the models' own, read for rollouts that are judged by them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from backends.api.custom_metrics import MetricKind as Kind
from cluster.instances.pool import InstancePool
from cluster.rollout.state import State
from deployments.rollouts.spec import MetricKind

_TIMEOUT_S: Final = 2.0


@dataclass(slots=True, eq=False)
class CustomCounters:
    """Sums of counters by model key, version and family, as they were read last.

    An instance that does not say keeps what it has said: a sum that fell and rose again would look
    like many answers at once.

    Attributes:
        pool_of: Returns the instances of a version; None while it is not in service.
    """

    pool_of: Callable[[str, int], InstancePool | None]
    # By model key and version: by instance: by family.
    _counts: dict[tuple[str, int], dict[str, dict[str, float]]] = field(default_factory=dict)

    def of(self, key: str, version: int) -> Mapping[str, float] | None:
        """Return the sums of a version, by family; None until an instance has said something."""
        counts = self._counts.get((key, version))
        if not counts:
            return None
        sums: dict[str, float] = {}
        for each in counts.values():
            for family, value in each.items():
                sums[family] = sums.get(family, 0.0) + value
        return sums

    async def read(self, rollouts: Iterable[tuple[str, State]]) -> None:
        """Read the counters of the rollouts that are judged by some; keep those of no other."""
        wanted = {
            (key, arm.version): families
            for key, state in rollouts
            if not state.phase.is_terminal and (families := families_of(state))
            for arm in state.rollout.arms
        }
        for at in self._counts.keys() - wanted:
            del self._counts[at]
        await asyncio.gather(*(self._read(at, families) for at, families in wanted.items()))

    async def _read(self, at: tuple[str, int], families: frozenset[str]) -> None:
        pool = self.pool_of(*at)
        if pool is None:
            return
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                counted = await pool.statistics()
        except TimeoutError:
            # What was read before still holds: counters only grow.
            return
        counts = self._counts.setdefault(at, {})
        for name, snapshot in counted.items():
            sums = counts[name] = dict.fromkeys(families, 0.0)
            for family in snapshot.custom:
                if family.name in sums and family.kind is Kind.COUNTER:
                    sums[family.name] += sum(each.value for each in family.metrics)


def families_of(state: State) -> frozenset[str]:
    """Return the counters that a rollout is judged by."""
    metrics = state.analysis.metrics
    return frozenset(each.family for each in metrics if each.kind is MetricKind.CUSTOM)
