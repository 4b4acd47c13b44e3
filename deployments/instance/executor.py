# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs one model instance: takes requests from lanes, batches them, answers them.

Whoever turns the reactor hands over whatever one socket read brought (`Executor.received`). The
execution thread (`Executor.run`) asks the scheduler for the next batch as soon as it has finished
one, so no batch waits for a loop. Outcomes go to the lanes through `deployments.instance.outbox`.

From `received` on, the executor owes each request exactly one terminal outcome. The scheduler, the
outbox and the statistics belong to ``mutex``. Nothing keeps a request alive after its outcome: its
inputs may be views into a sender's shared memory.

What a model raises fails its batch. So does an error in padding its inputs, which comes before the
model and the scheduler's books are touched. Any other error here leaves books of which nobody knows
whether they are right: it is a fault, which ends the process, and the lanes' ends have routers send
unanswered requests elsewhere.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from backends.api.backend import ExecuteBatch, ModelInstance
from backends.api.errors import TritonError, UnavailableError
from backends.api.model_config import ModelConfig
from deployments.instance.crash_page import CrashPage
from deployments.instance.fed_groups import FedGroups
from deployments.instance.lead import Lead
from deployments.instance.model_execution import close_model, pad, run_model
from deployments.instance.outbox import AnyWork, Outbox
from deployments.instance.process_load import Activity
from deployments.instance.pushed_batches import PushedBatches
from deployments.instance.settlement import Settlement
from deployments.instance.thread import ExecutionThread
from deployments.instance.work import ExecutedModel, StreamWork, UnaryWork
from deployments.lane.server_request import ServerRequest
from deployments.metrics.counters import (
    ExecutionTimes,
    FailureReason,
    InstanceStatistics,
    Snapshot,
    times_of,
)
from deployments.metrics.distributions import Distributions
from deployments.pool_queue.alarm import Alarm, LoopClock
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

