# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Every candidate at every load that still gains.

Triton: model_analyzer/model_analyzer/config/generate/
brute_plus_binary_parameter_search_run_config_generator.py @63a0fec
"""

import itertools
from collections.abc import Sequence

from cluster.tools.analyze.records import Measured
from cluster.tools.analyze.searching.levels import has_settled, sweep
from cluster.tools.analyze.searching.steps import Steps, side_by_side
from cluster.tools.analyze.searching.task import Task
from cluster.tools.analyze.space.product import Point


def brute(task: Task) -> Steps[None]:
    """Measure the default, then every candidate; with ``stops_early`` rows end at a plateau."""
    yield from sweep(task, task.space.default())
    if not task.stops_early:
        points = task.space.points()
        yield from side_by_side(
            (sweep(task, task.space.candidate(at)) for at in points), task.width
        )
        return
    rows = itertools.groupby(task.space.points(), key=lambda point: point[:-1])
    yield from side_by_side((_row(task, tuple(points)) for _, points in rows), task.width)


def _row(task: Task, points: Sequence[Point]) -> Steps[None]:
    """Measure candidates that differ in the last dimension, until it has stopped to gain."""
    bests: list[Measured] = []
    for point in points:
        found = yield from sweep(task, task.space.candidate(point))
        best = task.judge.best(found)
        bests += [best] if best is not None else found[:1]
        if has_settled(task.judge, bests):
            return
