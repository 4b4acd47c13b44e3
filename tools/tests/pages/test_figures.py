# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta_tools.pages.figures import (
    Axis,
    Bars,
    Front,
    Histogram,
    Part,
    Point,
    Series,
    cumulative,
    on_front,
)

PLACES = st.builds(Point, st.integers(0, 9), st.integers(0, 9))
FRONTS = st.builds(Front, st.booleans(), st.booleans())


def is_better(one: Point, other: Point, front: Front) -> bool:
    x = (one.x - other.x) * (-1 if front.is_less_x_better else 1)
    y = (one.y - other.y) * (-1 if front.is_less_y_better else 1)
    return x >= 0 and y >= 0 and (x, y) != (0, 0)


@given(st.lists(PLACES, max_size=30).map(tuple), FRONTS)
def test_on_the_front_is_whatever_no_other_point_beats(points, front):
    best = [each for each in points if not any(is_better(other, each, front) for other in points)]
    found = on_front(points, front)
    assert sorted(found, key=str) == sorted(best, key=str)
    assert [each.x for each in found] == sorted(each.x for each in found)


def test_a_point_that_is_not_finite_is_on_no_front():
    points = (Point(1, math.nan), Point(-math.inf, 2), Point(3, 4))
    assert on_front(points, Front(True, False)) == (Point(3, 4),)


def test_a_distribution_ends_at_all_of_its_values():
    assert cumulative("a", [3, 1, 2, 2]) == Series("a", (1, 2, 2, 3), (0.25, 0.5, 0.75, 1.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Series("a", (1.0,), ()), "series 'a' has 1 values of x and 0 of y"),
        (lambda: Bars("t", ("a", "b"), Axis("y"), (Part("p", (1,)),)), "part 'p' has 1 values"),
        (lambda: Histogram("t", Axis("x"), (1.0,), (2.0,)), "histogram 't' has 1 edges of 1 bins"),
    ],
)
def test_figures_whose_values_do_not_match_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
