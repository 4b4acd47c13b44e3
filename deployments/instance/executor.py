# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs one model instance: takes requests from lanes, batches them, answers them.

Whoever turns the reactor hands over whatever one socket read brought (`Executor.received`). The
execution thread (`Executor.run`) asks the scheduler for the next batch as soon as it has finished
one, so no batch waits for a loop. Outcomes go to the lanes through `deployments.instance.outbox`.

From `received` on, the executor owes each request exactly one terminal outcome. The scheduler, the
outbox and the statistics belong to ``_mutex``. Nothing keeps a request alive after its outcome: its
inputs may be views into a sender's shared memory.

What a model raises fails its batch. So does an error in padding its inputs, which comes before the
model and the scheduler's books are touched. Any other error here leaves books of which nobody knows
whether they are right: it is a fault, which ends the process, and the lanes' ends have routers send
unanswered requests elsewhere.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from backends.api.backend import ExecuteBatch, ModelInstance
from backends.api.errors import TritonError, UnavailableError
from backends.api.model_config import ModelConfig
from deployments.instance.activity import Activity
from deployments.instance.lead import Lead
from deployments.instance.outbox import AnyWork, Outbox
from deployments.instance.pushed_batches import PushedBatches, WorkBatch
from deployments.instance.settlement import Settlement
from deployments.instance.streams import StreamExit
from deployments.instance.thread import ExecutionThread
from deployments.instance.work import (
    ExecutedModel,
    LaneRequest,
    StreamWork,
    UnaryWork,
    pad,
    run_model,
)
from deployments.lane.batches import BatchPart, Forget
from deployments.metrics.counters import (
    ExecutionTimes,
    FailureReason,
    InstanceStatistics,
    Snapshot,
    times_of,
)
from deployments.metrics.distributions import Distributions
from deployments.reactor.transport import Cancellable
from deployments.scheduling.factory import (
    NO_CONDITIONS,
    Conditions,
    make_feeder,
    make_scheduler,
    make_signature,
)
from deployments.scheduling.scheduler import STOPPED, Decision, Scheduler
from deployments.scheduling.sequence_feeder import SequenceFeeder
from deployments.scheduling.shape_buckets import shape_buckets_of

_log = logging.getLogger(__name__)

# What an execution failed with, and when it ran.
Execution = tuple[TritonError | None, ExecutionTimes]

_NS_PER_S = 1_000_000_000
# Sequences may end by staying quiet, of which nobody would tell.
_SEQUENCES_ENDED_POLL_S = 0.02


