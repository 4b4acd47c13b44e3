# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Figures of rows: metrics over each other, and over the load."""

from collections.abc import Sequence
from typing import Final

from manta_tools.analyze.options.plots import Plot
from manta_tools.analyze.results.rows import Row
from manta_tools.analyze.results.tables import heading
from manta_tools.analyze.tags import TAGS
from manta_tools.pages.figures import Axis, Bars, Front, Lines, Part, Point, Scatter, Series

_OTHERS: Final = "others"
_LEVELS: Final = ("concurrency", "request_rate")
_PARTS: Final = {
    "perf_server_queue": "queue",
    "perf_server_compute_input": "compute input",
    "perf_server_compute_infer": "compute infer",
    "perf_server_compute_output": "compute output",
}


def number(row: Row, column: str) -> float | None:
    """Return a cell as a number; None where there is none."""
    try:
        return float(row[column])
    except (KeyError, ValueError):
        return None


def level_column(rows: Sequence[Row]) -> str:
    """Return which column says how much load there was."""
    return next((each for each in _LEVELS if any(each in row for row in rows)), _LEVELS[0])


def scatter(plot: Plot, rows: Sequence[Row], named: Sequence[str]) -> Scatter | None:
    """Return one metric over another, a colour for each named configuration; None without data.

    Where both are metrics, what no other measurement beats in both is marked.
    """
    points = tuple(
        Point(x, y, group=path if path in named else _OTHERS)
        for row in sorted(rows, key=lambda each: _rank(each, named))
        if (x := number(row, plot.x_axis)) is not None
        and (y := number(row, plot.y_axis)) is not None
        for path in (row["model_config_path"],)
    )
    front = None
    if plot.x_axis in TAGS and plot.y_axis in TAGS:
        front = Front(not TAGS[plot.x_axis].is_more_better, not TAGS[plot.y_axis].is_more_better)
    if not points:
        return None
    return Scatter(
        plot.title, Axis(heading(plot.x_axis)), Axis(heading(plot.y_axis)), points, front
    )


def over_levels(tag: str, rows: Sequence[Row], named: Sequence[str]) -> Lines | None:
    """Return a metric over the load, a line for each named configuration; None without data."""
    column = level_column(rows)
    series = []
    for path in named:
        points = sorted(
            (x, y)
            for row in rows
            if row["model_config_path"] == path
            and (x := number(row, column)) is not None
            and (y := number(row, tag)) is not None
        )
        if points:
            xs, ys = zip(*points, strict=True)
            series.append(Series(path, xs, ys))
    if not series:
        return None
    return Lines(
        f"{heading(tag)} by {heading(column).lower()}",
        Axis(heading(column), "log"),
        Axis(heading(tag), is_from_zero=True),
        tuple(series),
        has_points=True,
    )


def latency_parts(rows: Sequence[Row]) -> Bars | None:
    """Return where the mean latency goes at each load, stacked; None without the server's part."""
    column = level_column(rows)
    shown = sorted(
        (row for row in rows if all(number(row, tag) is not None for tag in _PARTS)),
        key=lambda row: (number(row, "batch_size") or 0.0, number(row, column) or 0.0),
    )
    if not shown:
        return None
    parts = [Part(label, _values(shown, tag)) for tag, label in _PARTS.items()]
    totals = _values(shown, "perf_latency_avg")
    rest = tuple(
        max(0.0, total - sum(part.values[index] for part in parts))
        for index, total in enumerate(totals)
    )
    has_batches = len({row["batch_size"] for row in shown}) > 1
    return Bars(
        "Where the mean latency goes",
        tuple(
            f"{row.get(column, '')} x {row['batch_size']}" if has_batches else row.get(column, "")
            for row in shown
        ),
        Axis("ms"),
        (*parts, Part("network and client", rest)),
        category_label=heading(column) + (" x batch" if has_batches else ""),
    )


def _values(rows: Sequence[Row], column: str) -> tuple[float, ...]:
    return tuple(number(row, column) or 0.0 for row in rows)


def _rank(row: Row, named: Sequence[str]) -> int:
    path = row["model_config_path"]
    return named.index(path) if path in named else len(named)
