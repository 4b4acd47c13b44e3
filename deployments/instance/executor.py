# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs one model instance: takes requests from lanes, batches them, answers them.

Whoever turns the reactor hands over whatever one socket read brought (`Executor.received`) and
gives outcomes back to the lanes. The execution thread (`Executor.run`) asks the scheduler for the
next batch as soon as it has finished one, so no batch waits for a loop. The outcomes of a whole
batch travel in one callback of the reactor, and none is posted while one is under way.

From `received` on, the executor owes each request exactly one terminal outcome. The scheduler, the
outbox and the statistics belong to ``_mutex``; outstanding requests and their order of completion
belong to the thread that turns the reactor. Nothing keeps a request alive after its outcome: its
inputs may be views into a sender's shared memory.
"""

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from backends.api.backend import ExecuteBatch, ModelInstance
from backends.api.errors import (
    InternalError,
    RequestCancelledError,
    TritonError,
    UnavailableError,
)
from backends.api.model_config import ModelConfig
from deployments.instance.lead import Lead
from deployments.instance.thread import ENDED, NEVER, NOW, ExecutionThread
from deployments.instance.work import (
    LaneRequest,
    Outcome,
    ServedModel,
    StreamWork,
    UnaryWork,
    run_model,
)
from deployments.metrics.counters import (
    ExecutionTimes,
    FailureReason,
    InstanceStatistics,
    Snapshot,
    times_of,
)
from deployments.metrics.distributions import Distributions
from deployments.reactor.transport import Cancellable
from deployments.scheduling.completion import CompletionQueue, keeps_order
from deployments.scheduling.factory import make_scheduler, make_signature
from deployments.scheduling.limited_scheduler import Grant
from deployments.scheduling.scheduler import STOPPED, Decision, Scheduler
from deployments.scheduling.shape_buckets import shape_buckets_of
from deployments.tracing.record import execution_activities

_log = logging.getLogger(__name__)

AnyWork = UnaryWork | StreamWork
_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000
# Sequences may end by staying quiet, of which nobody would tell.
_SEQUENCES_ENDED_POLL_S = 0.02


class Activity(NamedTuple):
    """What an execution thread does at an instant.

    Attributes:
        pending_count: Requests that wait.
        executing_for_ns: How long the present execution has lasted; 0 while there is none.
        decision_count: How often the thread has asked the scheduler.
        execution_count: Executions that have begun.
    """

    pending_count: int
    executing_for_ns: int
    decision_count: int
    execution_count: int


class Executor:
    """One instance's queue and execution.

    Args:
        config: The model's complete config.
        version: Version number.
        instance: The loaded instance; closed when `run` ends.
        lead: The right to turn the reactor that lanes live on.
        statistics: Counters to go on with, those of the warmup.
        state_files: The bytes of the files that initial states of sequences come from.
        grant: The right to execute, where the rate limiter gives it.
        clock_ns: Monotonic clock, the one backends stamp their times with.
    """

    def __init__(
        self,
        config: ModelConfig,
        version: int,
        instance: ModelInstance,
        lead: Lead,
        statistics: InstanceStatistics | None = None,
        state_files: Mapping[str, bytes] | None = None,
        grant: Grant | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._buckets = buckets = shape_buckets_of(config)
        self._model = ServedModel(config, version, make_signature(config, buckets), buckets)
        self._instance = instance
        self._lead = lead
        self._reactor = lead.reactor
        self._post = lead.reactor.call_soon_threadsafe
        self._clock_ns = clock_ns
        self._is_decoupled = config.decoupled
        # Guarded by the mutex.
        self._mutex = threading.Lock()
        self._scheduler: Scheduler[AnyWork] = make_scheduler(config, state_files or {}, grant)
        self._statistics = statistics or InstanceStatistics()
        self._outbox: list[tuple[AnyWork, Outcome, bool]] = []
        self._is_flush_due = False
        self._is_closing = False
        self._decision_count = 0
        self._thread = ExecutionThread(lead, self._mutex, clock_ns)
        self._ended = threading.Event()
        # Owned by the thread that turns the reactor.
        self._outstanding_count = 0
        self._idle: list[concurrent.futures.Future[None]] = []
        self._expiry_timer: Cancellable | None = None
        self._expiry_ns = 0
        self._completion: CompletionQueue[AnyWork, Outcome] | None = (
            CompletionQueue() if keeps_order(config) else None
        )

    # The side of the thread that turns the reactor.

    @property
    def inflight_count(self) -> int:
        """Requests received whose terminal outcome has not been delivered."""
        return self._outstanding_count

    def received(self, requests: Sequence[LaneRequest]) -> None:
        """Take requests; each gets its outcome later, or now when it cannot be queued."""
        now_ns = self._clock_ns()
        model = self._model
        works: list[AnyWork]
        if self._is_decoupled:
            works = [StreamWork(model, lane, now_ns, self) for lane in requests]
        else:
            works = [UnaryWork(model, lane, now_ns) for lane in requests]
        self._outstanding_count += len(works)
        if self._completion is not None:
            for work in works:
                self._completion.accept(work)
        refused: list[tuple[AnyWork, TritonError]] = []
        with self._mutex:
            enqueue = self._scheduler.enqueue
            is_due = False
            for work in works:
                try:
                    is_due |= enqueue(work, now_ns)
                except TritonError as refusal:
                    refused.append((work, refusal))
                    self._statistics.record_failure(FailureReason.REJECTED, 0)
            if is_due:
                self._thread.wake()
            deadline_ns = self._scheduler.deadline_ns
        if deadline_ns is not None:
            self._expire_at(deadline_ns)
        for work, error in refused:
            work.is_closed = True
            self._deliver(work, error, final=True)

    def _expire_at(self, deadline_ns: int) -> None:
        """Have requests whose time is over dropped then, though the model may be busy."""
        timer = self._expiry_timer
        if timer is not None and self._expiry_ns <= deadline_ns:
            return
        if timer is not None:
            timer.cancel()
        self._expiry_ns = deadline_ns
        delay_s = max(0.0, (deadline_ns - self._clock_ns()) / _NS_PER_S)
        self._expiry_timer = self._reactor.call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._expiry_timer = None
        with self._mutex:
            for work, error in self._scheduler.expire(self._clock_ns()):
                self._drop(work, error)
            deadline_ns = self._scheduler.deadline_ns
        self._flush()
        if deadline_ns is not None:
            self._expire_at(deadline_ns)

    def knows(self, correlation_id: int | str) -> bool:
        """Whether a sequence of this id goes on here."""
        with self._mutex:
            return self._scheduler.knows(correlation_id)

    def look_again(self) -> None:
        """Let the scheduler notice that a queued request was cancelled, if it waits for more."""
        with self._mutex:
            self._thread.wake()

    def activity(self) -> Activity:
        """Return what the execution thread does now and have it look at its queue; any thread."""
        with self._mutex:
            since_ns = self._lead.executing_since_ns
            activity = Activity(
                self._scheduler.pending_count,
                self._clock_ns() - since_ns if since_ns else 0,
                self._decision_count,
                self._lead.execution_count,
            )
            self._thread.wake()
        self._reactor.interrupt()
        return activity

    def observe(self, distributions: Distributions | None) -> None:
        """Note single latencies from now on, or no longer."""
        with self._mutex:
            self._statistics.distributions = distributions

    def statistics(self) -> Snapshot:
        """Return a copy of the counters."""
        with self._mutex:
            return self._statistics.snapshot(self._scheduler.pending_count)

    async def drain(self, timeout_s: float) -> bool:
        """Refuse new requests and wait for those in flight, and for running sequences to end.

        On any event loop.

        Returns:
            Whether every request got its outcome in time.
        """
        with self._mutex:
            self._scheduler.stop()
        idle: concurrent.futures.Future[None] = concurrent.futures.Future()
        try:
            async with asyncio.timeout(timeout_s):
                while self._scheduler.sequence_count:  # noqa: ASYNC110 - see the constant
                    await asyncio.sleep(_SEQUENCES_ENDED_POLL_S)
                if self._outstanding_count:
                    self._post(self._note_drain, idle)
                    await asyncio.wrap_future(idle)
        except TimeoutError:
            return False
        return True

    async def close(self, timeout_s: float) -> bool:
        """End the execution thread; requests still queued fail as UNAVAILABLE. On any event loop.

        Returns:
            Whether the thread ended and closed the instance; False while a model does not return.
        """
        with self._mutex:
            self._scheduler.stop()
            for work in self._scheduler.clear():
                self._drop(work, UnavailableError(STOPPED))
            self._is_closing = True
            self._thread.wake()
        self._post(self._flush)
        self._reactor.interrupt()
        return await asyncio.to_thread(self._ended.wait, timeout_s)

    def _note_drain(self, idle: "concurrent.futures.Future[None]") -> None:
        self._idle.append(idle)
        if not self._outstanding_count:
            self._tell_idle()

    def _tell_idle(self) -> None:
        waiting, self._idle = self._idle, []
        for idle in waiting:
            if idle.set_running_or_notify_cancel():
                idle.set_result(None)

    def _flush(self) -> None:
        with self._mutex:
            outbox, self._outbox = self._outbox, []
            self._is_flush_due = False
        for work, outcome, final in outbox:
            self._deliver(work, outcome, final=final)

    def _deliver(self, work: AnyWork, outcome: Outcome, *, final: bool) -> None:
        if self._completion is None:
            self._hand_over(work, outcome, final=final)
            return
        for released in self._completion.add(work, outcome, final=final):
            self._hand_over(released[0], released[1], final=released[2])

    def _hand_over(self, work: AnyWork, outcome: Outcome, *, final: bool) -> None:
        lane = work.lane
        try:
            # A lane ends a request early when its response cannot be encoded.
            if lane.is_finished:
                pass
            elif isinstance(outcome, TritonError):
                lane.fail(outcome, final=final)
            else:
                lane.respond(outcome, final=final)
        except Exception:
            # One lane's trouble must not cost other lanes their outcomes.
            _log.exception("a response of model '%s' could not be sent", self._model.name)
        if final:
            self._outstanding_count -= 1
            if self._idle and not self._outstanding_count:
                self._tell_idle()

    # Called with the mutex held.

    def _drop(self, work: AnyWork, error: TritonError) -> None:
        is_cancelled = isinstance(error, RequestCancelledError)
        reason = FailureReason.CANCELED if is_cancelled else FailureReason.REJECTED
        self._statistics.record_failure(reason, self._clock_ns() - work.enqueue_ns)
        work.is_closed = True
        self._outbox.append((work, error, True))

    def _count_stream(self, work: StreamWork, now_ns: int) -> None:
        # Counted before its caller hears of the end, which may be long before or after execute
        # returns: all since the start of the execution is compute time.
        start_ns = work.started_ns
        times = ExecutionTimes(start_ns, start_ns, now_ns, now_ns)
        if work.request.trace is not None:
            work.lane.traced(execution_activities(work.enqueue_ns, times))
        if work.error is None:
            self._statistics.record_success(1, work.batch_size, work.enqueue_ns, times)
            self._statistics.record_distribution(work.enqueue_ns, times)
        else:
            self._statistics.record_failure(_reason(work.error), now_ns - work.enqueue_ns)

    def _claim_flush(self) -> bool:
        if self._is_flush_due or not self._outbox:
            return False
        self._is_flush_due = True
        return True

    # Any thread, without the mutex.

    def stream(self, work: StreamWork, outcome: Outcome, *, final: bool) -> None:
        """Send an outcome of a decoupled request on its way, from any thread.

        Raises:
            InternalError: The request already had its final response.
        """
        with self._mutex:
            if work.is_closed:
                raise InternalError(
                    f"model '{self._model.name}' sent a response after the final one of a request"
                )
            now_ns = self._clock_ns()
            kind = "empty" if outcome is None else "success"
            if isinstance(outcome, TritonError):
                work.error = outcome
                kind = "fail"
            self._statistics.record_response(work.response_count, kind, now_ns - work.started_ns)
            distributions = self._statistics.distributions
            if distributions is not None and not work.response_count:
                distributions.first_response(now_ns - work.enqueue_ns)
            work.response_count += 1
            if final:
                work.is_closed = True
                self._count_stream(work, now_ns)
            self._outbox.append((work, outcome, final))
            is_due = self._claim_flush()
        if is_due:
            self._post(self._flush)

    # The execution thread's side.

    def run(self) -> None:
        """Execute batches on the calling thread until `close`, then close the instance."""
        try:
            self._thread.run(self._execute_next, self._is_idle)
        finally:
            try:
                self._instance.close()
            except Exception:
                _log.exception("model '%s' failed to close", self._model.name)
            self._ended.set()

    def _execute_next(self) -> int:
        """Execute what there is; return until when there will be nothing else, or `ENDED`."""
        # In a frame of its own, so that no local keeps a batch alive while the thread waits.
        decision = self._decide()
        if decision.batch:
            self._execute(decision)
            return NOW
        if self._is_closing:
            return ENDED
        return NEVER if decision.wake_at_ns is None else decision.wake_at_ns

    def _is_idle(self) -> bool:
        return not self._scheduler.pending_count

    def _decide(self) -> Decision[AnyWork]:
        is_due = False
        with self._mutex:
            self._decision_count += 1
            decision = self._scheduler.next_batch(self._clock_ns())
            if decision.dropped:
                for work, error in decision.dropped:
                    self._drop(work, error)
                is_due = self._claim_flush()
            if decision.batch:
                self._statistics.record_start()
            else:
                self._thread.may_sleep()
        if is_due:
            self._post(self._flush)
        return decision

    def _execute(self, decision: Decision[AnyWork]) -> None:
        works = decision.batch
        start_ns = self._clock_ns()
        if self._is_decoupled:
            for work in works:
                work.started_ns = start_ns  # type: ignore[union-attr]
        if self._buckets is not None:
            for work in works:
                work.lengths = self._buckets.pad(work.request)
        batch = ExecuteBatch(decision.rows or works)
        self._lead.execution_begins(start_ns)
        error = run_model(self._instance, batch, self._model.name)
        end_ns = self._clock_ns()
        self._lead.execution_ended(end_ns)
        times = times_of(batch, start_ns, end_ns)
        with self._mutex:
            self._settle(decision, error, times)
            is_due = self._claim_flush()
        if is_due:
            self._post(self._flush)

    def _settle(
        self, decision: Decision[AnyWork], error: TritonError | None, times: ExecutionTimes
    ) -> None:
        statistics, works = self._statistics, decision.batch
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
                    continue
            if isinstance(work, StreamWork):
                if failure is not None and not work.is_closed:
                    work.is_closed = True
                    work.error = failure
                    self._count_stream(work, times.end_ns)
                    self._outbox.append((work, failure, True))
                continue
            outcome = work.close(failure)
            if work.request.trace is not None:
                work.lane.traced(execution_activities(work.enqueue_ns, times))
            self._outbox.append((work, outcome, True))
            if isinstance(outcome, TritonError):
                statistics.record_failure(_reason(outcome), times.end_ns - work.enqueue_ns)
            else:
                if work.request.wants_times and outcome is not None:
                    outcome.compute_ns = times.compute_ns
                success_count += 1
                inference_count += work.batch_size
                enqueued_ns += work.enqueue_ns
                if statistics.distributions is not None:
                    statistics.record_distribution(work.enqueue_ns, times)
                    statistics.distributions.first_response(times.end_ns - work.enqueue_ns)
        statistics.record_execution(size, times, time.time_ns() // _NS_PER_MS)
        if success_count:
            statistics.record_success(success_count, inference_count, enqueued_ns, times)


def _reason(error: TritonError) -> FailureReason:
    is_cancelled = isinstance(error, RequestCancelledError)
    return FailureReason.CANCELED if is_cancelled else FailureReason.BACKEND
