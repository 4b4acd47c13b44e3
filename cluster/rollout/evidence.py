# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What routers, and the models' own counters, have told of the versions of rollouts."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from backends.api.custom_metrics import MetricKind as Kind
from cluster.instances.pool import InstancePool
from cluster.rollout.readings import ArmReading
from cluster.rollout.state import State
from deployments.contracts.arm_report import ArmReport, decode_arms
from deployments.metrics.distributions import quantile
from deployments.rollouts.spec import MetricKind

_log = logging.getLogger(__name__)

_QUANTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}
_TIMEOUT_S: Final = 2.0


class Evidence:
    """Counts by model key and version.

    Nothing is kept of models without a rollout; a late report of one is dropped.
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[int, ArmReport]] = {}

    def begin(self, key: str) -> None:
        """Count for a model, anew."""
        self._counts[key] = {}

    def forget(self, key: str) -> None:
        """Count for a model no longer."""
        self._counts.pop(key, None)

    def take(self, report: bytes) -> None:
        """Take what a router tells; what cannot be read is logged and left out."""
        try:
            rows = decode_arms(report)
        except msgspec.MsgspecError as error:
            _log.warning("a router's report of rollouts cannot be read: %s", error)
            return
        for row in rows:
            counts = self._counts.get(row.key)
            if counts is not None:
                counts.setdefault(row.version, ArmReport(row.key, row.version)).add(row)

    def reading(self, key: str, version: int, custom: Mapping[str, float]) -> ArmReading:
        """Return the counts of a version as the analysis takes them.

        Args:
            key: The model's key.
            version: Version number.
            custom: Sums of the model's own counters, by family.
        """
        counts = self._of(key, version)
        latencies, queue = dict(counts.latencies), dict(counts.queue)
        return ArmReading(counts.requests, counts.errors, latencies, queue, custom)

    def shown(self, key: str, version: int) -> dict[str, Any]:
        """Return what is told of a version, JSON; times in microseconds, null where none are."""
        counts = self._of(key, version)
        times = {name: quantile(counts.latencies, at) for name, at in _QUANTILES.items()}
        return {
            "requests": counts.requests,
            "errors": counts.errors,
            **{name: value if counts.latencies else None for name, value in times.items()},
            "mirrored": counts.mirrored,
            "mirror_errors": counts.mirror_errors,
            "mismatches": counts.mismatches,
            "dropped": counts.dropped,
        }

    def _of(self, key: str, version: int) -> ArmReport:
        return self._counts.get(key, {}).get(version) or ArmReport(key, version)


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
