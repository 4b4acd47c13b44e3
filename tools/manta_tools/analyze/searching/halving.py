# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Successive halving: many candidates are measured shortly, the best third three times as long.

A candidate is measured under the load that fills it. From the best that is left the search climbs
to its neighbours, which may not have been drawn, and sweeps the best of all over loads.
"""

import math
import random
from collections.abc import Sequence
from typing import Final

from manta_tools.analyze.searching.levels import fill
from manta_tools.analyze.searching.quick import climb_from_best, sweep_of_best
from manta_tools.analyze.searching.steps import Steps, side_by_side
from manta_tools.analyze.searching.task import Outcomes, Task
from manta_tools.analyze.space.product import Point, Space

# One of so many goes on, and is measured so many times as long.
_FACTOR: Final = 3
# The shortest measurement is a ninth: below, a window has too few requests to compare.
_ROUNDS: Final = 3
# Of fewer candidates all are measured.
_ENOUGH: Final = 27
# Above, candidates are drawn one by one instead of from a list of all.
_LISTED: Final = 100_000


def halving(task: Task) -> Steps[None]:
    """Measure the default, and candidates in rounds; climb from the best, sweep the loads."""
    final = Outcomes(task.judge)
    yield from fill(task, final, task.space.default())
    points = _drawn(task)
    rounds = min(_ROUNDS, 1 + int(math.log(max(1, len(points)), _FACTOR)))
    for index in range(1, rounds):
        points = yield from _best_third(task, points, _FACTOR ** (index - rounds))
    by_candidate = {task.space.candidate(at): at for at in points}
    yield from side_by_side((fill(task, final, each) for each in by_candidate), task.width)
    yield from climb_from_best(task, final, by_candidate)
    yield from sweep_of_best(task, final)


def _best_third(task: Task, points: Sequence[Point], budget: float) -> Steps[list[Point]]:
    """Measure candidates shortly and return the best of them, at least one."""
    outcomes = Outcomes(task.judge)
    # What the others are compared with.
    yield from fill(task, outcomes, task.space.default(), budget)
    found = yield from side_by_side(
        (fill(task, outcomes, task.space.candidate(at), budget) for at in points), task.width
    )
    order = sorted(range(len(points)), key=found.__getitem__, reverse=True)
    return [points[index] for index in order[: math.ceil(len(points) / _FACTOR)]]


def _drawn(task: Task) -> list[Point]:
    """Return different points, the most that the limits allow, drawn by the seed.

    The share that is measured at least is part of that which is at most.
    """
    share = math.ceil(task.space.size * task.limits.max_percentage / 100)
    count = min(task.space.size, max(_ENOUGH, share))
    chance = random.Random(task.seed)  # noqa: S311 - not for secrets
    if task.space.size <= _LISTED:
        return chance.sample(list(task.space.points()), count)
    return _drawn_one_by_one(task.space, count, chance)


def _drawn_one_by_one(space: Space, count: int, chance: random.Random) -> list[Point]:
    found: dict[Point, None] = {}
    while len(found) < count:
        found[tuple(chance.randrange(length) for length in space.shape)] = None
    return list(found)