class Executor:
    """One instance's queue and execution.

    Args:
        config: The model's complete config.
        version: Version number.
        instance: The loaded instance; closed when `run` ends, but not after a fault.
        lead: The right to turn the reactor that lanes live on; its ``on_fault`` is called when the
            executor can no longer keep its promise of an outcome for each request.
        statistics: Counters to go on with, those of the warmup.
        state_files: The bytes of the files that initial states of sequences come from.
        conditions: What its scheduler stands under.
        clock_ns: Monotonic clock, the one backends stamp their times with.

    Raises:
        InvalidArgumentError: A parameter of the config is not what it has to be.
    """

    def __init__(
        self,
        config: ModelConfig,
        version: int,
        instance: ModelInstance,
        lead: Lead,
        statistics: InstanceStatistics | None = None,
        state_files: Mapping[str, bytes] | None = None,
        conditions: Conditions = NO_CONDITIONS,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._buckets = buckets = shape_buckets_of(config)
        self._model = ExecutedModel(config, version, make_signature(config, buckets), buckets)
        # What may share a batch was asked where the batch was formed.
        self._pushed_model = ExecutedModel(config, version, None, buckets)
        self._instance = instance
        self._lead = lead
        self._reactor = lead.reactor
        self._post = lead.reactor.call_soon_threadsafe
        self._clock_ns = clock_ns
        self._on_fault = lead.on_fault
        self._is_decoupled = config.decoupled
        # Guarded by the mutex.
        self.mutex = threading.Lock()
        self._scheduler: Scheduler[AnyWork] = make_scheduler(config, *conditions)
        self._statistics = statistics or InstanceStatistics()
        self._outbox = Outbox(config.name, self.mutex, lead.reactor)
        self._settlement = Settlement(config.name, self._statistics, self._outbox)
        self._make_work: Callable[[ExecutedModel, LaneRequest, int], AnyWork] = UnaryWork
        if config.decoupled:
            streams = StreamExit(
                self.mutex, self._settlement, self._outbox, self._post_flush, clock_ns
            )
            self._make_work = partial(StreamWork, streams)
        self._grant = conditions.grant
        # Of an adopted instance; its scheduler, too.
        self._pushed: PushedBatches | None = None
        self._is_executing = False
        self._decision_count = 0
        self.is_closing = False
        self._thread: ExecutionThread[AnyWork, Execution]
        self._thread = ExecutionThread(lead, self.mutex, clock_ns)
        self._ended = threading.Event()
        # Of the execution thread: what requests of sequences are fed, and the groups of a batch of
        # theirs that are still to be executed.
        self._feeder: SequenceFeeder[AnyWork] | None = make_feeder(config, state_files or {})
        self._groups: deque[Decision[AnyWork]] = deque()
        # Owned by the thread that turns the reactor.
        self._expiry_timer: Cancellable | None = None
        self._expiry_ns = 0

    # The side of the thread that turns the reactor.

    @property
    def inflight_count(self) -> int:
        """Requests received whose terminal outcome has not been delivered."""
        return self._outbox.outstanding_count

    def received(self, requests: Sequence[LaneRequest]) -> None:
        """Take requests; each gets its outcome later, or now when it cannot be queued."""
        if self._pushed is not None:
            for request in requests:
                request.bounce()
            return
        now_ns = self._clock_ns()
        make, model = self._make_work, self._model
        # What is raised so far concerns requests of which nothing is noted yet.
        works = [make(model, lane, now_ns) for lane in requests]
        try:
            self._enqueue(works, now_ns)
        except BaseException as error:
            self._on_fault("queueing of requests failed", error)

    def _enqueue(self, works: list[AnyWork], now_ns: int) -> None:
        self._outbox.accept(works)
        refused: list[tuple[AnyWork, TritonError]] = []
        with self.mutex:
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
            self._outbox.deliver(work, error, final=True)

    def adopt(self, report: Callable[[WorkBatch], None]) -> PushedBatches:
        """Become adopted, unless it is; what is queued and not begun is bounced.

        Args:
            report: Called with each batch that is done, behind its outcomes.

        Returns:
            What it executes from now on; guarded by `mutex`.
        """
        if self._pushed is not None:
            return self._pushed
        self._outbox.report = report
        with self.mutex:
            queued = self._scheduler.clear()
            self._pushed = pushed = PushedBatches(self._outbox, self._grant)
            self._scheduler = pushed
            pushed.take_over(is_executing=self._is_executing)
            for work in queued:
                work.is_closed = True
        for work in queued:
            work.lane.bounce()
            # Its lane knows no more of it, which is all that has to be noted.
            self._outbox.deliver(work, None, final=True)
        return pushed

    def received_part(self, part: BatchPart, requests: Sequence[LaneRequest]) -> None:
        """Take a part of a batch; its requests get their outcomes later.

        For an instance that nobody has adopted they are single requests, which it bounces.
        """
        pushed = self._pushed
        if pushed is None:
            for request in requests:
                request.bounce()
            return
        now_ns = self._clock_ns()
        queued_ns = part.queued_ns or [now_ns] * len(requests)
        make, model = self._make_work, self._pushed_model
        works = [
            make(model, request, min(each_ns or now_ns, now_ns))
            for request, each_ns in zip(requests, queued_ns, strict=True)
        ]
        try:
            self._outbox.accept(works)
            with self.mutex:
                if pushed.add(part, works, now_ns):
                    self._thread.wake()
                deadline_ns = pushed.deadline_ns
            if deadline_ns is not None:
                self._expire_at(deadline_ns)
        except BaseException as error:
            self._on_fault("queueing of a batch failed", error)

    def forget(self, message: Forget) -> None:
        """Learn that requests of a batch will not come."""
        pushed = self._pushed
        if pushed is not None:
            with self.mutex:
                if pushed.forget(message):
                    self._thread.wake()

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
        try:
            with self.mutex:
                now_ns = self._clock_ns()
                for work, error in self._scheduler.expire(now_ns):
                    self._settlement.drop(work, error, now_ns)
                if self._pushed is not None:
                    # Batches that have waited for a part go without it.
                    self._thread.wake()
                deadline_ns = self._scheduler.deadline_ns
            self._outbox.flush()
            if deadline_ns is not None:
                self._expire_at(deadline_ns)
        except BaseException as error:
            self._on_fault("expiry of requests failed", error)

    def _post_flush(self) -> None:
        self._post(self._flush)

    def _flush(self) -> None:
        try:
            self._outbox.flush()
        except BaseException as error:
            self._on_fault("delivery of outcomes failed", error)

    # Any thread, without the mutex.

    def knows(self, correlation_id: int | str) -> bool:
        """Whether a sequence of this id goes on here."""
        with self.mutex:
            return self._scheduler.knows(correlation_id)

    def look_again(self) -> None:
        """Let the scheduler notice that a queued request was cancelled, if it waits for more."""
        with self.mutex:
            self._thread.wake()

    def poke(self) -> None:
        """Have the execution thread ask the scheduler again, unless it executes; on any thread."""
        self.look_again()
        self._reactor.interrupt()

    def activity(self) -> Activity:
        """Return what is done now."""
        with self.mutex:
            settlement = self._settlement
            now_ns = self._clock_ns()
            since_ns = self._lead.executing_since_ns
            executing_for_ns = quiet_for_ns = now_ns - since_ns if since_ns else 0
            if self._is_decoupled:
                is_busy = settlement.open_count or since_ns
                is_heard = is_busy and not settlement.held_count
                quiet_for_ns = now_ns - settlement.moved_ns if is_heard else 0
            return Activity(
                self._scheduler.pending_count,
                executing_for_ns,
                quiet_for_ns,
                self._decision_count,
                self._lead.execution_count,
            )

    def observe(self, distributions: Distributions | None) -> None:
        """Note single latencies from now on, or no longer."""
        with self.mutex:
            self._statistics.distributions = distributions

    def statistics(self) -> Snapshot:
        """Return a copy of the counters."""
        with self.mutex:
            return self._statistics.snapshot(self._scheduler.pending_count)

    async def drain(self, timeout_s: float) -> bool:
        """Refuse new requests and wait for those in flight, and for running sequences to end.

        On any event loop.

        Returns:
            Whether every request got its outcome in time.
        """
        with self.mutex:
            self._scheduler.stop()
        try:
            async with asyncio.timeout(timeout_s):
                while self._scheduler.sequence_count:  # noqa: ASYNC110 - see the constant
                    await asyncio.sleep(_SEQUENCES_ENDED_POLL_S)
                if self._outbox.outstanding_count:
                    await self._outbox.wait_idle()
        except TimeoutError:
            return False
        return True

    async def close(self, timeout_s: float) -> bool:
        """End the execution thread; requests still queued fail as UNAVAILABLE. On any event loop.

        Returns:
            Whether the thread ended and closed the instance; False while a model does not return.
        """
        with self.mutex:
            self._scheduler.stop()
            now_ns = self._clock_ns()
            for work in self._scheduler.clear():
                self._settlement.drop(work, UnavailableError(STOPPED), now_ns)
            self.is_closing = True
            self._thread.wake()
        self._post_flush()
        self._reactor.interrupt()
        return await asyncio.to_thread(self._ended.wait, timeout_s)

    # The execution thread's side; implements `deployments.instance.thread.Steps`.

    def run(self) -> None:
        """Execute batches on the calling thread until `close`, then close the instance."""
        try:
            self._thread.run(self)
        except BaseException as error:
            self._on_fault("execution thread died", error)
        else:
            self._close_instance()
        finally:
            self._ended.set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits; read without the mutex, and so only probably true."""
        return not self._scheduler.pending_count

    def decide(self) -> Decision[AnyWork]:
        """Take the next batch from the scheduler, or what is left of the last one."""
        is_due = False
        with self.mutex:
            self._decision_count += 1
            now_ns = self._clock_ns()
            if self._groups:
                decision = self._groups.popleft()
            else:
                decision = self._scheduler.next_batch(now_ns)
                if self._feeder is not None and decision.slots:
                    decision = self._first_group(self._feeder, decision)
            if decision.dropped:
                for work, error in decision.dropped:
                    self._settlement.drop(work, error, now_ns)
            if self._outbox.reports or decision.dropped:
                is_due = self._outbox.claim_flush()
            self._is_executing = bool(decision.batch)
            if decision.batch:
                self._statistics.record_start()
                if self._is_decoupled:
                    self._settlement.open_count += len(decision.batch)
            else:
                self._thread.may_sleep()
        if is_due:
            self._post_flush()
        return decision

    def execute(self, decision: Decision[AnyWork]) -> Execution:
        """Have the model execute a batch."""
        works = decision.batch
        start_ns = self._clock_ns()
        if self._is_decoupled:
            self._settlement.moved_ns = start_ns
            for work in works:
                work.started_ns = start_ns  # type: ignore[union-attr]
        error: TritonError | None = None
        if self._buckets is not None:
            error = pad(self._buckets, works, self._model.name)
        batch = ExecuteBatch(decision.rows or works)
        self._lead.execution_begins(start_ns)
        if error is None:
            error = run_model(self._instance, batch, self._model.name)
        end_ns = self._clock_ns()
        self._lead.execution_ended(end_ns)
        return error, times_of(batch, start_ns, end_ns)

    def settle(self, decision: Decision[AnyWork], execution: Execution) -> None:
        """End the requests of a batch."""
        error, times = execution
        with self.mutex:
            self._settlement.settle(decision, error, times)
            if self._feeder is not None:
                self._feeder.executed(decision.batch, decision.slots)
            self._is_executing = False
            if self._pushed is not None:
                self._pushed.settled(decision, times)
            is_due = self._outbox.claim_flush()
        if is_due:
            self._post_flush()

    def _first_group(
        self, feeder: SequenceFeeder[AnyWork], decision: Decision[AnyWork]
    ) -> Decision[AnyWork]:
        """Feed the requests of sequences; return those of a batch that are executed first."""
        row_count = decision.row_count
        for works, slots in feeder.groups(decision.batch, decision.slots):
            rows = feeder.feed(works, slots, row_count)
            self._groups.append(Decision(works, rows=rows, slots=slots))
        return self._groups.popleft()._replace(dropped=decision.dropped)

    def _close_instance(self) -> None:
        try:
            self._instance.close()
        except Exception:
            _log.exception("model '%s' failed to close", self._model.name)
