# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The deadlines of all calls of a server in one heap, so that one timer serves them all.

Nearly all calls end before their deadline. Their entries stay behind until they come up or until
they are the majority; then the heap is built anew, which costs a constant per call.
"""

import heapq
from collections.abc import Callable
from typing import Final, Protocol

_MIN_REBUILD: Final = 1024


class Expirable(Protocol):
    """Something with a deadline."""

    done: bool

    def expire(self) -> None:
        """The deadline has passed."""


class Deadlines:
    """Deadlines in order.

    Args:
        on_earlier: Called with the new earliest deadline, in nanoseconds, when one is added that
            is earlier than all others: arm a timer for it.
    """

    __slots__ = ("_count", "_done", "_heap", "_on_earlier")

    def __init__(self, on_earlier: Callable[[int], None]) -> None:
        self._on_earlier = on_earlier
        self._heap: list[tuple[int, int, Expirable]] = []
        self._count = 0
        self._done = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, deadline_ns: int, call: Expirable) -> None:
        """Watch a call; it is told to `expire` unless it is `done` by then."""
        self._count += 1
        earliest = not self._heap or deadline_ns < self._heap[0][0]
        heapq.heappush(self._heap, (deadline_ns, self._count, call))
        if earliest:
            self._on_earlier(deadline_ns)

    def forget_one(self) -> None:
        """Note that a watched call is done."""
        self._done += 1
        if self._done > _MIN_REBUILD and self._done * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].done]
            heapq.heapify(self._heap)
            self._done = 0

    def expire(self, now_ns: int) -> int | None:
        """Expire what is due and return the next deadline, or None."""
        while self._heap and (self._heap[0][0] <= now_ns or self._heap[0][2].done):
            call = heapq.heappop(self._heap)[2]
            if not call.done:
                call.expire()
            # An expired call has reported itself as done, like any other.
            self._done = max(0, self._done - 1)
        return self._heap[0][0] if self._heap else None