# What an execution failed with, and when it ran.
Execution = tuple[TritonError | None, ExecutionTimes]

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

    Attributes:
        mutex: See above.
        model: What all requests share.
        outbox: Outcomes on their way.
        feeder: Gives requests of sequences their controls and states; None where none do.
        make_work: Makes what is executed of a model, a request and its time of arrival.
        grant: The right to execute, where the rate limiter gives it.
        crash_page: Where it notes what it executes; None where nobody reads that.

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
        self.model = ExecutedModel(config, version, make_signature(config, buckets), buckets)
        self._instance = instance
        self._lead = lead
        self._reactor = lead.reactor
        self._post = lead.reactor.call_soon_threadsafe
        self.clock_ns = clock_ns
        self._on_fault = lead.on_fault
        self._is_decoupled = config.decoupled
        # Guarded by the mutex.
        self.mutex = threading.Lock()
        self._scheduler: Scheduler[AnyWork] = make_scheduler(config, *conditions)
        self.grant = conditions.grant
        self._statistics = statistics or InstanceStatistics()
        self.outbox = Outbox(config.name, self.mutex, lead.reactor)
        self._settlement = Settlement(
            config.name, self.mutex, self._statistics, self.outbox, self._post_flush, clock_ns
        )
        self.make_work: Callable[[ExecutedModel, ServerRequest, int], AnyWork] = UnaryWork
        if config.decoupled:
            self.make_work = partial(StreamWork, self._settlement)
        # Of an adopted instance; its scheduler, too.
        self._pushed: PushedBatches | None = None
        self._is_executing = False
        self._decision_count = 0
        # Whether the thread shall end once there is nothing to execute.
        self.is_closing = False
        self._worker_thread = ExecutionThread(lead, self.mutex, clock_ns)
        self._ended = threading.Event()
        self.feeder: SequenceFeeder[AnyWork] | None = make_feeder(config, state_files or {})
        self._groups = None if self.feeder is None else FedGroups(self.feeder)
        self.crash_page: CrashPage | None = None
        # Owned by the thread that turns the reactor.
        self._expiry = Alarm(LoopClock(lead.reactor, clock_ns), self._expire)

    # The side of the thread that turns the reactor.

    def received(self, requests: Sequence[ServerRequest]) -> None:
        """Take requests; each gets its outcome later, or now when it cannot be queued."""
        now_ns = self.clock_ns()
        make, model = self.make_work, self.model
        # What is raised so far concerns requests of which nothing is noted yet.
        works = [make(model, lane, now_ns - lane.request.waited_ns) for lane in requests]
        try:
            self._enqueue(works, now_ns)
        except BaseException as error:
            self._on_fault("queueing of requests failed", error)

    def _enqueue(self, works: list[AnyWork], now_ns: int) -> None:
        self.outbox.accept(works)
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
                self._worker_thread.wake()
            deadline_ns = self._scheduler.deadline_ns
        if deadline_ns is not None:
            self._expiry.set(deadline_ns)
        for work, error in refused:
            work.is_closed = True
            self.outbox.deliver(work, error, final=True)

    def replace_scheduler(self, pushed: PushedBatches) -> list[AnyWork]:
        """Execute pushed batches only from now on; the mutex is held.

        Returns:
            What was queued and has not begun; the caller ends it.
        """
        queued = self._scheduler.clear()
        self._scheduler = self._pushed = pushed
        return pushed.take_over(queued, is_executing=self._is_executing)

    def queue(self, works: Sequence[AnyWork], enqueue: Callable[[], bool]) -> None:
        """Take requests of pushed batches; each gets its outcome later.

        Args:
            works: The requests.
            enqueue: Queues them and returns whether there is something to execute; called with the
                mutex held.
        """
        try:
            self.outbox.accept(works)
            with self.mutex:
                if self.is_closing:
                    for work in works:
                        self._settlement.drop(work, UnavailableError(STOPPED), work.enqueue_ns)
                elif enqueue():
                    self._worker_thread.wake()
                deadline_ns = self._scheduler.deadline_ns
            self._expiry.set(deadline_ns)
            if self.is_closing:
                self.outbox.flush()
        except BaseException as error:
            self._on_fault("queueing of a batch failed", error)

    def _expire(self) -> None:
        """Drop requests whose time is over, though the model may be busy."""
        try:
            with self.mutex:
                now_ns = self.clock_ns()
                for work, error in self._scheduler.expire(now_ns):
                    self._settlement.drop(work, error, now_ns)
                if self._pushed is not None:
                    # Batches that have waited for a part go without it.
                    self._worker_thread.wake()
                deadline_ns = self._scheduler.deadline_ns
            self.outbox.flush()
            self._expiry.set(deadline_ns)
        except BaseException as cause:
            self._on_fault("expiry of requests failed", cause)

    def _post_flush(self) -> None:
        self._post(self._flush)

    def _flush(self) -> None:
        try:
            self.outbox.flush()
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
            self._worker_thread.wake()

    def poke(self) -> None:
        """Have the execution thread ask the scheduler again, unless it executes; on any thread."""
        self.look_again()
        self._reactor.interrupt()

    def activity(self) -> Activity:
        """Return what is done now."""
        with self.mutex:
            settlement = self._settlement
            now_ns = self.clock_ns()
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
                # One may begin with a request that was under way.
                while self._scheduler.sequence_count or self.outbox.outstanding_count:
                    if self._scheduler.sequence_count:
                        await asyncio.sleep(_SEQUENCES_ENDED_POLL_S)
                    else:
                        await self.outbox.wait_idle()
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
            now_ns = self.clock_ns()
            for work in self._scheduler.clear():
                self._settlement.drop(work, UnavailableError(STOPPED), now_ns)
            self.is_closing = True
            self._worker_thread.wake()
        self._post_flush()
        self._reactor.interrupt()
        return await asyncio.to_thread(self._ended.wait, timeout_s)

    # The execution thread's side; `ExecutionThread` calls it.

    def run(self) -> None:
        """Execute batches on the calling thread until `close`, then close the instance."""
        try:
            self._worker_thread.run(self)
        except BaseException as error:
            self._on_fault("execution thread died", error)
        else:
            close_model(self._instance, self.model.name)
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
            now_ns = self.clock_ns()
            groups = self._groups
            if groups is None or groups.is_empty:
                decision = self._scheduler.next_batch(now_ns)
                if groups is not None and decision.slots:
                    decision = groups.begin(decision)
            else:
                decision = groups.next()
            if decision.dropped:
                for work, error in decision.dropped:
                    self._settlement.drop(work, error, now_ns)
            if self.outbox.reports or decision.dropped:
                is_due = self.outbox.claim_flush()
            self._is_executing = bool(decision.batch)
            if decision.batch:
                self._statistics.record_start()
                if self._is_decoupled:
                    self._settlement.open_count += len(decision.batch)
            else:
                self._worker_thread.may_sleep()
        if is_due:
            self._post_flush()
        return decision

    def execute(self, decision: Decision[AnyWork]) -> Execution:
        """Have the model execute a batch."""
        works = decision.batch
        start_ns = self.clock_ns()
        if self._is_decoupled:
            self._settlement.moved_ns = start_ns
            for work in works:
                work.started_ns = start_ns  # type: ignore[union-attr]
        error: TritonError | None = None
        if self._buckets is not None:
            error = pad(self._buckets, works, self.model.name)
        batch = ExecuteBatch(decision.rows or works)
        if self.crash_page is not None:
            self.crash_page.note(works)
        self._lead.execution_begins(start_ns)
        if error is None:
            error = run_model(self._instance, batch, self.model.name)
        end_ns = self.clock_ns()
        self._lead.execution_ended(end_ns)
        return error, times_of(batch, start_ns, end_ns)

    def settle(self, decision: Decision[AnyWork], execution: Execution) -> None:
        """End the requests of a batch."""
        error, times = execution
        with self.mutex:
            self._settlement.settle(decision, error, times)
            is_last = True
            if self._groups is not None:
                self._groups.executed(decision)
                is_last = self._groups.is_empty
            self._is_executing = not is_last
            if self._pushed is not None:
                self._pushed.settled(decision, times, is_last=is_last)
            is_due = self.outbox.claim_flush()
        if is_due:
            self._post_flush()
