# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Figures as values: what is drawn, not how."""

import math
from dataclasses import dataclass
from typing import Literal

Scale = Literal["linear", "log", "percentile"]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis.

    Attributes:
        label: What it shows, with the unit.
        scale: linear; log; or percentile, for shares from 0 to below 1, where each further nine
            (0.9, 0.99, 0.999) is as far from the one before it.
        is_from_zero: Whether a linear axis begins at 0 even where no value lies near.
    """

    label: str
    scale: Scale = "linear"
    is_from_zero: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """A line; values that are not finite are gaps.

    Attributes:
        label: Its name in the legend; empty for none.
        x: Where its points lie.
        y: How high they lie; as many as of ``x``.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(
                f"series '{self.label}' has {len(self.x)} values of x and {len(self.y)} of y"
            )


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over a common axis.

    Attributes:
        title: The figure's title.
        x: The horizontal axis.
        y: The vertical axis.
        series: The lines.
        is_stepped: Whether a value holds until the next point.
        has_points: Whether the points are marked.
        note: A sentence below; empty for none.
    """

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    is_stepped: bool = False
    has_points: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a scatter.

    Attributes:
        x: Where it lies.
        y: How high it lies.
        label: Written beside it; empty for none.
        group: Points of a group have a colour; its name stands in the legend.
    """

    x: float
    y: float
    label: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Front:
    """Which points are on the Pareto front: no other one is better in both directions.

    Attributes:
        is_less_x_better: Whether a point further left is the better one.
        is_less_y_better: Whether a lower point is the better one.
    """

    is_less_x_better: bool
    is_less_y_better: bool


@dataclass(frozen=True, slots=True)
class Scatter:
    """Points with labels.

    Attributes:
        title: The figure's title.
        x: The horizontal axis.
        y: The vertical axis.
        points: The points.
        front: Which front is marked; None for none.
        note: A sentence below; empty for none.
    """

    title: str
    x: Axis
    y: Axis
    points: tuple[Point, ...]
    front: Front | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of every stacked bar.

    Attributes:
        label: Its name in the legend.
        values: Its height in each bar.
    """

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars whose parts are stacked; with one part, plain bars.

    Attributes:
        title: The figure's title.
        categories: The name of each bar.
        value: The axis of the values.
        parts: What each bar consists of.
        category_label: What the categories are.
        is_horizontal: Whether the bars lie, which long names need.
        note: A sentence below; empty for none.
    """

    title: str
    categories: tuple[str, ...]
    value: Axis
    parts: tuple[Part, ...]
    category_label: str = ""
    is_horizontal: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        for part in self.parts:
            if len(part.values) != len(self.categories):
                raise ValueError(
                    f"part '{part.label}' has {len(part.values)} values for "
                    f"{len(self.categories)} bars"
                )


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often values lie between two edges.

    Attributes:
        title: The figure's title.
        value: The axis of the values.
        edges: Where the bins end, ascending; one more than there are counts.
        counts: How many values each bin has.
        note: A sentence below; empty for none.
    """

    title: str
    value: Axis
    edges: tuple[float, ...]
    counts: tuple[float, ...]
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.counts) + 1:
            raise ValueError(
                f"histogram '{self.title}' has {len(self.edges)} edges of {len(self.counts)} bins"
            )


Figure = Lines | Scatter | Bars | Histogram


def cumulative(label: str, values: "tuple[float, ...] | list[float]") -> Series:
    """Return the distribution of values: what share of them is no greater, for stepped lines."""
    ordered = sorted(values)
    shares = tuple((index + 1) / len(ordered) for index in range(len(ordered)))
    return Series(label, tuple(ordered), shares)


def on_front(points: tuple[Point, ...], front: Front) -> tuple[Point, ...]:
    """Return the points of the Pareto front, from left to right.

    Of points in one place all are on it; a point that is not finite is never on it.
    """
    x_sign = 1 if front.is_less_x_better else -1
    y_sign = 1 if front.is_less_y_better else -1
    finite = [each for each in points if math.isfinite(each.x) and math.isfinite(each.y)]
    found: list[Point] = []
    for each in sorted(finite, key=lambda point: (x_sign * point.x, y_sign * point.y)):
        best = found[-1] if found else None
        if (
            best is None
            or y_sign * each.y < y_sign * best.y
            or (each.x, each.y) == (best.x, best.y)
        ):
            found.append(each)
    return tuple(found if x_sign == 1 else reversed(found))
