# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which priority levels get on under overload: higher ones first, lower ones with the rest. Pure.

What came of each level in the last window, and what was answered of all, tell where the cut is:
levels above it are let in up to the burst, since the queue serves them first; the level of the cut
gets what they leave; levels below it get nothing.
"""


class LevelLimits:
    """The doors of all levels.

    Args:
        level_count: Number of levels; 1 is the highest.
        open_door: What lets anybody in.
    """

    __slots__ = ("_arrivals", "_doors")

    def __init__(self, level_count: int, open_door: int) -> None:
        self._doors = [open_door] * (level_count + 1)
        self._arrivals = [0] * (level_count + 1)

    def door(self, level: int) -> int:
        """Count a request and return how many may be under way for it to be let in."""
        # A level that the model does not have is refused by its queue.
        level = min(level, len(self._doors) - 1)
        self._arrivals[level] += 1
        return self._doors[level]

    def fill(self, door: int) -> None:
        """Set one door for all levels."""
        for level in range(len(self._doors)):
            self._doors[level] = door

    def begin(self) -> None:
        """Count what comes anew."""
        for level in range(len(self._arrivals)):
            self._arrivals[level] = 0

    def divide(self, capacity: int, limit: float, burst: float) -> None:
        """Set the doors by what came since they were last set.

        Args:
            capacity: How many requests were answered since.
            limit: Requests that may be under way.
            burst: The same for levels that have more room than they use.
        """
        doors, arrivals = self._doors, self._arrivals
        above = 0
        is_cut = False
        for level in range(1, len(doors)):
            count = arrivals[level]
            if is_cut:
                doors[level] = 0
            elif above + count <= capacity:
                doors[level] = max(1, int(max(burst, limit)))
            else:
                is_cut = True
                # Half of those under way are being executed; the others wait, and those above
                # need their part of these places.
                doors[level] = max(1, int(limit * (1.0 - 0.5 * above / max(1, capacity))))
            above += count
        if not is_cut:
            self.fill(max(1, int(limit)))
