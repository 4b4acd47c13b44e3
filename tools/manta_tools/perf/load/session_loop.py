# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The loop of sessions: a turn is sent some time after the answer of the one before.

Triton: perf_analyzer/src/session_concurrency/session_concurrency_manager.cc @263c5f6
"""

from typing import Protocol

from manta_tools.perf.load.loops import Clock, Load, Timer
from manta_tools.perf.records import Request, Sender


class Turns(Protocol):
    """Where turns come from; each slot has one session at a time."""

    def next(self, slot: int) -> Request:
        """Return the slot's next turn: of its session, or the first of a new one."""

    def closing(self, slot: int) -> Request | None:
        """Return None: a session is left as it is."""

    def wait_ns(self, request: Request) -> int | None:
        """Take a turn that has ended, and return how long after it the slot's next one follows.

        None when there are no more sessions.
        """


class SessionLoop(Load):
    """A number of sessions at once, until all have had their turns."""

    def __init__(
        self, sender: Sender, turns: Turns, clock: Clock, timer: Timer, *, concurrency: int
    ) -> None:
        """Make a loop.

        Args:
            sender: Sends.
            turns: Makes the requests, for as many slots as there are sessions at once.
            clock: The time, in nanoseconds.
            timer: Calls back.
            concurrency: Sessions at once; there are no fewer sessions.
        """
        super().__init__(sender, turns, clock)
        self._turns, self._timer = turns, timer
        self._concurrency = concurrency
        self._waiting = 0

    def start(self) -> None:
        """Begin the first sessions."""
        for slot in range(self._concurrency):
            self._send(slot)

    @property
    def is_done(self) -> bool:
        """Whether nothing is under way, and nothing will be sent."""
        return not self.in_flight and (self._is_stopping or not self._waiting)

    def _goes_on(self, request: Request) -> None:
        wait_ns = self._turns.wait_ns(request)
        if wait_ns is None or self._is_stopping:
            return
        due_ns = self._clock() + wait_ns
        if not wait_ns:
            self._send(request.slot, due_ns)
            return
        self._waiting += 1
        self._timer(wait_ns, lambda: self._follow(request.slot, due_ns))

    def _follow(self, slot: int, due_ns: int) -> None:
        self._waiting -= 1
        if not self._is_stopping:
            self._send(slot, due_ns)
