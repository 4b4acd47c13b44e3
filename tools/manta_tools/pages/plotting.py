# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Draws figures with matplotlib, as SVG for HTML and as PNG for PDF.

An SVG takes its colours from the page's style sheet, so that it is light or dark as the page is:
each colour of `PALETTE` is drawn as itself, and is a variable of the style sheet afterwards.
"""

import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import AutoLocator, FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from manta_tools.pages.figures import (
    Axis,
    Bars,
    Figure,
    Histogram,
    Lines,
    Point,
    Scatter,
    on_front,
)

_INK: Final = "#1c2430"
_GRID: Final = "#d9dee5"
# Told apart also by who sees no red and green (Okabe and Ito).
_COLOURS: Final = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#b8860b",
    "#56b4e9",
    "#7f3c8d",
    "#6b7280",
)
PALETTE: Final = {
    _INK: "--ink",
    _GRID: "--grid",
    **{colour: f"--series-{index}" for index, colour in enumerate(_COLOURS)},
}
_SIZE_INCHES: Final = (6.4, 3.5)
_ROW_INCHES: Final = 0.3
_PNG_DPI: Final = 170
_LONG_LABELS: Final = 60
_NINES: Final = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
_LEGEND_LETTERS: Final = 92
# Labels beside points are cut off after so many.
_MOST_LABELS: Final = 40

_STYLE: Final[Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": _INK,
    "axes.grid": True,
    "axes.labelcolor": _INK,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "svg.fonttype": "none",
    "text.color": _INK,
    # A dollar in a label is a dollar.
    "text.parse_math": False,
    "xtick.color": _INK,
    "xtick.labelsize": 8,
    "ytick.color": _INK,
    "ytick.labelsize": 8,
}


def svg(figure: Figure, key: str) -> str:
    """Return a figure as an SVG element.

    Args:
        figure: What to draw.
        key: Sets the ids of this figure apart from those of others on the page.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        text = io.StringIO()
        _draw(figure).savefig(text, format="svg", metadata={"Date": None})
    # Prolog and metadata are for a file of its own; names of groups would be there twice.
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'<g id="[^"]*"', "<g", drawn)
    drawn = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1">', drawn, count=1)
    for colour, variable in PALETTE.items():
        drawn = drawn.replace(colour, f"var({variable})")
    return drawn


def png(figure: Figure) -> bytes:
    """Return a figure as PNG, on white."""
    with mpl.rc_context({**_STYLE, "figure.facecolor": "white"}):
        drawn = io.BytesIO()
        _draw(figure).savefig(drawn, format="png", dpi=_PNG_DPI)
    return drawn.getvalue()


def _draw(figure: Figure) -> Canvas:
    canvas = Canvas(figsize=size_inches(figure), layout="constrained")
    axes = canvas.add_subplot()
    _DRAWERS[type(figure)](axes, figure)
    _legend(axes)
    return canvas


def size_inches(figure: Figure) -> tuple[float, float]:
    """Return width and height."""
    width, height = _SIZE_INCHES
    if isinstance(figure, Bars) and figure.is_horizontal:
        return width, max(height, 1.2 + _ROW_INCHES * len(figure.categories))
    return width, height


