# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What routers have told of the versions of rollouts, since each rollout began."""

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from cluster.rollout.readings import ArmReading
from deployments.contracts.arm_report import ArmReport, decode_arms
from deployments.metrics.distributions import quantile

_log = logging.getLogger(__name__)

_QUANTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}


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
