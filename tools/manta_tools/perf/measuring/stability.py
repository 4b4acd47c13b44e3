# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""When a level has been measured: the last three windows agree.

Triton: perf_analyzer/src/inference_profiler.cc DetermineStability, IsDoneProfiling @263c5f6
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WINDOWS: Final = 3
_NS_PER_MS: Final = 10**6


@dataclass(frozen=True, slots=True)
class StabilityRule:
    """What windows must agree in.

    Attributes:
        percentage: How far the largest may lie above the smallest, in percent.
        latency_limit_ms: Above it there is nothing more to measure; 0 for no limit.
        is_async: Whether throughput alone suffices once there are no more trials.
    """

    percentage: float = 10.0
    latency_limit_ms: int = 0
    is_async: bool = False

    def is_stable(
        self,
        throughputs: Sequence[float],
        latencies_ns: Sequence[float],
        *,
        check_latency: bool = True,
    ) -> bool:
        """Whether the last three windows agree in throughput and latency."""
        last = throughputs[-WINDOWS:]
        return (
            len(last) == WINDOWS
            and min(last) > 0
            and self._agree(last)
            and (not check_latency or self._agree(latencies_ns[-WINDOWS:]))
        )

    def is_over_limit(self, latencies_ns: Sequence[float]) -> bool:
        """Whether one of the last three windows is over the limit of latency."""
        last = latencies_ns[-WINDOWS:]
        limit_ns = self.latency_limit_ms * _NS_PER_MS
        return bool(limit_ns) and len(last) == WINDOWS and max(last) >= limit_ns

    def is_within_limit(self, latency_ns: float) -> bool:
        """Whether a level's latency is under the limit."""
        return not self.latency_limit_ms or latency_ns < self.latency_limit_ms * _NS_PER_MS

    def _agree(self, numbers: Sequence[float]) -> bool:
        return max(numbers) <= (1 + self.percentage / 100.0) * min(numbers)
