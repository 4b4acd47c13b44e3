# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A climb along the dimensions, under the load that fills a candidate, then the best at all loads.

The load of a candidate follows from it, so the climb has a dimension less than the brute search.

Triton: model_analyzer/model_analyzer/config/generate/quick_run_config_generator.py,
quick_plus_concurrency_sweep_run_config_generator.py @63a0fec
"""

from cluster.tools.analyze.objectives import Standing
from cluster.tools.analyze.searching.levels import sweep
from cluster.tools.analyze.searching.steps import Steps, side_by_side
from cluster.tools.analyze.searching.task import Outcomes, Task, measured_in
from cluster.tools.analyze.space.product import Point

# A step of two choices first: the larger one crosses small dents and noise.
_DISTANCES = (2, 1)


def quick(task: Task) -> Steps[None]:
    """Measure the default, climb from the smallest candidate, and sweep the loads of the best."""
    outcomes = Outcomes(task.judge)
    yield from measured_in(outcomes, [task.formula_trial(task.space.default())])
    yield from _climb(task, outcomes)
    yield from sweep_of_best(task, outcomes)


def sweep_of_best(task: Task, outcomes: Outcomes) -> Steps[None]:
    """Measure the default and the best candidates at all loads."""
    if task.limits.top:
        best = outcomes.top_candidates(task.limits.top)
        candidates = dict.fromkeys([task.space.default(), *best])
        found = yield from side_by_side((sweep(task, each) for each in candidates), task.width)
        for each in found:
            outcomes.add(each)


def _climb(task: Task, outcomes: Outcomes) -> Steps[None]:
    home: Point = (0,) * len(task.space.dimensions)
    standing = yield from _standing(task, outcomes, home)
    visited = {home}
    for distance in _DISTANCES:
        while True:
            around = [at for at in task.space.neighbours(home, distance) if at not in visited]
            visited.update(around)
            yield from measured_in(
                outcomes, [task.formula_trial(task.space.candidate(at)) for at in around]
            )
            best, best_standing = home, standing
            for at in task.space.neighbours(home, distance):
                other = yield from _standing(task, outcomes, at)
                if other > best_standing:
                    best, best_standing = at, other
            if best == home:
                break
            home, standing = best, best_standing


def _standing(task: Task, outcomes: Outcomes, point: Point) -> Steps[Standing]:
    trial = task.formula_trial(task.space.candidate(point))
    for each in outcomes.seen:
        if each.trial == trial:
            return outcomes.standing(each)
    (measured,) = yield from measured_in(outcomes, [trial])
    return outcomes.standing(measured)
