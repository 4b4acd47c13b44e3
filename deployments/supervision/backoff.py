# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How long to wait before something that failed is tried again."""

import random
from collections.abc import Callable


class Backoff:
    """Waits that double, each less up to a half of itself, so that many do not try in step.

    Args:
        first_s: The longest first wait.
        most_s: The longest of all.
        draw: Returns a number from 0.0 up to 1.0.
    """

    __slots__ = ("_bound_s", "_draw", "_first_s", "_most_s")

    def __init__(
        self, first_s: float, most_s: float, draw: Callable[[], float] = random.random
    ) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._draw = draw
        self._bound_s = first_s

    def next_s(self) -> float:
        """Return how long to wait this time, in seconds."""
        bound_s = self._bound_s
        self._bound_s = min(bound_s * 2, self._most_s)
        return bound_s * (1 - self._draw() / 2)

    def reset(self) -> None:
        """Begin anew: it has worked, or there is reason to think that it will."""
        self._bound_s = self._first_s
