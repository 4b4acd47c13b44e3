# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is counted of an arm, what the analysis makes of it, and where latencies are compared. Pure.

Theory of comparing. A quantile becomes a question about shares: a time T is taken from the stable
arm's past, near the quantile, and the candidate's answers slower than T and the tolerance are
compared with the stable arm's slower than T. A candidate that is slower by just the tolerance has
the same share of them, whatever the shape of the distribution.

Not every T tells. A quantile may lie between two humps, where a tolerance more or less meets no
answers. So T is the time beyond the quantile, not further than a quarter of its tail, at which a
candidate without any fault differs most clearly from one at the tolerance.
"""

from bisect import bisect_right
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
# Answers beyond the quantile that the past has to hold.
_LEAST_TAIL: Final = 10
_LEAST_PART: Final = 0.25
# A threshold stays while the stable arm's share beyond it is this much of the quantile's tail.
_STAYS: Final = (0.15, 2.0)
# A difference of shares, as part of the tail, that is harmless; more where no time tells.
_SLACK: Final = 0.05
_BLIND_SLACK: Final = 0.5


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


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where times are compared.

    Attributes:
        stable: Class above which answers of the stable arm are slow.
        candidate: Class above which those of the candidate are.
        bad_margin: Difference of shares above which the candidate is worse.
        good_margin: Difference of shares below which it is as good.
    """

    stable: int
    candidate: int
    bad_margin: float
    good_margin: float


def threshold_of(
    metric: Metric, past: Mapping[int, float], current: Threshold | None
) -> Threshold | None:
    """Return where the next answers are compared.

    Args:
        metric: A quantile of latencies or of the queue.
        past: Answers of the stable arm so far, by class.
        current: Where they have been compared; stays while it lies near the quantile.

    Returns:
        None while too little is known of the stable arm.
    """
    tail = 1.0 - QUANTILES[metric.kind]
    total = sum(past.values())
    if total * tail < _LEAST_TAIL:
        return None
    if current is not None:
        share = sum(count for at, count in past.items() if at > current.stable) / total
        if _STAYS[0] * tail <= share <= _STAYS[1] * tail:
            return current
    shares = _shares_above(past, total)
    ordered = list(shares)
    near = [at for at in ordered if _LEAST_PART * tail <= shares[at] <= tail]
    if near:
        best = max(near, key=lambda at: _contrast(metric, ordered, shares, at))
        return Threshold(best, worsened(metric, best), 0.0, _SLACK * tail)
    # A cliff: all answers up to the quantile and beyond are as fast as each other.
    cliff = min(at for at, share in shares.items() if share <= tail)
    margin = _BLIND_SLACK * tail
    return Threshold(cliff, worsened(metric, cliff), margin, margin)


def _shares_above(past: Mapping[int, float], total: float) -> dict[int, float]:
    """Return the share of times above each class that has any."""
    shares, rest = {}, total
    for at in sorted(past):
        rest -= past[at]
        shares[at] = max(0.0, rest / total)
    return shares


def _contrast(metric: Metric, classes: list[int], shares: Mapping[int, float], at: int) -> float:
    beyond = classes[bisect_right(classes, worsened(metric, at)) - 1]
    return (shares[at] - shares[beyond]) ** 2 / shares[at]
