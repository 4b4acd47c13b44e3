# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instants at which a queue wants to be looked at."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from deployments.reactor.transport import Cancellable, LaneLoop

_NS_PER_S: Final = 1e9


class AlarmClock(Protocol):
    """Wakes at an instant; see `deployments.pool_queue.precise_timer`."""

    def call_at_ns(self, at_ns: int, callback: Callable[[], object]) -> Cancellable:
        """Run a callback at an instant of the monotonic clock."""


class LoopClock:
    """Wakes by the timers of a loop, to within their resolution: of an event loop a millisecond.

    Args:
        loop: The loop; None for the event loop that runs.
        clock_ns: Monotonic clock.
    """

    def __init__(
        self,
        loop: LaneLoop | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._loop = loop
        self._clock_ns = clock_ns

    def call_at_ns(self, at_ns: int, callback: Callable[[], object]) -> Cancellable:
        """Run a callback at an instant of the monotonic clock."""
        loop = asyncio.get_running_loop() if self._loop is None else self._loop
        return loop.call_later(max(0, at_ns - self._clock_ns()) / _NS_PER_S, callback)


class Alarm:
    """One instant; an earlier one replaces a later one."""

    __slots__ = ("_at_ns", "_callback", "_clock", "_handle")

    def __init__(self, clock: AlarmClock, callback: Callable[[], object]) -> None:
        self._clock = clock
        self._callback = callback
        self._handle: Cancellable | None = None
        self._at_ns = 0

    def set(self, at_ns: int | None) -> None:
        """Ring at an instant, unless an earlier one is set; None sets nothing."""
        if at_ns is None or (self._handle is not None and self._at_ns <= at_ns):
            return
        self.cancel()
        self._at_ns = at_ns
        self._handle = self._clock.call_at_ns(at_ns, self._ring)

    def cancel(self) -> None:
        """Do not ring."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self) -> None:
        self._handle = None
        self._callback()
