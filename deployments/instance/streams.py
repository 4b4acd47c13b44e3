# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How responses of decoupled models leave, from whatever thread they come."""

import threading
from collections.abc import Callable

from deployments.instance.outbox import Outbox
from deployments.instance.settlement import Settlement
from deployments.instance.work import Outcome, StreamWork


class StreamExit:
    """The way out of an executor.

    Args:
        mutex: The executor's.
        settlement: Counts responses; guarded by the mutex.
        outbox: Takes them; guarded by the mutex.
        post_flush: Has the outbox flushed on the thread that turns the reactor.
        clock_ns: Monotonic clock.
    """

    __slots__ = ("_clock_ns", "_mutex", "_outbox", "_post_flush", "_settlement")

    def __init__(
        self,
        mutex: threading.Lock,
        settlement: Settlement,
        outbox: Outbox,
        post_flush: Callable[[], None],
        clock_ns: Callable[[], int],
    ) -> None:
        self._mutex = mutex
        self._settlement = settlement
        self._outbox = outbox
        self._post_flush = post_flush
        self._clock_ns = clock_ns

    def stream(self, work: StreamWork, outcome: Outcome, *, final: bool) -> None:
        """Send an outcome of a decoupled request on its way, from any thread.

        Raises:
            InternalError: The request already had its final response.
        """
        with self._mutex:
            self._settlement.stream(work, outcome, self._clock_ns(), final=final)
            is_due = self._outbox.claim_flush()
        if is_due:
            self._post_flush()

    def await_credit(self, work: StreamWork) -> None:
        """Wait until the caller of a decoupled request takes a response; on any thread."""
        settlement = self._settlement
        with self._mutex:
            settlement.held_count += 1
        try:
            work.lane.await_credit()
        finally:
            with self._mutex:
                settlement.held_count -= 1
                settlement.moved_ns = self._clock_ns()
