# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Every candidate at every load that still gains.

Triton: model_analyzer/model_analyzer/config/generate/
brute_plus_binary_parameter_search_run_config_generator.py @63a0fec
"""

import itertools
from collections.abc import Sequence

from manta_tools.analyze.records import Measured
from manta_tools.analyze.searching.final import FINALISTS, final
from manta_tools.analyze.searching.levels import has_settled, sweep
from manta_tools.analyze.searching.steps import Steps, side_by_side
from manta_tools.analyze.searching.task import Outcomes, Task
from manta_tools.analyze.space.product import Point


def brute(task: Task) -> Steps[None]:
    """Measure the default, then every candidate, and the best of many again.

    With ``stops_early`` rows end at a plateau.
    """
    outcomes = Outcomes(task.judge)
    outcomes.add((yield from sweep(task, task.space.default())))
    points = task.space.points()
    rows = (
        itertools.groupby(points, key=lambda point: point[:-1])
        if task.stops_early
        else ((point, (point,)) for point in points)
    )
    found = yield from side_by_side((_row(task, tuple(each)) for _, each in rows), task.width)
    for measured in found:
        outcomes.add(measured)
    # Of a few somebody has listed each.
    if task.space.size > FINALISTS:
        yield from final(task, outcomes)


def _row(task: Task, points: Sequence[Point]) -> Steps[list[Measured]]:
    """Measure candidates that differ in the last dimension, until it has stopped to gain."""
    measured: list[Measured] = []
    bests: list[Measured] = []
    for point in points:
        found = yield from sweep(task, task.space.candidate(point))
        measured += found
        best = task.judge.best(found)
        bests += [best] if best is not None else found[:1]
        if has_settled(task.judge, bests):
            break
    return measured
