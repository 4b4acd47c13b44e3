# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The loads of one candidate: up in powers of two to the plateau, then to the constraint.

Triton: model_analyzer/model_analyzer/result/parameter_search.py ParameterSearch @63a0fec
"""

from collections.abc import Sequence
from typing import Final

from manta_tools.analyze.objectives import Judge, Standing
from manta_tools.analyze.records import Candidate, Measured, Trial
from manta_tools.analyze.searching.steps import Steps
from manta_tools.analyze.searching.task import Outcomes, Task, batches, measured_in

# Four measurements in a row whose best gains less than this over their first are a plateau.
PLATEAU_GAIN: Final = 0.05
PLATEAU_TRIES: Final = 4
# How often less load is tried of a candidate that is over a limit.
_RELIEFS: Final = 2
# So much below the limit, so that noise does not put it above again.
_MARGIN: Final = 1.05


def sweep(task: Task, candidate: Candidate) -> Steps[list[Measured]]:
    """Measure a candidate at all batch sizes that it takes, each at the loads it needs."""
    found: list[Measured] = []
    for batch_size in batches(task):
        if task.fits(candidate, batch_size):
            found += yield from _levels_of(task, candidate, batch_size)
    return found


def fill(
    task: Task, outcomes: Outcomes, candidate: Candidate, budget: float = 1.0
) -> Steps[Standing]:
    """Measure a candidate under the load that fills it, and return where its best stands.

    Where that is more than an upper limit allows, less load is tried.
    """
    return (yield from relieve(task, outcomes, task.formula_trial(candidate, budget)))


def relieve(task: Task, outcomes: Outcomes, trial: Trial) -> Steps[Standing]:
    """Measure under a load, or less where that is over an upper limit; return the best's standing.

    It is so much less as the metric is over its limit, since what waits in a full queue grows with
    the load.
    """
    best: Standing | None = None
    for _ in range(1 + _RELIEFS):
        measured = outcomes.of(trial)
        if measured is None:
            (measured,) = yield from measured_in(outcomes, [trial])
        standing = outcomes.standing(measured)
        best = standing if best is None else max(best, standing)
        over = 0.0 if measured.error else task.judge.overload(measured)
        if over <= 1.0 or any(each.levels for each in task.asked):
            break
        trial = task.relieved(trial, over * _MARGIN)
    return best or (0, 0.0)


def has_settled(judge: Judge, measured: Sequence[Measured]) -> bool:
    """Whether the last measurements are a plateau; what failed counts as nothing gained."""
    last = measured[-PLATEAU_TRIES:]
    if len(last) < PLATEAU_TRIES:
        return False
    succeeded = [each for each in last if not each.error]
    if not succeeded:
        return True
    if last[0].error:
        return False
    return max(judge.gain(each, last[0]) for each in succeeded) < PLATEAU_GAIN


def _levels_of(task: Task, candidate: Candidate, batch_size: int) -> Steps[list[Measured]]:
    if listed := task.listed_trials(candidate, batch_size):
        return list((yield listed))
    found: list[Measured] = []
    for level in task.ladder():
        found += yield [task.trial(candidate, level, batch_size)]
        if has_settled(task.judge, found):
            break
    found += yield from _to_the_constraint(task, candidate, batch_size, found)
    return found


def _to_the_constraint(
    task: Task, candidate: Candidate, batch_size: int, found: Sequence[Measured]
) -> Steps[list[Measured]]:
    """Halve the distance between the highest level that keeps the constraints and the next."""
    keeps, breaks = _boundary(task.judge, found)
    closer: list[Measured] = []
    for _ in range(task.levels.bisections if breaks else 0):
        middle = (keeps + breaks) // 2
        if middle <= keeps or middle < 1:
            break
        (measured,) = yield [task.trial(candidate, middle, batch_size)]
        closer.append(measured)
        if task.judge.satisfies(measured):
            keeps = middle
        else:
            breaks = middle
    return closer


def _boundary(judge: Judge, found: Sequence[Measured]) -> tuple[float, float]:
    """Return the level below the lowest that breaks a constraint, and that; zeros for none.

    Among the levels that failed altogether there is none.
    """
    keeps = 0.0
    for each in found:
        level = each.trial.loads[0].level
        if each.error:
            return 0.0, 0.0
        # Too little load breaks constraints too, those of throughput: more of it may keep them.
        if not judge.satisfies(each) and (keeps or judge.overload(each) > 1.0):
            return keeps, level
        if judge.satisfies(each):
            keeps = level
    return 0.0, 0.0
