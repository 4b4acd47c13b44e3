# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The loop of the thread that executes: when it executes, serves its lanes and sleeps.

With nothing to execute it turns the reactor if it leads (`deployments.instance.lead`), else it
sleeps on a lock that `ExecutionThread.wake` releases.
"""

import threading
from collections.abc import Callable
from typing import Final

from deployments.instance.lead import Lead

# What `execute_next` may return in place of the time to ask again at.
NOW: Final = 0
NEVER: Final = 1 << 63
ENDED: Final = -1

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

    def run(self, execute_next: Callable[[], int], is_idle: Callable[[], bool]) -> None:
        """Execute on the calling thread until ``execute_next`` returns `ENDED`.

        Args:
            execute_next: Executes what there is and returns `NOW`, or calls `may_sleep` and returns
                until when there will be nothing.
            is_idle: Whether there is probably nothing to execute.
        """
        lead = self._lead
        lead.start()
        try:
            while (ask_at_ns := execute_next()) != ENDED:
                if not lead.is_held:
                    if ask_at_ns != NOW:
                        self._sleep(ask_at_ns)
                elif ask_at_ns != NOW:
                    self._wait_at_lanes(ask_at_ns)
                elif self._clock_ns() - self._turned_ns > _TURN_EVERY_NS:
                    self._wait_at_lanes(NOW)
                elif is_idle():
                    # Answers leave before anything else is thought about.
                    self._reactor.run_posted()
        finally:
            lead.leave()

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

    def _wait_at_lanes(self, until_ns: int) -> None:
        timeout_s: float | None = None
        if until_ns != NEVER:
            timeout_s = max(0.0, (until_ns - self._clock_ns()) / _NS_PER_S)
        self._reactor.turn(timeout_s)
        self._turned_ns = self._clock_ns()

    def _sleep(self, until_ns: int) -> None:
        if until_ns == NEVER:
            self._alarm.acquire()
            return
        timeout_s = max(0.0, (until_ns - self._clock_ns()) / _NS_PER_S)
        if self._alarm.acquire(timeout=timeout_s):
            return
        with self._mutex:
            if self._is_asleep:
                self._is_asleep = False
            else:
                # Woken between the timeout and now: use up that wake-up.
                self._alarm.acquire()
