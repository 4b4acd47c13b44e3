# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The loop of the thread that executes: decide, execute, settle, answer, wait.

With nothing to execute the thread turns the reactor if it leads (`deployments.instance.lead`, which
has the picture), else it sleeps on a lock that `ExecutionThread.wake` releases.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from deployments.instance.lead import Lead

if TYPE_CHECKING:
    from deployments.instance.executor import Executor

_NS_PER_S: Final = 1_000_000_000
# With more to execute, the thread looks at its lanes this often.
_TURN_EVERY_NS: Final = 200_000


class ExecutionThread:
    """Runs an executor's executions.

    Args:
        lead: The right to turn the reactor.
        mutex: Held by whoever calls `wake` and `may_sleep`.
        clock_ns: Monotonic clock.
    """

    def __init__(self, lead: Lead, mutex: threading.Lock, clock_ns: Callable[[], int]) -> None:
        self._lead = lead
        self._reactor = lead.reactor
        self._mutex = mutex
        self._clock_ns = clock_ns
        self._turned_ns = 0
        # Guarded by the mutex.
        self._is_asleep = False
        # Held while the thread sleeps, released once to wake it.
        self._alarm = threading.Lock()
        self._alarm.acquire()

    def run(self, steps: "Executor") -> None:
        """Execute on the calling thread until ``steps`` is closing and has nothing to execute."""
        self._lead.start()
        try:
            while True:
                decision = steps.decide()
                if decision.batch:
                    steps.settle(decision, steps.execute(decision))
                    # What was executed must not live on in this frame while the thread waits.
                    del decision
                    self._answer(steps)
                elif steps.is_closing:
                    return
                else:
                    wake_at_ns = decision.wake_at_ns
                    del decision
                    self._wait(wake_at_ns)
        finally:
            self._lead.leave()

    def may_sleep(self) -> None:
        """Note that there is nothing to execute; the mutex is held."""
        self._is_asleep = not self._lead.is_held

    def wake(self) -> None:
        """Have the thread ask again, if it waits; the mutex is held."""
        if self._is_asleep:
            self._is_asleep = False
            self._alarm.release()
        else:
            self._reactor.return_soon()

    def _answer(self, steps: "Executor") -> None:
        """Let outcomes leave where this thread leads; a follower sends them by itself."""
        if not self._lead.is_held:
            return
        if self._clock_ns() - self._turned_ns > _TURN_EVERY_NS:
            self._turn(0.0)
        elif steps.is_idle:
            # Answers leave before anything else is thought about.
            self._reactor.run_posted()

    def _wait(self, until_ns: int | None) -> None:
        if self._lead.is_held:
            self._turn(self._until_s(until_ns))
        else:
            self._sleep(self._until_s(until_ns))

    def _until_s(self, until_ns: int | None) -> float | None:
        if until_ns is None:
            return None
        return max(0.0, (until_ns - self._clock_ns()) / _NS_PER_S)

    def _turn(self, timeout_s: float | None) -> None:
        self._reactor.turn(timeout_s)
        self._turned_ns = self._clock_ns()

    def _sleep(self, timeout_s: float | None) -> None:
        if timeout_s is None:
            self._alarm.acquire()
            return
        if self._alarm.acquire(timeout=timeout_s):
            return
        with self._mutex:
            if self._is_asleep:
                self._is_asleep = False
            else:
                # Woken between the timeout and now: use up that wake-up.
                self._alarm.acquire()
