# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The HTML report of a run, drawn from its rows alone."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from manta_tools.pages.content import Block, Page, Paragraph, Section, Table
from manta_tools.pages.figures import Axis, Bars, Front, Lines, Part, Point, Scatter, Series
from manta_tools.perf.reports.rows import Rows

_BUSY_PERCENT: Final = 90.0
_DELAYED_PERCENT: Final = 1.0
_US_PER_MS: Final = 1000.0
# More levels than this are too many lines for one figure; the table has all.
_MOST_LINES: Final = 8
_SHOWN_PERCENTILES: Final = ("50", "90", "95", "99", "99.9")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: Above it.
        part: Where its number is, with its quantity and key.
        quantity: Which number it shows.
        key: Of the part.
        digits: Decimals that are shown.
    """

    title: str
    part: str
    quantity: str
    key: str = ""
    digits: int = 0

    def cell(self, rows: Rows, level: str, key: str = "") -> str:
        """Return the cell of a level; empty where the number is not known."""
        value = rows.value(level, self.quantity, self.part, self.key or key)
        return "" if math.isnan(value) else f"{value:.{self.digits}f}"


LEVEL_COLUMNS: Final = (
    Column("Throughput, infer/s", "level", "throughput_per_s", digits=1),
    Column("±\u00a095\u00a0%", "level", "throughput_half_width_per_s", digits=1),
    Column("Goodput, infer/s", "level", "goodput_per_s", digits=1),
    Column("Responses/s", "level", "responses_per_s", digits=1),
    Column("Sequences/s", "level", "sequences_per_s", digits=2),
    Column("Mean latency, us", "level", "mean_latency_us"),
    Column("±\u00a095\u00a0%, us", "level", "mean_half_width_us"),
    *(Column(f"p{each}, us", "percentile", "latency_us", each) for each in _SHOWN_PERCENTILES),
    Column("Requests", "level", "requests"),
    Column("Failed", "level", "failures"),
    Column("Windows", "level", "windows"),
)
CLIENT_COLUMNS: Final = (
    Column("Client processes", "level", "client_processes"),
    Column("Client busy, %", "level", "client_busy_percent", digits=1),
    Column("Client CPU, us/request", "level", "client_cpu_us_per_request", digits=1),
    Column("Sent late, %", "level", "delayed_percent", digits=2),
)
SERVER_COLUMNS: Final = (
    Column("Requests", "server", "success_count"),
    Column("Inferences", "server", "inference_count"),
    Column("Executions", "server", "execution_count"),
    Column("Cache hits", "server", "cache_hit_count"),
)
GAUGE_COLUMNS: Final = (
    Column("GPU utilisation, 0 to 1", "gauge", "gpu_utilization", digits=3),
    Column("GPU power, W", "gauge", "gpu_power_w", digits=1),
    Column("GPU memory, bytes", "gauge", "gpu_memory_used_bytes"),
    Column("CPU utilisation, 0 to 1", "gauge", "cpu_utilization", digits=3),
    Column("Memory, bytes", "gauge", "cpu_memory_used_bytes"),
)


def page(rows: Rows) -> Page:
    """Return the report of a run."""
    model, load = rows.text("setting", "value", key="model"), _load(rows)
    sections = (
        Section("Levels", (*_warnings(rows), level_table(rows), *_over_levels(rows))),
        Section("Latencies", tuple(_distributions(rows))),
        Section("Windows over time", tuple(_windows(rows))),
        Section("Where the time went", tuple(_times(rows))),
        Section("The machines", tuple(_machines(rows))),
        Section("Settings", (_settings(rows),)),
    )
    levels = ", ".join(rows.levels)
    return Page(
        f"Load test of {model}",
        tuple(each for each in sections if each.blocks),
        f"{load.capitalize()} {levels}; measured {rows.text('setting', 'value', key='measured')}.",
    )


def level_table(rows: Rows) -> Table:
    """Return the table of all levels; one that was not stable says so."""
    return _table(rows, LEVEL_COLUMNS, [(each, "") for each in rows.levels], "")


def _table(
    rows: Rows, columns: tuple[Column, ...], lines: list[tuple[str, str]], key_title: str
) -> Table:
    """Return a table of levels, or of levels and keys, without columns that have no number."""
    cells = {each: [each.cell(rows, *line) for line in lines] for each in columns}
    known = [each for each in columns if any(cells[each])]
    titles = (_load(rows).capitalize(), *([key_title] if key_title else []))
    return Table(
        (*titles, *(each.title for each in known)),
        tuple(
            (level, *([key] if key_title else []), *(cells[each][index] for each in known))
            for index, (level, key) in enumerate(lines)
        ),
        text_columns=len(titles),
    )


def _load(rows: Rows) -> str:
    return rows.text("setting", "value", key="load")


def _warnings(rows: Rows) -> Iterator[Paragraph]:
    for level in rows.levels:
        where = f"{_load(rows).capitalize()} {level}"
        for quantity, is_bad, says in _WARNINGS:
            value = rows.value(level, quantity)
            if is_bad(value):
                yield Paragraph(f"{where}: {says.format(value)}", "warning")


_WARNINGS: Final[tuple[tuple[str, Callable[[float], bool], str], ...]] = (
    ("is_stable", lambda value: not value, "the last three windows do not agree."),
    ("is_within_limit", lambda value: not value, "the latency is over its threshold."),
    ("failures", lambda value: value > 0, "{:.0f} requests failed."),
    (
        "delayed_percent",
        lambda value: value > _DELAYED_PERCENT,
        "{:.2f} % of the requests left late; latencies count from when they were due.",
    ),
    (
        "client_busy_percent",
        lambda value: value > _BUSY_PERCENT,
        "the client was busy for {:.0f} % of the time, and may be what was measured.",
    ),
)


def _over_levels(rows: Rows) -> Iterator[Block]:
    levels = rows.levels
    if len(levels) < 2:  # noqa: PLR2004 - one level is no curve
        return
    points = tuple(
        Point(_percentile_ms(rows, each, "99"), rows.value(each, "throughput_per_s"), each)
        for each in levels
    )
    yield Scatter(
        "Throughput over latency",
        Axis("p99 latency, ms", is_from_zero=True),
        Axis("inferences/s", is_from_zero=True),
        points,
        Front(is_less_x_better=True, is_less_y_better=False),
        f"Each point is a level, named by its {_load(rows)}.",
    )
    places = tuple(float(each) for each in levels)
    yield Lines(
        "Latency percentiles",
        Axis(_load(rows)),
        Axis("latency, ms", is_from_zero=True),
        tuple(
            Series(f"p{key}", places, tuple(_percentile_ms(rows, each, key) for each in levels))
            for key in _SHOWN_PERCENTILES
            if any(rows.text("percentile", "latency_us", each, key) for each in levels)
        ),
        has_points=True,
    )


def _percentile_ms(rows: Rows, level: str, key: str, quantity: str = "latency_us") -> float:
    return rows.value(level, quantity, "percentile", key) / _US_PER_MS


def _distributions(rows: Rows) -> Iterator[Block]:
    titles = {
        "latency_us": ("Latency", "latency, ms"),
        "first_response_us": ("Time to the first response", "ms"),
        "gap_us": ("Time between responses", "ms"),
    }
    for quantity, (title, label) in titles.items():
        lines = [
            (level, rows.keys("percentile", level))
            for level in _few(rows.levels)
            if quantity in rows.quantities("percentile", level, "50")
        ]
        if not lines:
            continue
        curves = [
            (
                level,
                tuple(float(key) / 100 for key in keys),
                tuple(_percentile_ms(rows, level, key, quantity) for key in keys),
            )
            for level, keys in lines
        ]
        note = "" if len(lines) == len(rows.levels) else "Not all levels are drawn."
        yield Lines(
            f"{title} by percentile",
            Axis("percentile", "percentile"),
            Axis(label, "log"),
            tuple(Series(level, shares, times) for level, shares, times in curves),
            note=note,
        )
        yield Lines(
            f"{title}, cumulative",
            Axis(label, "log"),
            Axis("share of the requests", is_from_zero=True),
            tuple(Series(level, times, shares) for level, shares, times in curves),
            note=note,
        )


def _few(levels: tuple[str, ...]) -> tuple[str, ...]:
    """Return so many levels as a figure can hold: the first, the last, and some between."""
    if len(levels) <= _MOST_LINES:
        return levels
    distance = (len(levels) - 1) / (_MOST_LINES - 1)
    return tuple(levels[round(index * distance)] for index in range(_MOST_LINES))


def _windows(rows: Rows) -> Iterator[Block]:
    for title, label, quantity, factor in (
        ("Throughput of the windows", "inferences/s", "throughput_per_s", 1.0),
        ("p99 latency of the windows", "ms", "p99_latency_us", 1 / _US_PER_MS),
    ):
        yield Lines(
            title,
            Axis("seconds since the level began", is_from_zero=True),
            Axis(label, is_from_zero=True),
            tuple(
                Series(
                    level,
                    tuple(_window_end_s(rows, level, key) for key in rows.keys("window", level)),
                    tuple(
                        rows.value(level, quantity, "window", key) * factor
                        for key in rows.keys("window", level)
                    ),
                )
                for level in _few(rows.levels)
            ),
            has_points=True,
            note="A point is the end of a window; a level rests on its last three.",
        )


def _window_end_s(rows: Rows, level: str, key: str) -> float:
    start_s = rows.value(level, "start_s", "window", key)
    return start_s + rows.value(level, "duration_s", "window", key)


def _times(rows: Rows) -> Iterator[Block]:
    levels = tuple(each for each in rows.levels if rows.quantities("time", each))
    if not levels:
        return
    titles = rows.quantities("time", levels[0])
    columns = tuple(Column(f"{title}, us", "time", title) for title in titles)
    yield Bars(
        "Mean request",
        levels,
        Axis("us", is_from_zero=True),
        tuple(
            Part(title, tuple(rows.value(level, title, "time") for level in levels))
            for title in titles
            if any(rows.value(level, title, "time") for level in levels)
        ),
        category_label=_load(rows),
        note="Network+Server Send/Recv is what neither client nor model account for.",
    )
    yield _table(rows, columns, [(each, "") for each in levels], "")
    models = [(level, key) for level in levels for key in rows.keys("server", level)]
    yield _table(rows, SERVER_COLUMNS, models, "Model")


def _machines(rows: Rows) -> Iterator[Block]:
    busy = tuple(rows.value(each, "client_busy_percent") for each in rows.levels)
    yield Bars(
        "CPU of the client",
        rows.levels,
        Axis("% of a core", is_from_zero=True),
        (Part("", busy),),
        category_label=_load(rows),
    )
    devices = [(level, key) for level in rows.levels for key in rows.keys("gauge", level)]
    yield from _utilisation(rows, devices)
    yield _table(rows, CLIENT_COLUMNS, [(each, "") for each in rows.levels], "")
    if devices:
        yield _table(rows, GAUGE_COLUMNS, devices, "Device or node")


def _utilisation(rows: Rows, devices: list[tuple[str, str]]) -> Iterator[Block]:
    levels = tuple(dict.fromkeys(level for level, _ in devices))
    for title, quantity in (
        ("Utilisation of the server's GPUs", "gpu_utilization"),
        ("Utilisation of the server's CPUs", "cpu_utilization"),
    ):
        names = [
            key
            for key in dict.fromkeys(key for _, key in devices)
            if any(rows.text("gauge", quantity, level, key) for level in levels)
        ]
        if names:
            yield Lines(
                title,
                Axis(_load(rows)),
                Axis("%", is_from_zero=True),
                tuple(
                    Series(
                        name,
                        tuple(map(float, levels)),
                        tuple(rows.value(each, quantity, "gauge", name) * 100 for each in levels),
                    )
                    for name in names
                ),
                has_points=True,
            )


def _settings(rows: Rows) -> Table:
    keys = rows.keys("setting", "")
    lines = tuple((key, rows.text("setting", "value", key=key)) for key in keys)
    return Table(("Setting", "Value"), lines, text_columns=2)
