# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Latencies in an HDR histogram of three significant digits, with exact mean and deviation.

Mean and deviation come from sums of their own: a histogram's are as coarse as its buckets.
"""

import math
from collections.abc import Iterable
from typing import Any, Final

from hdrh.histogram import HdrHistogram

_LOWEST_NS: Final = 1
# A day; what lasts longer counts as a day.
_HIGHEST_NS: Final = 24 * 3600 * 10**9
_DIGITS: Final = 3


class LatencyHistogram:
    """Latencies in nanoseconds; percentiles are right to a thousandth.

    Attributes:
        count: How many latencies there are.
        sum_ns: Their sum.
        sum_of_squares: The sum of their squares, in nanoseconds squared.
        buckets: The histogram.
    """

    def __init__(self, latencies_ns: Iterable[int] = ()) -> None:
        self.buckets: Any = HdrHistogram(_LOWEST_NS, _HIGHEST_NS, _DIGITS)
        self.count = 0
        self.sum_ns = self.sum_of_squares = 0
        for each in latencies_ns:
            self.record(each)

    def record(self, latency_ns: int) -> None:
        """Add a latency."""
        self.buckets.record_value(min(max(latency_ns, _LOWEST_NS), _HIGHEST_NS))
        self.count += 1
        self.sum_ns += latency_ns
        self.sum_of_squares += latency_ns * latency_ns

    def add(self, other: "LatencyHistogram") -> None:
        """Add all latencies of another histogram."""
        if other.count:
            self.buckets.add(other.buckets)
            self.count += other.count
            self.sum_ns += other.sum_ns
            self.sum_of_squares += other.sum_of_squares

    @property
    def mean_ns(self) -> float:
        """The mean; 0 when there are none."""
        return self.sum_ns / self.count if self.count else 0.0

    @property
    def deviation_ns(self) -> float:
        """The standard deviation of the sample; 0 when there are fewer than two."""
        if self.count < 2:  # noqa: PLR2004 - one latency does not deviate
            return 0.0
        spread = self.sum_of_squares * self.count - self.sum_ns * self.sum_ns
        return math.sqrt(spread / (self.count * (self.count - 1)))

    def percentile_ns(self, percentile: float) -> int:
        """Return the latency at a percentile, by perf_analyzer's rule which one that is; 0 of none.

        Triton: perf_analyzer/src/inference_profiler.cc SummarizeLatency @263c5f6
        """
        if not self.count:
            return 0
        rank = int(percentile / 100.0 * (self.count - 1) + 0.5) + 1
        return int(self.buckets.get_value_at_percentile(100.0 * rank / self.count))
