# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which of two measurements is the better one.

What keeps all constraints comes before what does not, and that before what failed. Among the first
the weighted relative gain over a reference decides, among the second how far they are off.

Triton: model_analyzer/model_analyzer/result/model_config_measurement.py _calculate_weighted_score,
result/constraint_manager.py @63a0fec
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from manta_tools.analyze.records import Candidate, Measured
from manta_tools.analyze.tags import ALIASES, COST, SUMMED, TAGS, THROUGHPUT, TIMES

_SECONDS_PER_HOUR: Final = 3600.0
_MILLION: Final = 1e6
# A metric that only one of two measurements has decides between them.
_MISSING: Final = 1.0


@dataclass(frozen=True, slots=True)
class Bound:
    """A constraint on one metric; values that are not measured are not bound."""

    tag: str
    side: Literal["min", "max"]
    limit: float

    def excess(self, value: float) -> float:
        """How far a value is on the wrong side, relative to the limit; 0.0 where it is not."""
        off = value - self.limit if self.side == "max" else self.limit - value
        return max(0.0, off) / abs(self.limit or 1.0)


@dataclass(frozen=True, slots=True)
class Goal:
    """What is wanted of one model.

    Attributes:
        model: Its name.
        objectives: Tags and their weights, which need not sum up to 1.
        constraints: What a result has to keep.
        weighting: What the model counts among those that are measured with it.
    """

    model: str
    objectives: tuple[tuple[str, float], ...] = ((THROUGHPUT, 1.0),)
    constraints: tuple[Bound, ...] = ()
    weighting: float = 1.0


# Class (2 keeps the constraints, 1 does not, 0 failed) and value in it; more is better.
Standing = tuple[int, float]


