# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Virtual time, in which what is to happen happens."""

import heapq
from collections.abc import Callable

# Instant, number, call and its arguments.
_Event = tuple[int, int, Callable[..., object], tuple[object, ...]]


class Clock:
    """The events of the simulation, in the order of their instants."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._events: list[_Event] = []
        self._count = 0

    def after(self, delay_ns: int, call: Callable[..., object], *arguments: object) -> None:
        self._count = count = self._count + 1
        heapq.heappush(self._events, (self.now_ns + delay_ns, count, call, arguments))

    def run(self) -> None:
        events = self._events
        while events:
            self.now_ns, _, call, arguments = heapq.heappop(events)
            call(*arguments)
