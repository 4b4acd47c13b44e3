# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What one search is about: a space, loads, and what is wanted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from manta_tools.analyze.objectives import Judge, Standing, reference
from manta_tools.analyze.records import Candidate, Load, LoadKind, Measured, Trial
from manta_tools.analyze.searching.steps import Steps
from manta_tools.analyze.space.product import Space

# Requests in flight for each inference that may be executed: one executes, one waits.
_DEPTH: Final = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """One model that clients ask.

    Attributes:
        model: Its name.
        batch_sizes: Inferences of a request.
        levels: Loads to measure, where a user lists them; else they are searched.
    """

    model: str
    batch_sizes: tuple[int, ...] = (1,)
    levels: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Levels:
    """Which loads are searched.

    Attributes:
        kind: Requests in flight, or requests a second.
        least: The lowest, a power of two.
        most: The highest.
        bisections: Most steps of the search for the highest level that keeps the constraints.
    """

    kind: LoadKind = "concurrency"
    least: int = 1
    most: int = 1024
    bisections: int = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """When a search ends.

    Attributes:
        min_percentage: Of the space that is measured at least.
        max_percentage: Of the space that is measured at most.
        min_trials: Trials at least, in place of the percentage; 0 for that.
        max_trials: Trials at most, in place of the percentage; 0 for that.
        patience: After so many trials without a better one it ends.
        top: The configurations whose levels are swept in the end; 0 for none.
    """

    min_percentage: float = 5.0
    max_percentage: float = 10.0
    min_trials: int = 0
    max_trials: int = 0
    patience: int = 10
    top: int = 3


@dataclass(frozen=True, slots=True)
class Task:
    """One search.

    Attributes:
        space: The candidates.
        asked: The models that are asked, all at once.
        judge: What is wanted of them.
        levels: Which loads are searched.
        limits: When it ends.
        seed: Of what is chosen by chance.
        width: How many trials may run at once.
        stops_early: Whether larger batches are left out once they have stopped to gain.
        uses_formula: Whether a load follows from the candidate instead of being searched.
    """

    space: Space
    asked: tuple[Asked, ...]
    judge: Judge
    levels: Levels = field(default_factory=Levels)
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    width: int = 1
    stops_early: bool = False
    uses_formula: bool = False

    def trial(
        self, candidate: Candidate, level: float, batch_size: int = 0, budget: float = 1.0
    ) -> Trial:
        """Return the trial of a candidate at one level for all models.

        Args:
            candidate: The candidate.
            level: Of the load.
            batch_size: Inferences of a request; 0 for each model's first.
            budget: Which part of a full measurement it may cost.
        """
        loads = tuple(
            Load(each.model, self.levels.kind, level, batch_size or each.batch_sizes[0])
            for each in self.asked
        )
        return Trial(candidate, loads, budget)

    def formula_trial(self, candidate: Candidate, budget: float = 1.0) -> Trial:
        """Return the trial of a candidate under the load that should fill it.

        Two requests in flight for each inference that may execute, as a power of two, so that the
        same load is measured again where levels are swept. A level that a user gives takes its
        place: of several the middle one.
        """
        loads = []
        for each in self.asked:
            batch_size = each.batch_sizes[0]
            level = float(self._filling(candidate, each.model, batch_size))
            if each.levels:
                level = sorted(each.levels)[len(each.levels) // 2]
            loads.append(Load(each.model, self.levels.kind, level, batch_size))
        return Trial(candidate, tuple(loads), budget)

    def relieved(self, trial: Trial, factor: float) -> Trial:
        """Return a trial with so many times less load, in whole levels and at least the lowest."""
        loads = (
            replace(load, level=max(float(self.levels.least), float(int(load.level / factor))))
            for load in trial.loads
        )
        return replace(trial, loads=tuple(loads))

    def listed_trials(self, candidate: Candidate, batch_size: int) -> list[Trial]:
        """Return the trials at the levels that a user lists; none where some model has no list.

        Of models that are asked at once the first levels belong together, the second, and so on;
        a list that is over stays at its last.
        """
        if not all(each.levels for each in self.asked):
            return []
        count = max(len(each.levels) for each in self.asked)
        return [
            Trial(
                candidate,
                tuple(
                    Load(
                        each.model,
                        self.levels.kind,
                        each.levels[min(index, len(each.levels) - 1)],
                        batch_size or each.batch_sizes[0],
                    )
                    for each in self.asked
                ),
            )
            for index in range(count)
        ]

    def fits(self, candidate: Candidate, batch_size: int) -> bool:
        """Whether requests of so many inferences are no larger than the asked models' batches."""
        return all(
            self.space.max_batch_size(candidate, each.model) >= batch_size for each in self.asked
        )

    def ladder(self) -> tuple[float, ...]:
        """Return the levels that are searched, in powers of two."""
        count = (self.levels.most // self.levels.least).bit_length()
        return tuple(float(self.levels.least << i) for i in range(count))

    def _filling(self, candidate: Candidate, model: str, batch_size: int) -> int:
        wanted = max(1, _DEPTH * self.space.appetite(candidate, model) // batch_size)
        level = self.levels.least
        while level * 2 <= min(wanted, self.levels.most):
            level *= 2
        return level


class Outcomes:
    """What a search has seen, and who is the best of it."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._by_trial: dict[Trial, Measured] = {}
        self._over: Measured | None = None

    def add(self, outcomes: Sequence[Measured]) -> None:
        """Note outcomes; the first that succeeds is what others are compared with."""
        for each in outcomes:
            self._by_trial[each.trial] = each
        if self._over is None:
            self._over = reference([each for each in outcomes if not each.error])

    def standing(self, measured: Measured) -> Standing:
        """Place an outcome among all."""
        return self._judge.standing(measured, self._over)

    @property
    def seen(self) -> Sequence[Measured]:
        """All outcomes, one for each trial, in the order in which they came."""
        return list(self._by_trial.values())

    @property
    def over(self) -> Measured | None:
        """What others are compared with; None while nothing has succeeded."""
        return self._over

    def best(self) -> Measured | None:
        """Return the best of all; None when nothing has succeeded."""
        succeeded = [each for each in self.seen if not each.error]
        return max(succeeded, key=self.standing, default=None)

    def top_trials(self, count: int) -> list[Trial]:
        """Return the best trial of each of the best candidates, the best first.

        Of those of one grade what was measured longer comes first, as in `Judge.ranked`.
        """

        def place(measured: Measured) -> tuple[int, float, float]:
            grade, value = self.standing(measured)
            return grade, measured.trial.budget, value

        found: dict[Candidate, Trial] = {}
        for each in sorted(self.seen, key=place, reverse=True):
            if not each.error:
                found.setdefault(each.trial.candidate, each.trial)
        return list(found.values())[:count]

    def top_candidates(self, count: int) -> list[Candidate]:
        """Return the best candidates, the best first."""
        return [trial.candidate for trial in self.top_trials(count)]

    def of(self, trial: Trial) -> Measured | None:
        """Return the outcome of a trial; None when there is none yet."""
        return self._by_trial.get(trial)


def measured_in(outcomes: Outcomes, trials: Sequence[Trial]) -> Steps[list[Measured]]:
    """Have trials run, note their outcomes and return them."""
    found = list((yield trials)) if trials else []
    outcomes.add(found)
    return found


def batches(task: Task) -> Iterator[int]:
    """Yield the batch sizes that are measured; 0 stands for each model's own, where several are."""
    if len(task.asked) > 1:
        yield 0
    else:
        yield from task.asked[0].batch_sizes
