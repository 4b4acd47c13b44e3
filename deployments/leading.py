# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who turns the lanes' reactor: the execution thread itself, or a follower beside it.

Theory of operation. Handing a request from the thread that reads it to the one that executes it
costs two changes of threads, more than a small model's whole execution. So the execution thread
*leads*: while it has nothing to execute it turns the reactor, executes what that brought outside of
the turn, and sends the outcomes itself.

While it executes, nobody reads the lanes. For a millisecond nobody minds; after that the *follower*
has to, or cancels, control calls and requests to be batched would wait for the model. It looks once
a millisecond whether the execution under way is still the one it saw before, and if so it takes the
*seat*, a lock that whoever turns holds. Nothing else is handed over, because what happens in a turn
is protected by the reactor's own lock: the execution thread goes on to take batches from the
scheduler and to send outcomes while the follower sits in a turn. It only asks for the seat when it
wants to turn again: it says so, wakes the follower and waits the few microseconds it takes.

A model whose executions are long anyway would have the seat handed to and fro for each. Hence
leading is a mode: when executions become long on average the execution thread resigns and sleeps on
a lock between batches, as the follower keeps the seat; when they become short it leads again.

The follower costs nothing for single requests. It wakes every millisecond only while executions
happen; after some ticks without any it blocks until the next one rings for it.

    execution thread            follower
    leads, in a turn            blocked, or ticking
    leads, executing < 1 ms     ticking
    leads, executing longer     in turns, until the seat is asked for
    resigned                    in turns

Mutex discipline: the seat comes before the reactor's lock. No other lock is held while the seat is
taken, and the seat is never taken while executing.
"""

import threading
from collections.abc import Callable
from typing import Final

from deployments.lane.reactor import Reactor

_NS_PER_US: Final = 1_000
_RESIGN_NS: Final = 500 * _NS_PER_US
_LEAD_NS: Final = 250 * _NS_PER_US
# One execution counts at most this much, so that a single long one is soon forgotten.
_SAMPLE_LIMIT_NS: Final = 4_000 * _NS_PER_US
_SAMPLE_WEIGHT: Final = 8

_TICK_S: Final = 0.001
_IDLE_TICKS: Final = 20


class Bell:
    """Wakes the one thread that waits for it; a ring before the wait is not lost."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Wake the thread, from any thread; several rings may count as one."""
        if self._lock.locked():
            try:
                self._lock.release()
            except RuntimeError:
                # Another thread rang at the same time.
                return

    def wait(self, timeout_s: float = -1) -> bool:
        """Wait for a ring; whether there was one in time."""
        return self._lock.acquire(timeout=timeout_s)


class Leadership:
    """The protocol between the execution thread and the follower.

    Args:
        reactor: What is turned.
        took_over: Called by the follower whenever it takes the seat; sends what the execution
            thread had put off.

    Attributes:
        leads: Whether the execution thread turns; changes on that thread only.
    """

    def __init__(self, reactor: Reactor, took_over: Callable[[], None]) -> None:
        self._reactor = reactor
        self._took_over = took_over
        self._seat = threading.Lock()
        self._is_seat_wanted = False
        self._bell = Bell()
        self._is_ticking = False
        # Odd while an execution is under way.
        self._mark = 0
        self._average_ns = 0
        self.leads = True

    # The execution thread's side.

    def turn(self, timeout_s: float | None) -> None:
        """Turn the reactor once; it may return early, so look for work again before the next."""
        if not self._seat.acquire(blocking=False):
            self._is_seat_wanted = True
            self._reactor.wake()
            self._seat.acquire()
            self._is_seat_wanted = False
            # The follower may have used up wake-ups that were meant for this thread.
            timeout_s = 0.0
        try:
            self._reactor.turn(timeout_s)
        finally:
            self._seat.release()

    def execution_starts(self) -> None:
        """Note that nobody turns from here on."""
        self._mark += 1
        # After the mark: the follower clears the flag, looks at the mark, and then blocks.
        if not self._is_ticking and self.leads:
            self._is_ticking = True
            self._bell.ring()

    def execution_ended(self, duration_ns: int) -> None:
        """Note that this thread is back, and choose the mode."""
        self._mark += 1
        sample_ns = min(duration_ns, _SAMPLE_LIMIT_NS)
        self._average_ns += (sample_ns - self._average_ns) // _SAMPLE_WEIGHT
        if self.leads:
            if self._average_ns >= _RESIGN_NS:
                self.resign()
        elif self._average_ns < _LEAD_NS:
            self.leads = True

    def resign(self) -> None:
        """Leave the turning to the follower."""
        self.leads = False
        self._bell.ring()

    # The follower's side.

    def follow(self) -> None:
        """Be the follower, until the reactor is closed."""
        while not self._reactor.is_closed:
            if not self.leads or self._is_stuck():
                self._turn_until_asked()

    def stop_following(self) -> None:
        """Close the reactor and end the follower; from any thread."""
        self._reactor.close()
        self._bell.ring()

    def _turn_until_asked(self) -> None:
        with self._seat:
            self._took_over()
            while not (self._is_seat_wanted or self._reactor.is_closed):
                self._reactor.turn(None)

    def _is_stuck(self) -> bool:
        """Watch, and return whether an execution takes long; False also after a ring."""
        for _ in range(_IDLE_TICKS):
            mark = self._mark
            if self._bell.wait(_TICK_S):
                return False
            if mark != self._mark:
                return False
            if mark & 1:
                return True
        self._is_ticking = False
        if mark == self._mark:
            self._bell.wait()
        return False
