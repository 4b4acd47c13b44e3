# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which of an instance's two threads turns its reactor.

Handing a request from the thread that reads lanes to the thread that executes, and its outcome
back, takes two thread switches, more than a small model computes. So the *execution thread* leads:
it turns the reactor itself while it has nothing to execute. Before an execution it lets go of the
lead, and afterwards takes it again if nobody else has. The *follower* watches: when an execution
lasts longer than a millisecond, or a few where none did before, it takes the lead, so that cancels,
calls, rejections and streamed responses go on while the model computes. The execution thread
remembers how long executions take.
For a slow model the follower leads from the start and keeps the lead between executions, and the
execution thread gets its requests through its alarm and hands outcomes over by posting them.

Where the two threads may be; each column is a state of the pair, an arrow what moves it::

                 fast model                    long execution                 slow model
  execution    +-> turns reactor --begins--> executes ------ends----------> sleeps on its alarm
  thread       |      ^    |                    |                              ^        |
               |   ends within 1 ms          lasts 1 ms                       ends    woken
               |      |    v                    v                              |        v
  follower     |   watches (asleep while     takes the lead,                turns the reactor
               |   nothing is executed)      turns reactor                  all the time
               +---------------- execution thread takes the lead back <--- fast executions again

Exactly one thread holds the lead (a lock) while it turns the reactor; nobody does while a short
execution runs. The scheduler, the outbox and the counters belong to the executor's mutex, never to
the lead. A thread holds the mutex without waiting for anything, so it may be taken with the lead
held, and the lead is never taken with the mutex held. Other threads only post callbacks.
Should either thread die, the process ends (`deployments.instance.ending`).
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from deployments.instance.ending import OnFault, log_fault
from deployments.reactor.reactor import Reactor

# An execution that lasts longer than this does so under the follower's lead.
_TAKE_OVER_NS: Final = 1_000_000
# How often the follower looks, and how often while all executions are short: a look takes the
# interpreter from the execution thread.
_WATCH_S: Final = 0.001
_CALM_WATCH_S: Final = 0.005
# Looks without an execution after which the follower goes to sleep.
_QUIET_LOOKS: Final = 20
# How slow the model is: one up for each execution that lasted longer, one down for each other one.
# Steps, not an average: on a busy machine a fast model's thread may lose its core for long.
_MOST_SLOW: Final = 8
_SLOW_FROM: Final = 4
_FAST_UP_TO: Final = 2


class Lead:
    """The right to turn a reactor.

    `stop` is for any thread, everything else for the execution thread.

    Args:
        reactor: The reactor.
        clock_ns: Monotonic clock.
        on_fault: Called on the thread where it happened when one of the two can no longer do what
            it is there for.

    Attributes:
        is_held: Whether the execution thread leads.
        executing_since_ns: When the present execution began; 0 while there is none.
        execution_count: Executions that have begun.
    """

    def __init__(
        self,
        reactor: Reactor,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        on_fault: OnFault = log_fault,
    ) -> None:
        self.reactor = reactor
        self.on_fault = on_fault
        self.is_held = False
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._slowness = 0
        self.executing_since_ns = 0
        self.execution_count = 0
        # The follower's alarm: held while it sleeps, released to wake it.
        self._alarm = threading.Lock()
        self._alarm.acquire()
        self._is_asleep = False
        # Reasons for the follower to lead without looking, and to stop leading.
        self._is_called = False
        self._is_wanted_back = False
        self._is_stopped = False
        self._follower = threading.Thread(target=self._follow, name="manta-follow", daemon=True)

    def start(self) -> None:
        """Take the lead and start the follower."""
        self._lock.acquire()
        self.is_held = True
        self._follower.start()

    def execution_begins(self, now_ns: int) -> None:
        """Let go of the lead for the time of an execution."""
        self.executing_since_ns = now_ns
        self.execution_count += 1
        if self.is_held:
            self.is_held = False
            self._lock.release()
            if self._slowness >= _SLOW_FROM:
                self._call_follower()
            elif self._is_asleep:
                self._wake_follower()

    def execution_ended(self, now_ns: int) -> None:
        """Take the lead again, unless the follower has it and the model is slow."""
        slowness = self._slowness
        if now_ns - self.executing_since_ns > _TAKE_OVER_NS:
            self._slowness = min(slowness + 1, _MOST_SLOW)
        elif slowness:
            self._slowness = slowness - 1
        self.executing_since_ns = 0
        if self._lock.acquire(blocking=False):
            self.is_held = True
        elif self._slowness <= _FAST_UP_TO:
            self._take_back()

    def leave(self) -> None:
        """Leave the lead to the follower for good."""
        self.executing_since_ns = 0
        if self.is_held:
            self.is_held = False
            self._lock.release()
        self._call_follower()

    def stop(self) -> None:
        """End the follower, wherever it is; the reactor is turned no more once this returns."""
        self._is_stopped = True
        self._wake_follower()
        self.reactor.interrupt()
        if self._follower.is_alive():
            self._follower.join()

    def _take_back(self) -> None:
        self._is_wanted_back = True
        self.reactor.interrupt()
        self._lock.acquire()
        self._is_wanted_back = False
        self.is_held = True

    def _call_follower(self) -> None:
        self._is_called = True
        self._wake_follower()

    def _wake_follower(self) -> None:
        try:
            self._alarm.release()
        except RuntimeError:
            # It has been woken and has not noticed yet.
            return

    # The follower's side.

    def _follow(self) -> None:
        try:
            self._take_turns()
        except BaseException as error:
            self.on_fault("follower thread died", error)

    def _take_turns(self) -> None:
        while not self._is_stopped:
            self._watch()
            if self._lock.acquire(blocking=False):
                try:
                    while not (self._is_wanted_back or self._is_stopped):
                        self.reactor.turn()
                finally:
                    self._lock.release()

    def _watch(self) -> None:
        """Return when the follower should lead."""
        quiet_looks = 0
        seen_count = self.execution_count
        while not self._is_stopped:
            if self._is_called:
                self._is_called = False
                return
            since_ns = self.executing_since_ns
            if since_ns and self._clock_ns() - since_ns > _TAKE_OVER_NS:
                return
            if not since_ns and self.execution_count == seen_count:
                quiet_looks += 1
            else:
                quiet_looks = 0
                seen_count = self.execution_count
            if quiet_looks < _QUIET_LOOKS:
                self._alarm.acquire(timeout=_WATCH_S if self._slowness else _CALM_WATCH_S)
            else:
                self._sleep()
                quiet_looks = 0

    def _sleep(self) -> None:
        self._is_asleep = True
        # An execution that began before it was said has woken nobody.
        if not (self.executing_since_ns or self._is_called or self._is_stopped):
            self._alarm.acquire()
        self._is_asleep = False