def _legend(axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        axes.figure.legend(handles, labels, loc="outside upper left", ncols=_columns(labels))


def _columns(labels: Sequence[str]) -> int:
    """Return in how many columns a legend has room; its handles are as wide as some letters."""
    return max(min(_LEGEND_LETTERS // (max(map(len, labels)) + 7), len(labels), 6), 1)


def _lines(axes: Axes, figure: Lines) -> None:
    marker = "o" if figure.has_points else ""
    style = "steps-post" if figure.is_stepped else "default"
    for index, each in enumerate(figure.series):
        axes.plot(
            _placed(figure.x, each.x),
            each.y,
            color=_colour(index),
            drawstyle=style,
            label=each.label,
            marker=marker,
        )
    _scale(axes, "x", figure.x, [value for each in figure.series for value in each.x])
    _scale(axes, "y", figure.y, [value for each in figure.series for value in each.y])


def _scatter(axes: Axes, figure: Scatter) -> None:
    groups: dict[str, list[Point]] = {}
    for point in figure.points:
        groups.setdefault(point.group, []).append(point)
    for index, (group, points) in enumerate(groups.items()):
        x, y = [each.x for each in points], [each.y for each in points]
        axes.plot(x, y, "o", color=_colour(index), label=group)
    best = on_front(figure.points, figure.front) if figure.front else ()
    if best:
        x, y = [each.x for each in best], [each.y for each in best]
        label = "Pareto front"
        axes.plot(x, y, "--o", color=_INK, fillstyle="none", markersize=8, lw=0.9, label=label)
    labelled = [each for each in figure.points if each.label]
    # Those on the front first: where there are too many, the others go without.
    labelled.sort(key=lambda each: each not in best)
    for each in labelled[:_MOST_LABELS]:
        place = (each.x, each.y)
        axes.annotate(each.label, place, (6, 4), textcoords="offset points", fontsize=7)
    _scale(axes, "x", figure.x, [each.x for each in figure.points])
    _scale(axes, "y", figure.y, [each.y for each in figure.points])


def _bars(axes: Axes, figure: Bars) -> None:
    ends = [0.0] * len(figure.categories)
    places = list(range(len(ends)))
    for index, part in enumerate(figure.parts):
        draw: Callable[..., Any] = axes.barh if figure.is_horizontal else axes.bar
        base = {"left" if figure.is_horizontal else "bottom": ends}
        draw(places, part.values, 0.7, color=_colour(index), label=part.label, **base)
        ends = [end + value for end, value in zip(ends, part.values, strict=True)]
    if figure.is_horizontal:
        axes.set_yticks(places, figure.categories)
        axes.invert_yaxis()
    else:
        is_long = sum(map(len, figure.categories)) > _LONG_LABELS
        axes.set_xticks(places, figure.categories, rotation=45 if is_long else 0)
    values, names = ("x", "y") if figure.is_horizontal else ("y", "x")
    _scale(axes, values, figure.value, ends)
    _label(axes, names, figure.category_label)
    axes.grid(visible=False, axis="y" if figure.is_horizontal else "x")


def _histogram(axes: Axes, figure: Histogram) -> None:
    axes.stairs(figure.counts, figure.edges, fill=True, color=_colour(0))
    _scale(axes, "x", figure.value, figure.edges)
    _scale(axes, "y", Axis("count", is_from_zero=True), figure.counts)


_DRAWERS: Final[dict[type[Any], Callable[[Axes, Any], None]]] = {
    Lines: _lines,
    Scatter: _scatter,
    Bars: _bars,
    Histogram: _histogram,
}


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]


def _placed(axis: Axis, values: Iterable[float]) -> list[float]:
    """Return where values lie on an axis; a share lies where one in so many is beyond it."""
    if axis.scale != "percentile":
        return list(values)
    return [1.0 / (1.0 - value) for value in values]


def _scale(axes: Axes, which: str, axis: Axis, values: Iterable[float]) -> None:
    """Set up an axis for these values; without a value above 0 there is no logarithm."""
    ruler = axes.xaxis if which == "x" else axes.yaxis
    values = [value for value in values if math.isfinite(value)]
    is_log = axis.scale != "linear" and any(value > 0 for value in values)
    if is_log:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    if is_log and axis.scale == "percentile":
        highest = max(values)
        nines = [each for each in _NINES if each <= highest] or [0.0]
        ruler.set_major_locator(FixedLocator(_placed(axis, nines)))
        ruler.set_major_formatter(FuncFormatter(lambda at, _: f"{100 - 100 / at:.10g}%"))
        ruler.set_minor_locator(NullLocator())
    else:
        ruler.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        if is_log:
            ruler.set_minor_formatter(FuncFormatter(lambda _, __: ""))
        elif isinstance(ruler.get_major_locator(), AutoLocator):
            # There is no half of a request.
            is_whole = all(value.is_integer() for value in map(float, values))
            ruler.set_major_locator(MaxNLocator("auto", integer=is_whole, steps=[1, 2, 2.5, 5, 10]))
    if axis.is_from_zero and not is_log:
        # Ends that are the same are none.
        highest = max([value for value in values if value > 0], default=1.0) * 1.06
        (axes.set_xlim if which == "x" else axes.set_ylim)(0.0, highest)
    _label(axes, which, axis.label)


def _label(axes: Axes, which: str, label: str) -> None:
    (axes.set_xlabel if which == "x" else axes.set_ylabel)(label)
