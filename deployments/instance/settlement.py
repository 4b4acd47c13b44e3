# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of each request that was dropped or executed: it gets an outcome and is counted."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from backends.api.errors import InternalError, RequestCancelledError, TritonError
from backends.api.request import InferenceResponse
from deployments.instance.outbox import BOUNCED, AnyWork, Outbox
from deployments.instance.work import Outcome, StreamWork
from deployments.metrics.counters import (
    ExecutionTimes,
    FailureReason,
    InstanceStatistics,
    ResponseOutcome,
)
from deployments.scheduling.scheduler import Decision
from deployments.tracing.record import execution_activities

_NS_PER_MS: Final = 1_000_000


class Settlement:
    """Counts outcomes and puts them into the outbox.

    `stream` and `await_credit` are for any thread, the rest with the executor's mutex held.

    Args:
        model_name: For messages.
        mutex: The executor's.
        statistics: The instance's counters.
        outbox: Takes the outcomes.
        post_flush: Has the outbox flushed on the thread that turns the reactor.
        clock_ns: Monotonic clock.

    Attributes:
        open_count: Requests of a decoupled model that the model was given and has not ended.
        moved_ns: When a decoupled model last began an execution, sent a response or was let go on.
        held_count: Responses of a decoupled model that wait until their caller takes them.
    """

    __slots__ = (
        "_clock_ns", "_model_name", "_mutex", "_outbox", "_post_flush", "held_count", "moved_ns",
        "open_count", "statistics",
    )  # fmt: skip

    def __init__(
        self,
        model_name: str,
        mutex: threading.Lock,
        statistics: InstanceStatistics,
        outbox: Outbox,
        post_flush: Callable[[], None],
        clock_ns: Callable[[], int],
    ) -> None:
        self._model_name = model_name
        self._mutex = mutex
        self._outbox = outbox
        self._post_flush = post_flush
        self._clock_ns = clock_ns
        self.statistics = statistics
        self.open_count = 0
        self.moved_ns = 0
        self.held_count = 0

    def drop(self, work: AnyWork, error: TritonError, now_ns: int) -> None:
        """End a request that is not executed here."""
        if error is not BOUNCED:
            is_cancelled = isinstance(error, RequestCancelledError)
            reason = FailureReason.CANCELED if is_cancelled else FailureReason.REJECTED
            self.statistics.record_failure(reason, now_ns - work.enqueue_ns)
        work.is_closed = True
        self._outbox.waiting.append((work, error, True))

    def stream(self, work: StreamWork, outcome: Outcome, *, final: bool) -> None:
        """Send an outcome of a decoupled request on its way, from any thread.

        Raises:
            InternalError: The request already had its final response.
        """
        with self._mutex:
            self._note(work, outcome, self._clock_ns(), final=final)
            is_due = self._outbox.claim_flush()
        if is_due:
            self._post_flush()

    def await_credit(self, work: StreamWork) -> None:
        """Wait until the caller of a decoupled request takes a response; on any thread."""
        with self._mutex:
            self.held_count += 1
        try:
            work.lane.await_credit()
        finally:
            with self._mutex:
                self.held_count -= 1
                self.moved_ns = self._clock_ns()

    def _note(self, work: StreamWork, outcome: Outcome, now_ns: int, *, final: bool) -> None:
        if work.is_closed:
            raise InternalError(
                f"model '{self._model_name}' sent a response after the final one of a request"
            )
        kind = ResponseOutcome.EMPTY if outcome is None else ResponseOutcome.SUCCESS
        if isinstance(outcome, TritonError):
            work.error = outcome
            kind = ResponseOutcome.FAIL
        statistics = self.statistics
        statistics.record_response(work.response_count, kind, now_ns - work.started_ns)
        if statistics.distributions is not None and not work.response_count:
            statistics.distributions.first_response(now_ns - work.enqueue_ns)
        work.response_count += 1
        self.moved_ns = now_ns
        if final:
            self._end_stream(work, now_ns)
        self._outbox.waiting.append((work, outcome, final))

    def settle(
        self, decision: Decision[AnyWork], error: TritonError | None, times: ExecutionTimes
    ) -> None:
        """End the requests of an execution, but for those that stream on or are executed again.

        Args:
            decision: What was executed.
            error: What the execution failed with.
            times: When it ran.
        """
        statistics, works = self.statistics, decision.batch
        waiting = self._outbox.waiting
        size = success_count = inference_count = enqueued_ns = 0
        if decision.rows:
            # Rows that only fill slots are executed too.
            size = len(decision.rows) - len(works)
        for work in works:
            size += work.batch_size
            failure = error
            if work.is_rescheduled:
                failure = work.refusal(error)
                work.is_rescheduled = failure is None and not work.is_closed
                if work.is_rescheduled:
                    self.open_count -= isinstance(work, StreamWork)
                    continue
            if isinstance(work, StreamWork):
                if failure is not None and not work.is_closed:
                    work.error = failure
                    self._end_stream(work, times.end_ns)
                    waiting.append((work, failure, True))
                continue
            outcome = work.close(failure)
            if work.request.trace is not None:
                work.lane.traced(execution_activities(work.enqueue_ns, times))
            waiting.append((work, outcome, True))
            if isinstance(outcome, TritonError):
                statistics.record_failure(_reason(outcome), times.end_ns - work.enqueue_ns)
            else:
                if work.request.wants_times and outcome is not None:
                    _tell_times(outcome, work, works, times)
                success_count += 1
                inference_count += work.batch_size
                enqueued_ns += work.enqueue_ns
                if statistics.distributions is not None:
                    statistics.record_distribution(work.enqueue_ns, times)
                    statistics.distributions.first_response(times.end_ns - work.enqueue_ns)
        statistics.record_execution(size, times, time.time_ns() // _NS_PER_MS)
        if success_count:
            statistics.record_success(success_count, inference_count, enqueued_ns, times)

    def _end_stream(self, work: StreamWork, now_ns: int) -> None:
        # Counted before its caller hears of the end, which may be long before or after execute
        # returns: all since the start of the execution is compute time.
        work.is_closed = True
        self.open_count -= 1
        start_ns = work.started_ns
        times = ExecutionTimes(start_ns, start_ns, now_ns, now_ns)
        if work.request.trace is not None:
            work.lane.traced(execution_activities(work.enqueue_ns, times))
        if work.error is None:
            self.statistics.record_success(1, work.batch_size, work.enqueue_ns, times)
            self.statistics.record_distribution(work.enqueue_ns, times)
        else:
            self.statistics.record_failure(_reason(work.error), now_ns - work.enqueue_ns)


def _tell_times(
    outcome: InferenceResponse, work: AnyWork, works: Sequence[AnyWork], times: ExecutionTimes
) -> None:
    outcome.compute_ns = times.compute_ns
    # Of the batch's rows, not of those that only fill slots.
    rows = sum(each.batch_size for each in works)
    outcome.share_ns = (times.end_ns - times.start_ns) * work.batch_size // rows
    outcome.queue_ns = max(0, times.start_ns - work.enqueue_ns)


def _reason(error: TritonError) -> FailureReason:
    is_cancelled = isinstance(error, RequestCancelledError)
    return FailureReason.CANCELED if is_cancelled else FailureReason.BACKEND
