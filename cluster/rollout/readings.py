# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is counted of an arm, and what the analysis makes of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from deployments.metrics.distributions import Classes, class_of, value_of
from deployments.rollouts.spec import Metric, MetricKind

QUANTILES: Final[Mapping[MetricKind, float]] = {
    MetricKind.P50: 0.5,
    MetricKind.P95: 0.95,
    MetricKind.P99: 0.99,
    MetricKind.QUEUE: 0.95,
}


@dataclass(frozen=True, slots=True)
class ArmReading:
    """Counters of an arm since any beginning; they only grow, unless they begin anew.

    Attributes:
        requests: With a terminal outcome, good or bad.
        failures: Those that failed for reasons of the server's: neither cancelled by the client nor
            refused for what the client sent.
        latencies: Of the successful ones: counts by class of microseconds, see
            `deployments.metrics.distributions`.
        queue: The same of their time in the queue.
        custom: By family: the sum of a counter of the model's own.
    """

    requests: int = 0
    failures: int = 0
    latencies: Mapping[int, int] = field(default_factory=dict)
    queue: Mapping[int, int] = field(default_factory=dict)
    custom: Mapping[str, float] = field(default_factory=dict)

    def since(self, before: "ArmReading") -> "ArmReading | None":
        """Return what was counted after another reading; None where counters began anew."""
        later = ArmReading(
            self.requests - before.requests,
            self.failures - before.failures,
            _less(self.latencies, before.latencies),
            _less(self.queue, before.queue),
            {
                family: value - before.custom.get(family, 0.0)
                for family, value in self.custom.items()
            },
        )
        counts = (*later.latencies.values(), *later.queue.values(), *later.custom.values())
        if min(later.requests, later.failures, *counts, 0) < 0:
            return None
        return later

    def classes_of(self, metric: Metric) -> Mapping[int, int]:
        """Return the times that a metric is about."""
        return self.queue if metric.kind is MetricKind.QUEUE else self.latencies


def _less(after: Mapping[int, int], before: Mapping[int, int]) -> Classes:
    less = {number: count - before.get(number, 0) for number, count in after.items()}
    # A class that was and is not has begun anew.
    less.update({number: -count for number, count in before.items() if number not in after})
    return {number: count for number, count in less.items() if count}


def bad_of(metric: Metric, reading: ArmReading) -> tuple[int, int]:
    """Return how many answers of a period were bad, of how many, by a metric that counts shares."""
    if metric.kind is MetricKind.ERRORS:
        return min(reading.failures, reading.requests), reading.requests
    counted = min(round(reading.custom.get(metric.family, 0.0)), reading.requests)
    return (reading.requests - counted if metric.is_good else counted), reading.requests


def above(classes: Mapping[int, int], number: int) -> tuple[int, int]:
    """Return how many times lie in classes above one, of how many."""
    return sum(count for at, count in classes.items() if at > number), sum(classes.values())


def worsened(metric: Metric, number: int) -> int:
    """Return the class that a time of a class may reach and still be harmless."""
    value = value_of(number)
    return class_of(int(max(value * (1.0 + metric.tolerance), value + metric.floor_us)))
