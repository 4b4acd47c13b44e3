# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""When an instance that keeps dying is started again. Pure; times are seconds of one clock.

Ray restarts a crashed actor at once and for ever. That is right for one crash, and wrong for a
model that dies at every start: it would keep a core busy. Such an instance is therefore taken out
of Ray's hands and created anew, less and less often.
"""

from typing import Final

# An instance that lived this long has not died of its start.
STABLE_S: Final = 10.0
# Deaths in a row that are left to Ray.
_LEFT_TO_RAY: Final = 2
_FIRST_DELAY_S: Final = 0.1
_LONGEST_DELAY_S: Final = 15.0
_MOST_DOUBLINGS: Final = 10


class Restarts:
    """The deaths of one instance since it last lived for a while."""

    def __init__(self) -> None:
        self._count = 0
        self._started_s = 0.0
        self._is_counted = False

    @property
    def count(self) -> int:
        """The deaths."""
        return self._count

    @property
    def is_left_to_ray(self) -> bool:
        """Whether Ray may restart the actor by itself."""
        return self._count <= _LEFT_TO_RAY

    @property
    def delay_s(self) -> float:
        """How long to wait before the next attempt."""
        doublings = min(max(0, self._count - 1), _MOST_DOUBLINGS)
        return float(min(_FIRST_DELAY_S * 2**doublings, _LONGEST_DELAY_S))

    def started(self, now_s: float) -> None:
        """Note that the instance is loaded."""
        self._started_s = now_s
        self._is_counted = False

    def died(self, now_s: float) -> None:
        """Note that the instance, which was loaded, is lost."""
        if now_s - self._started_s >= STABLE_S:
            self._count = 0
        self._count += 1
        self._is_counted = True

    def failed(self) -> bool:
        """Note that an attempt to start failed; the first after a death is part of that death.

        Returns:
            Whether it is counted by itself.
        """
        is_counted, self._is_counted = self._is_counted, False
        self._count += not is_counted
        return not is_counted
