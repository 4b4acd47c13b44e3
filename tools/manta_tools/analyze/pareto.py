# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The Pareto front: what nothing else is better than in every respect."""

from collections.abc import Sequence


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indices of points that no other point dominates, by falling first coordinate.

    More is better in both coordinates; give what shall be small as a negative number. Of equal
    points the first is returned. It takes O(n log n).
    """
    order = sorted(range(len(points)), key=lambda i: (-points[i][0], -points[i][1], i))
    kept: list[int] = []
    for index in order:
        if not kept or points[index][1] > points[kept[-1]][1]:
            kept.append(index)
    return kept
