# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How much time an instance may spend on compiling its model anew after failed inferences."""

import time
from collections.abc import Callable
from typing import Final

_MOST_SAVED_S: Final = 10.0
_SHARE: Final = 0.5


class CompilationBudget:
    """Seconds to compile in: half of all that pass, of which ten are saved.

    One compilation may take more than is left; the next then waits until it is paid for.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left_s = _MOST_SAVED_S
        self._at_s = clock()

    def wait_s(self) -> float:
        """Seconds until the next compilation may begin; 0 when it may now."""
        self._earn()
        return max(0.0, -self._left_s / _SHARE)

    def spend(self, seconds: float) -> None:
        """Tell that a compilation took so many seconds."""
        self._earn()
        self._left_s -= seconds

    def _earn(self) -> None:
        now_s = self._clock()
        self._left_s = min(_MOST_SAVED_S, self._left_s + (now_s - self._at_s) * _SHARE)
        self._at_s = now_s
