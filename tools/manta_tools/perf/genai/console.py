# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The table on the console: genai-perf's rows and columns.

Triton: perf_analyzer/genai-perf/genai_perf/export_data/console_exporter.py ConsoleExporter @263c5f6
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from manta_tools.perf.genai.metrics import METRICS, SYSTEM_METRICS, Statistics

_TITLE: Final = "GenAI-Perf | LLM Metrics"
_COLUMNS: Final = ("avg", "min", "max", "p99", "p90", "p75")
_NONE: Final = "N/A"
_TOP: Final = ("┏", "┳", "┓", "━")
_UNDER_HEAD: Final = ("┡", "╇", "┩", "━")
_BOTTOM: Final = ("└", "┴", "┘", "─")


def rows(
    statistics: Mapping[str, Statistics],
    columns: Sequence[str],
    *,
    is_streaming: bool,
) -> Iterator[list[str]]:
    """Yield the rows of metrics that each request has: title, then the statistics asked for."""
    for name, metric in METRICS.items():
        if metric.is_streaming and not is_streaming:
            continue
        known = statistics.get(name, {})
        yield [title(name, metric.unit), *(cell(known.get(each)) for each in columns)]


def system_rows(statistics: Mapping[str, Statistics]) -> Iterator[list[str]]:
    """Yield the rows of metrics of the whole run: title and value."""
    for name, (_, unit) in SYSTEM_METRICS.items():
        if name in statistics:
            yield [title(name, unit), cell(statistics[name]["avg"])]


def title(name: str, unit: str) -> str:
    """Return a metric's name as people read it."""
    return f"{name.replace('_', ' ').title()} ({unit})"


def cell(value: object) -> str:
    """Return a value of a table; N/A for none."""
    return f"{value:,.2f}" if isinstance(value, int | float) else _NONE


def table(statistics: Mapping[str, Statistics], *, is_streaming: bool) -> str:
    """Return the table."""
    lines = [["Statistic", *_COLUMNS], *rows(statistics, _COLUMNS, is_streaming=is_streaming)]
    nothing = [_NONE] * (len(_COLUMNS) - 1)
    lines += [[*row, *nothing] for row in system_rows(statistics)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    head, *body = lines
    rendered = [
        _rule(widths, _TOP),
        _row(head, widths, "┃"),
        _rule(widths, _UNDER_HEAD),
        *(_row(row, widths, "│") for row in body),
        _rule(widths, _BOTTOM),
    ]
    return "\n".join([_TITLE.center(len(rendered[0])).rstrip(), *rendered])


def _row(cells: Sequence[str], widths: Sequence[int], edge: str) -> str:
    padded = (f" {text.rjust(width)} " for text, width in zip(cells, widths, strict=True))
    return edge + edge.join(padded) + edge


def _rule(widths: Sequence[int], corners: tuple[str, str, str, str]) -> str:
    left, between, right, line = corners
    return left + between.join(line * (width + 2) for width in widths) + right
