# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the policy over a load in virtual time, one reading a second."""

from collections.abc import Callable
from dataclasses import dataclass, field

from backends.config.autoscaling import AutoscalingRules
from cluster.autoscaling.policy import Decision, LoadReading, ScalingState, begin, decide

Load = Callable[[float], float]
Measure = Callable[[float, int], LoadReading]


@dataclass
class Trace:
    """What became of the count.

    Attributes:
        state: After the last reading.
        counts: After each reading.
        changes: When it changed, in seconds, and to what.
    """

    state: ScalingState
    counts: list[int] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.state.count


def requests(load: Load) -> Measure:
    """Return readings of a load of ongoing requests, whoever serves them."""
    return lambda now_s, _: LoadReading(load(now_s), is_used=load(now_s) > 0)


def run(
    rules: AutoscalingRules, measure: Measure, length_s: int, start: int = 1, at_s: float = 0.0
) -> Trace:
    trace = Trace(begin(rules, start, at_s))
    for second in range(1, length_s + 1):
        now_s = at_s + second
        reading = measure(now_s, trace.state.count)
        trace.state, decision = decide(rules, trace.state, reading, now_s)
        trace.counts.append(trace.state.count)
        if decision is not None:
            trace.changes.append((now_s, decision.count))
            trace.decisions.append(decision)
    return trace
