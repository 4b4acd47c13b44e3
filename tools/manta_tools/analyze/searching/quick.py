# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A climb along the dimensions, under the load that fills a candidate, then the best at all loads.

The load of a candidate follows from it, so the climb has a dimension less than the brute search.

Triton: model_analyzer/model_analyzer/config/generate/quick_run_config_generator.py,
quick_plus_concurrency_sweep_run_config_generator.py @63a0fec
"""

from collections.abc import Mapping

from manta_tools.analyze.records import Candidate
from manta_tools.analyze.searching.final import final
from manta_tools.analyze.searching.levels import fill, sweep
from manta_tools.analyze.searching.steps import Steps, side_by_side
from manta_tools.analyze.searching.task import Outcomes, Task
from manta_tools.analyze.space.product import Point

# A step of two choices first: the larger one crosses small dents and noise.
_DISTANCES = (2, 1)


def quick(task: Task) -> Steps[None]:
    """Measure the default, climb from the smallest candidate, and sweep the loads of the best."""
    outcomes = Outcomes(task.judge)
    yield from fill(task, outcomes, task.space.default())
    yield from climb(task, outcomes, (0,) * len(task.space.dimensions))
    yield from sweep_of_best(task, outcomes)


def sweep_of_best(task: Task, outcomes: Outcomes) -> Steps[None]:
    """Measure the best again, then the default and the best candidates at all loads."""
    if task.limits.top:
        yield from final(task, outcomes)
        best = outcomes.top_candidates(task.limits.top)
        candidates = dict.fromkeys([task.space.default(), *best])
        found = yield from side_by_side((sweep(task, each) for each in candidates), task.width)
        for each in found:
            outcomes.add(each)


def climb_from_best(
    task: Task, outcomes: Outcomes, points: Mapping[Candidate, Point]
) -> Steps[None]:
    """Look at the neighbours of the best candidate whose point is known, unless nothing is swept.

    What is drawn by chance comes close to the best one, and seldom upon it.
    """
    known = [each for each in outcomes.top_candidates(len(outcomes.seen)) if each in points]
    if known and task.limits.top:
        yield from climb(task, outcomes, points[known[0]])


def climb(task: Task, outcomes: Outcomes, home: Point) -> Steps[None]:
    """Go to the best neighbour until none is better, with each distance in turn."""
    standing = yield from fill(task, outcomes, task.space.candidate(home))
    for distance in _DISTANCES:
        while True:
            around = list(task.space.neighbours(home, distance))
            found = yield from side_by_side(
                (fill(task, outcomes, task.space.candidate(at)) for at in around), task.width
            )
            best, best_at = max(zip(found, around, strict=True), default=(standing, home))
            if best <= standing:
                break
            home, standing = best_at, best
