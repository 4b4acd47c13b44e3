# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instants at which a queue wants to be looked at."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from deployments.reactor.transport import Cancellable

_NS_PER_S: Final = 1e9


class AlarmClock(Protocol):
    """Wakes at an instant; see `deployments.pool_queue.precise_timer`."""

    def call_at_ns(self, at_ns: int, callback: Callable[[], object]) -> Cancellable:
        """Run a callback at an instant of the monotonic clock."""


class LoopClock:
    """Wakes to within the event loop's resolution, which is a millisecond."""

    def call_at_ns(self, at_ns: int, callback: Callable[[], object]) -> Cancellable:
        """Run a callback at an instant of the monotonic clock."""
        delay_s = (at_ns - time.monotonic_ns()) / _NS_PER_S
        return asyncio.get_running_loop().call_later(max(0.0, delay_s), callback)


class Alarm:
    """One instant; an earlier one replaces a later one.

    Args:
        clock: What rings.
        callback: What to do then.
    """

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