@dataclass(frozen=True, slots=True)
class Judge:
    """Compares measurements of the same models.

    Attributes:
        goals: One for each model that is asked.
        price_per_node_hour: In any currency; 0.0 leaves the cost unknown.
        nodes: How many nodes a measurement occupies.
    """

    goals: tuple[Goal, ...]
    price_per_node_hour: float = 0.0
    nodes: int = 1

    def metric(self, measured: Measured, model: str, tag: str) -> float | None:
        """Return one metric; None when it was not measured.

        Those of GPUs are summed (memory, power) or averaged over them. The cost is that of the
        nodes for a million inferences of all models together.
        """
        tag = ALIASES.get(tag, tag)
        if tag == COST:
            return self._cost(measured)
        value = measured.metrics.get(model, {}).get(tag)
        if value is not None or not TAGS[tag].is_of_gpu:
            return value
        found = [of_gpu[tag] for of_gpu in measured.gpu_metrics.values() if tag in of_gpu]
        if not found:
            return None
        return sum(found) if tag in SUMMED else statistics.fmean(found)

    def satisfies(self, measured: Measured) -> bool:
        """Whether a measurement keeps the constraints of all models; one that failed does not."""
        return not measured.error and self.violation(measured) == 0.0

    def violation(self, measured: Measured) -> float:
        """Sum up how far it is off its constraints, each relative to its limit."""
        return sum(
            bound.excess(value)
            for goal in self.goals
            for bound in goal.constraints
            if (value := self.metric(measured, goal.model, bound.tag)) is not None
        )

    def overload(self, measured: Measured) -> float:
        """Return how many times the worst time is its upper limit; up to 1.0 keeps them all.

        Less load may keep limits on times that a load exceeds. It helps against no lower limit, and
        not against one on memory or cost.
        """
        return max(
            (
                value / bound.limit if bound.limit else 1.0 + value
                for goal in self.goals
                for bound in goal.constraints
                if _is_of_load(bound)
                and (value := self.metric(measured, goal.model, bound.tag)) is not None
            ),
            default=0.0,
        )

    @property
    def limits_load(self) -> bool:
        """Whether any constraint is one that more load may exceed."""
        return any(_is_of_load(bound) for goal in self.goals for bound in goal.constraints)

    def gain(self, measured: Measured, over: Measured) -> float:
        """Return the weighted relative gain over another measurement.

        Each objective counts its difference in the right direction, relative to the mean of both;
        so the gain lies between -2.0 and 2.0. Models count by their weighting.
        """
        total = sum(goal.weighting for goal in self.goals)
        return sum(
            goal.weighting / total * self._gain_of(goal, measured, over) for goal in self.goals
        )

    def gains(self, measured: Measured, over: Measured) -> tuple[float, ...]:
        """Return the relative gain by objective of every model, unweighted, in their order."""
        return tuple(
            self._relative(goal.model, tag, measured, over)
            for goal in self.goals
            for tag, _ in goal.objectives
        )

    def standing(self, measured: Measured, over: Measured | None) -> Standing:
        """Place a measurement among all that are compared with the same reference.

        Args:
            measured: What is placed.
            over: The reference; None where nothing has succeeded yet.
        """
        if measured.error or over is None:
            return 0, 0.0
        if (violation := self.violation(measured)) > 0.0:
            return 1, -violation
        return 2, self.gain(measured, over)

    def ranked(self, results: Iterable[Measured]) -> list[Measured]:
        """Return what succeeded, the best first; of equals the earlier.

        Of what keeps the constraints alike, what was measured longer comes first: luck has less
        part in it. The reference is the default config's first success, or else the first success.
        """
        succeeded = [each for each in results if not each.error]
        over = reference(succeeded)

        def place(measured: Measured) -> tuple[int, float, float]:
            grade, value = self.standing(measured, over)
            return grade, measured.trial.budget, value

        return sorted(succeeded, key=place, reverse=True)

    def best(self, results: Iterable[Measured]) -> Measured | None:
        """Return the first of `ranked`; None when all failed."""
        return next(iter(self.ranked(results)), None)

    def best_by_candidate(self, results: Iterable[Measured]) -> list[Measured]:
        """Return the best measurement of each candidate, the best candidate first."""
        seen: dict[Candidate, Measured] = {}
        for each in self.ranked(results):
            seen.setdefault(each.trial.candidate, each)
        return list(seen.values())

    def _gain_of(self, goal: Goal, measured: Measured, over: Measured) -> float:
        total = sum(weight for _, weight in goal.objectives)
        return sum(
            weight / total * self._relative(goal.model, tag, measured, over)
            for tag, weight in goal.objectives
        )

    def _relative(self, model: str, tag: str, measured: Measured, over: Measured) -> float:
        return relative_gain(tag, self.metric(measured, model, tag), self.metric(over, model, tag))

    def _cost(self, measured: Measured) -> float | None:
        throughputs = [
            of_model[THROUGHPUT] for of_model in measured.metrics.values() if THROUGHPUT in of_model
        ]
        if not self.price_per_node_hour or not sum(throughputs):
            return None
        price = self.price_per_node_hour * self.nodes
        return price / (sum(throughputs) * _SECONDS_PER_HOUR) * _MILLION


def relative_gain(tag: str, value: float | None, other: float | None) -> float:
    """Return how much better a metric's value is than another, relative to the mean of both.

    It lies between -2.0 and 2.0; a value that is missing is worse than one that is there.
    """
    if value is None or other is None:
        return _MISSING * ((value is not None) - (other is not None))
    mean = (abs(value) + abs(other)) / 2
    sign = 1.0 if TAGS[ALIASES.get(tag, tag)].is_more_better else -1.0
    return sign * (value - other) / mean if mean else 0.0


def _is_of_load(bound: Bound) -> bool:
    return bound.side == "max" and ALIASES.get(bound.tag, bound.tag) in TIMES


def reference(succeeded: Sequence[Measured]) -> Measured | None:
    """Return what others are compared with: the default config, or else the first."""
    defaults = (
        each
        for each in succeeded
        if not any(setting.values for setting in each.trial.candidate.settings)
    )
    return next(defaults, succeeded[0] if succeeded else None)
