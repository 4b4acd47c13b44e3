# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Slots of an engine: whoever brings requests waits while all are taken.

Requests that the engine cannot compute yet stay where they can still be chosen among: in the
pool's queue, with its priorities, timeouts and tenants, for whichever instance has a slot first.
"""

import threading


class Slots:
    """A count of requests under way, and of how many there may be.

    Args:
        count: How many choices the engine computes at once; a request takes as many as it wants.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def take(self, choices: int) -> None:
        """Take slots, though none may be free; at once, on any thread."""
        with self._changed:
            self._taken += choices

    def give_back(self, choices: int) -> None:
        """Free what was taken; on any thread."""
        with self._changed:
            self._taken -= choices
            self._changed.notify_all()

    def wait_for_one(self) -> None:
        """Return when a slot is free, or after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._taken < self._count or self._is_closed)

    def close(self) -> None:
        """Let go of whoever waits."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
