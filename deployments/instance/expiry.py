# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instants at which an instance looks at what waits though nothing comes."""

from collections.abc import Callable
from typing import Final

from deployments.reactor.reactor import Reactor
from deployments.reactor.transport import Cancellable

_NS_PER_S: Final = 1_000_000_000


class ReactorClock:
    """Implements `deployments.pool_queue.alarm.AlarmClock` on a reactor.

    Args:
        reactor: What wakes.
        clock_ns: Monotonic clock.
    """

    __slots__ = ("_clock_ns", "_reactor")

    def __init__(self, reactor: Reactor, clock_ns: Callable[[], int]) -> None:
        self._reactor = reactor
        self._clock_ns = clock_ns

    def call_at_ns(self, at_ns: int, callback: Callable[[], object]) -> Cancellable:
        """Run a callback at an instant of the clock, on the thread that turns the reactor."""
        delay_s = max(0.0, (at_ns - self._clock_ns()) / _NS_PER_S)
        return self._reactor.call_later(delay_s, callback)
