# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How sure a mean is: 95 % confidence from the means of batches.

Latencies of a queue hang together, so that the deviation of single ones says too little; means of
long batches hardly do (batch means, Law and Kelton).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from manta_tools.perf.measuring.windows import Window

_BATCHES: Final = 20
# Shorter batches hang together.
_LEAST_IN_BATCH: Final = 5
# The quantile of 97.5 % of Student's distribution with one degree of freedom less than batches.
_QUANTILE: Final = 2.093


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and how far the true one may lie off with a confidence of 95 %.

    Attributes:
        mean: The estimate.
        half_width: Distance of the ends of the interval from it; infinite for too few numbers.
    """

    mean: float
    half_width: float

    def covers(self, value: float) -> bool:
        """Whether a value lies in the interval."""
        return abs(value - self.mean) <= self.half_width


def mean_of(numbers: Sequence[float]) -> Estimate:
    """Estimate the mean of numbers that hang together, given in their order."""
    size = len(numbers) // _BATCHES
    if size < _LEAST_IN_BATCH:
        return Estimate(sum(numbers) / len(numbers) if numbers else 0.0, math.inf)
    means = [sum(numbers[index * size : (index + 1) * size]) / size for index in range(_BATCHES)]
    return _estimate(means)


def latency_of(window: Window) -> Estimate:
    """Estimate the mean latency, in nanoseconds."""
    return mean_of(window.in_order[1::2])


def throughput_of(windows: Sequence[Window]) -> Estimate:
    """Estimate the throughput, in inferences a second, from slices of equal length."""
    slices = -(-_BATCHES // len(windows)) if windows else 0
    rates: list[float] = []
    for window in windows:
        length_ns = (window.end_ns - window.start_ns) / slices
        counts = [0] * slices
        for end_ns in window.in_order[::2]:
            counts[min(int((end_ns - window.start_ns) / length_ns), slices - 1)] += 1
        rates += [count * window.batch_size * 1e9 / length_ns for count in counts]
    if sum(window.requests for window in windows) < _BATCHES * _LEAST_IN_BATCH:
        return Estimate(sum(rates) / len(rates) if rates else 0.0, math.inf)
    return _estimate(rates)


def _estimate(means: Sequence[float]) -> Estimate:
    """Estimate from means of batches; with some more of them than usual the interval is wide."""
    count = len(means)
    mean = sum(means) / count
    variance = sum((each - mean) ** 2 for each in means) / (count - 1)
    return Estimate(mean, _QUANTILE * math.sqrt(variance / count))
