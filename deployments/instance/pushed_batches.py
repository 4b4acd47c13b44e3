# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an adopted instance executes: batches that the holder of its pool's queue has formed.

It takes the place of the instance's own scheduler, and implements the same protocol
(`deployments.scheduling.scheduler.Scheduler`), but for `enqueue`: single requests are bounced. It
belongs to the executor's mutex, too.

A request that is to be executed once more is *kept* by its slot until a batch names the slot. Only
the holder that formed the request's last batch can do so. When another one has come meanwhile, the
instance itself executes the request until it is done.

Under the rate limiter each batch is executed under a grant of its own
(`deployments.instance.batch_grants`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from backends.api.errors import RequestCancelledError, TritonError, UnavailableError
from backends.api.model_config import ModelConfig
from backends.api.request import SEQUENCE_START
from deployments.instance.assembly import (
    PART_WAIT_NS,
    SEQUENCE_PART_WAIT_NS,
    Assembly,
    PoolBatch,
)
from deployments.instance.batch_grants import BatchGrants
from deployments.instance.outbox import AnyWork, Outbox
from deployments.instance.pushed_sequences import PushedSequences, slot_count_of
from deployments.lane.batches import BatchPart, Forget
from deployments.metrics.counters import ExecutionTimes
from deployments.scheduling.limited_scheduler import Grant
from deployments.scheduling.scheduler import Decision
from deployments.scheduling.sequence_feeder import SequenceFeeder

# The number of batches that the instance executes by itself, in an epoch that is nobody's.
_OWN: Final = 0

WorkBatch = PoolBatch[AnyWork]


class PushedBatches:
    """The batches of an adopted instance.

    Args:
        config: The model's complete config.
        outbox: Takes the batches that are done, for the holder to be told.
        feeder: Knows the sequences that run here; None where there are none.
        grant: The right to execute, where the rate limiter gives it.
        clock_ns: Monotonic clock.

    Attributes:
        grants: That right, batch by batch.
        pending_count: Requests that have come and are not handed out.
    """

    def __init__(
        self,
        config: ModelConfig,
        outbox: Outbox,
        feeder: SequenceFeeder[AnyWork] | None,
        grant: Grant | None,
        clock_ns: Callable[[], int],
    ) -> None:
        self._sequences = None if feeder is None else PushedSequences(config, feeder)
        self._slot_count = slot_count_of(config)
        self._outbox = outbox
        self.grants = BatchGrants(grant)
        self._assembly: Assembly[AnyWork] = Assembly(
            PART_WAIT_NS if feeder is None else SEQUENCE_PART_WAIT_NS
        )
        self._queue: deque[WorkBatch] = deque()
        self._running: WorkBatch | None = None
        self._handed_out: Iterable[tuple[AnyWork, int]] = ()
        self._kept: dict[int, AnyWork] = {}
        self._clock_ns = clock_ns
        self._quiet_since_ns = clock_ns()
        self.pending_count = 0

    @property
    def running(self) -> dict[int, int | str]:
        """By slot, the sequences that run here."""
        return {} if self._sequences is None else self._sequences.running

    @property
    def coming(self) -> dict[int, int | str]:
        """By slot, the sequences that will run here once all that lies here is executed."""
        if self._sequences is None:
            return {}
        return self._sequences.coming(self._handed_out, self._queue, self._assembly.batches)

    def fits(self, part: BatchPart) -> bool:
        """Whether the slots of a part are this model's."""
        slots = part.slots
        if self._sequences is None:
            return not slots
        highest = max((*slots, *(part.sequences or ())), default=0)
        return len(slots) == part.here_count and highest < self._slot_count

    def is_foreseen(self, part: BatchPart, flags: Iterable[int]) -> bool:
        """Whether the present holder knows what a part that an earlier one has granted does."""
        if self._sequences is None or self._assembly.expects(part):
            return True
        # What goes on finds its sequence, or does not; what starts might end another one.
        starts = any(each & SEQUENCE_START for each in flags)
        return self._assembly.has_given_out(part) and not starts

    # Adoption

    def take_over(self, queued: list[AnyWork], *, is_executing: bool) -> list[AnyWork]:
        """Go on from the instance's own scheduler.

        Args:
            queued: What that one had queued.
            is_executing: Whether a batch of that one is being executed.

        Returns:
            What has not begun: requests that were executed and go on are kept.
        """
        if is_executing:
            self._running = PoolBatch(_OWN, _OWN)
            self.grants.is_busy = True
        self.grants.give_back_unused()
        slots = {correlation_id: slot for slot, correlation_id in self.running.items()}
        rest = []
        for work in queued:
            slot = slots.get(work.correlation_id)
            if slot is not None and work.model.is_iterative and not work.flags:
                self._kept[slot] = work
                del slots[work.correlation_id]
            else:
                rest.append(work)
        return rest

    def adopted(self) -> int:
        """Serve a new holder, and return how many batches it is to wait for."""
        self.grants.decline()
        now_ns = self._clock_ns()
        # The holder lets sequences be quiet from now on, whenever they had their last requests.
        self._quiet_since_ns = now_ns
        self._assembly.hurry(now_ns)
        if self._kept:
            # Their tickets were the last holder's.
            batch: WorkBatch = PoolBatch(_OWN, _OWN)
            batch.slots += self._kept
            batch.items += self._kept.values()
            self._kept.clear()
            self._push(batch)
            self.pending_count += len(batch.items)
        open_batches = [*self._assembly.batches, *self._queue, *self._outbox.reports]
        if self._running is not None:
            open_batches.append(self._running)
        for batch in open_batches:
            batch.is_counted = True
        return sum(not batch.is_late for batch in open_batches)

    # What comes

    def add(self, part: BatchPart, works: Sequence[AnyWork], now_ns: int) -> bool:
        """Take a part of a batch, and return whether there is something to execute."""
        self.pending_count += len(works)
        return self._push(*self._assembly.add(part, works, now_ns))

    def forget(self, message: Forget) -> bool:
        """Learn that requests will not come, and return whether there is something to execute."""
        return self._push(*self._assembly.forget(message))

    def _push(self, *batches: WorkBatch) -> bool:
        for batch in batches:
            self.grants.is_busy = True
            self._queue.append(batch)
            for slot in batch.kept:
                work = self._kept.pop(slot, None)
                if work is not None:
                    batch.items.append(work)
                    batch.slots.append(slot)
                    self.pending_count += 1
        return bool(batches)

    # `deployments.scheduling.scheduler.Scheduler`

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have something to do."""
        return self._assembly.deadline_ns

    @property
    def sequence_count(self) -> int:
        """Sequences that have started and not ended, and batches that may yet start some.

        The holder does not say when one ends because it is idle. So when nothing has been executed
        for as long as that takes, none goes on.
        """
        if self._sequences is None:
            return 0
        incomplete_count = len(self._assembly.batches)
        is_idle = self._running is None and not (self.pending_count or incomplete_count)
        idle_ns = self._sequences.idle_ns
        if is_idle and idle_ns and self._clock_ns() - self._quiet_since_ns >= idle_ns:
            return 0
        return len(self.running) + incomplete_count

    def knows(self, correlation_id: int | str) -> bool:
        """Whether a sequence of this id goes on here."""
        return correlation_id in self.running.values()

    def enqueue(self, item: AnyWork, now_ns: int) -> bool:
        """Take nothing: single requests are the holder's.

        Raises:
            UnavailableError: Always.
        """
        raise UnavailableError("the instance takes batches only; send the request again")

    def next_batch(self, now_ns: int) -> Decision[AnyWork]:
        """Hand out the next batch, less what was cancelled; the one before is done."""
        del now_ns
        dropped: list[tuple[AnyWork, TritonError]] = []
        queue = self._queue
        while queue:
            batch = queue[0]
            self._drop(batch, dropped)
            if not batch.items:
                queue.popleft()
                self._outbox.reports.append(batch)
                continue
            if not self.grants.may_execute():
                return Decision([], None, dropped)
            queue.popleft()
            self.pending_count -= len(batch.items)
            self._running = batch
            works, batch.items = batch.items, []
            slots, batch.slots = batch.slots, []
            if slots:
                self._handed_out = list(zip(works, slots, strict=True))
            rows = min(batch.row_count, self._slot_count)
            return Decision(works, None, dropped, None, slots, rows)
        self.grants.is_busy = False
        self.grants.give_back_unused()
        return Decision([], None, dropped)

    def settled(self, decision: Decision[AnyWork], times: ExecutionTimes, *, is_last: bool) -> None:
        """Learn that what was handed out, here or by the scheduler before, has been executed.

        Args:
            decision: What was executed, perhaps a part of the batch.
            times: When.
            is_last: Whether that was all of it.
        """
        batch = self._running
        if batch is None:
            return
        self._quiet_since_ns = times.end_ns
        batch.execution_ns += times.end_ns - times.start_ns
        for work, slot in zip(decision.batch, decision.slots, strict=False):
            if not work.is_rescheduled:
                continue
            work.is_rescheduled = False
            if batch.is_late or batch.is_counted:
                batch.items.append(work)
                batch.slots.append(slot)
            else:
                self._kept[slot] = work
                batch.rescheduled.append(slot)
        if not is_last:
            return
        self._running = None
        self._handed_out = ()
        if batch.items:
            self.pending_count += len(batch.items)
            self._queue.append(batch)
        else:
            self._outbox.reports.append(batch)
        self.grants.is_busy = bool(self._queue)
        self.grants.executed(is_next=self.grants.is_busy)

    def expire(self, now_ns: int) -> list[tuple[AnyWork, TritonError]]:
        """Wait no longer for parts that should have come; nothing is given up."""
        self._push(*self._assembly.expire(now_ns))
        return []

    def stop(self) -> None:
        """Do nothing: batches that come were granted before."""

    def clear(self) -> list[AnyWork]:
        """Give up everything that is not being executed."""
        self._push(*self._assembly.clear())
        works = [work for batch in self._queue for work in batch.items]
        works += self._kept.values()
        self._queue.clear()
        self._kept.clear()
        self.pending_count = 0
        self.grants.is_busy = self._running is not None
        return works

    def _drop(self, batch: WorkBatch, dropped: list[tuple[AnyWork, TritonError]]) -> None:
        """Take out of a batch what is not to be executed, or not with the rest of it."""
        if self._sequences is not None:
            count = len(batch.items)
            rest = self._sequences.sort_out(batch, dropped)
            self.pending_count -= count - len(batch.items) - len(rest.items)
            if rest.items:
                self._queue.insert(1, rest)
            return
        # Looked at once: a cancel may come from another thread meanwhile.
        gone = [work for work in batch.items if work.is_cancelled]
        if gone:
            dropped += [(work, RequestCancelledError()) for work in gone]
            batch.items = [work for work in batch.items if work not in gone]
            self.pending_count -= len(gone)
