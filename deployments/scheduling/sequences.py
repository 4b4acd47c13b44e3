# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The sequences of a pool: which slot each has, which wait, which have gone quiet.

A sequence runs in a slot of one instance from its first request until its last one was executed, or
waits in the backlog for a slot on any instance: while one waits, no slot is free. Its id leads to
it until its END request has come; after that another sequence may start under the same id.

Of the free slots, the one with the lowest number is taken first, so that the instances' batches
grow alike and stay small.

Triton: core/src/sequence_batch_scheduler/sequence_batch_scheduler.cc Enqueue, ReleaseSequenceSlot,
ReaperThread; its BatcherSequenceSlotCompare leaves open which of two instances comes first, here it
is the one with more free slots @73aad7c. There a sequence goes idle from the arrival of its last
request, even while that is queued or executed; here from when nothing of it is queued or executed
any more.
"""

import heapq
import logging
from collections.abc import Mapping
from typing import Generic

from backends.api.errors import (
    InvalidArgumentError,
    Phase,
    RequestCancelledError,
    TritonError,
    UnavailableError,
)
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.scheduling.pool_scheduler import CorrelationId
from deployments.scheduling.scheduler import STOPPED, SequencedT
from deployments.scheduling.sequence_backlog import SequenceBacklog
from deployments.scheduling.sequence_slots import (
    InstanceSlots,
    Sequence,
    SequenceEvent,
    SequencePhase,
)

_log = logging.getLogger(__name__)

_NS_PER_US = 1000
# Of sequences that ended with their instance, so many are told so.
_MOST_LOST = 10_000
_TIMED_OUT = "timeout of the corresponding sequence has been expired"


class Sequences(Generic[SequencedT]):
    """All sequences of a pool.

    Args:
        model_name: For messages.
        slot_count: How many sequences run at a time on each instance.
        idle_us: How long a sequence may be quiet; 0 means for ever.
        is_iterative: Whether requests without a correlation id are sequences of their own.

    Attributes:
        homes: The slots of each instance, by its name.
        dropped: Requests that left with an error; whoever looks at them empties the list.
        is_stopped: Whether no sequence may start any more.
        queued_count: Requests of all sequences that no one has begun to batch.
    """

    def __init__(
        self, model_name: str, slot_count: int, idle_us: int, *, is_iterative: bool = False
    ) -> None:
        self.homes: dict[str, InstanceSlots[SequencedT]] = {}
        self.dropped: list[tuple[SequencedT, TritonError]] = []
        self.is_stopped = False
        self.queued_count = 0
        self._model_name = model_name
        self._slot_count = slot_count
        self._idle_ns = idle_us * _NS_PER_US
        self._is_iterative = is_iterative
        self._last_own_id = 0
        self._backlog: SequenceBacklog[SequencedT] = SequenceBacklog()
        self._open: dict[CorrelationId, Sequence[SequencedT]] = {}
        self._lost: dict[CorrelationId, None] = {}
        # Since when each running sequence is quiet, the longest first.
        self._quiet: dict[Sequence[SequencedT], int] = {}

    @property
    def count(self) -> int:
        """Sequences that run or wait for a slot."""
        return sum(home.running_count for home in self.homes.values()) + self._backlog.count

    @property
    def free_slot_count(self) -> int:
        """Slots that are free for the next sequences."""
        return sum(len(home.free) for home in self.homes.values() if not home.is_retired)

    @property
    def deadline_ns(self) -> int | None:
        """When the first sequence of the backlog times out."""
        return self._backlog.deadline_ns

    @property
    def idle_at_ns(self) -> int | None:
        """When the longest quiet sequence becomes idle."""
        if not self._idle_ns or not self._quiet:
            return None
        return next(iter(self._quiet.values())) + self._idle_ns

    @property
    def has_quiet(self) -> bool:
        """Whether a sequence may go idle."""
        return bool(self._quiet)

    def knows(self, correlation_id: CorrelationId) -> bool:
        """Whether a sequence of this id is open."""
        return correlation_id in self._open

    # Instances

    def join(self, name: str, running: Mapping[int, CorrelationId]) -> list[Sequence[SequencedT]]:
        """Take an instance in; return the sequences of the backlog that got its slots.

        A sequence that has started elsewhere meanwhile does not go on here.
        """
        home: InstanceSlots[SequencedT] = InstanceSlots(name, self._slot_count)
        self.homes[name] = home
        for slot, correlation_id in sorted(running.items()):
            if slot < self._slot_count and correlation_id not in self._open:
                home.free.remove(slot)
                sequence: Sequence[SequencedT] = Sequence(correlation_id)
                self._open[correlation_id] = sequence
                self._run_in(sequence, home, slot)
                home.adopted.append(sequence)
        heapq.heapify(home.free)
        return self._fill(home)

    def retire(self, name: str) -> list[SequencedT]:
        """Let no sequence start on an instance any more.

        Returns:
            What waits for a slot, given up, when no instance is left that gives any.
        """
        self.homes[name].is_retired = True
        items: list[SequencedT] = []
        if all(home.is_retired for home in self.homes.values()):
            while (sequence := self._backlog.pop()) is not None:
                items += self._leave(sequence, SequenceEvent.CANCELLED)
        return items

    def restore(self, name: str) -> list[Sequence[SequencedT]]:
        """Let sequences start again on an instance; return those that got its slots."""
        home = self.homes[name]
        home.is_retired = False
        return self._fill(home)

    def _fill(self, home: InstanceSlots[SequencedT]) -> list[Sequence[SequencedT]]:
        successors = []
        while home.free and (successor := self._successor()) is not None:
            self._run_in(successor, home, heapq.heappop(home.free))
            successors.append(successor)
        return successors

    def leave(self, name: str) -> list[tuple[SequencedT, TritonError]]:
        """Forget an instance and end its sequences; return what they had queued."""
        gone = self.homes[name]
        left: list[tuple[SequencedT, TritonError]] = []
        for sequence in gone.running:
            error = self.loss(sequence.id)
            if self._open.get(sequence.id) is sequence:
                self._note_lost(sequence.id)
            left += [(item, error) for item in self._leave(sequence, SequenceEvent.INSTANCE_GONE)]
        del self.homes[name]
        return left

    def loss(self, correlation_id: CorrelationId) -> UnavailableError:
        """Return what ends the requests of a sequence whose instance is gone."""
        return UnavailableError(
            f"sequence {correlation_id} of model '{self._model_name}' ended with its instance; "
            f"start the sequence again"
        )

    def _note_lost(self, correlation_id: CorrelationId) -> None:
        self._lost[correlation_id] = None
        if len(self._lost) > _MOST_LOST:
            del self._lost[next(iter(self._lost))]

    # Requests

    def admit(self, item: SequencedT, now_ns: int) -> Sequence[SequencedT]:
        """Add a request to its sequence, which it may start.

        Raises:
            InvalidArgumentError: It has no correlation id, or its sequence never started.
            UnavailableError: It would start a sequence, and the scheduler was stopped; or its
                sequence ended with an instance.
        """
        correlation_id = item.correlation_id or self._give_id(item)
        flags = item.flags
        is_start = flags & SEQUENCE_START
        if is_start and self.is_stopped:
            raise UnavailableError(STOPPED)
        sequence = self._open.get(correlation_id)
        if sequence is None:
            if not is_start:
                if correlation_id in self._lost:
                    raise self.loss(correlation_id)
                raise not_started(correlation_id, self._model_name)
            self._lost.pop(correlation_id, None)
            sequence = self._start(correlation_id, item)
        elif is_start:
            _log.warning(
                "sequence %s for model '%s' has a conflict. The previous sequence did not end "
                "before this sequence start. Previous sequence will be terminated early.",
                correlation_id,
                self._model_name,
            )
        sequence.queue.append(item)
        self.queued_count += 1
        if sequence.phase is SequencePhase.RUNNING:
            sequence.home.queued_count += 1
            self._quiet.pop(sequence, None)
            if item.tenant and not sequence.tenant:
                self._backlog.belongs(sequence, item.tenant)
        elif item.timeout_us:
            self._backlog.expire_at(sequence, now_ns + item.timeout_us * _NS_PER_US)
        if flags & SEQUENCE_END:
            del self._open[correlation_id]
        return sequence

    def take(self, sequence: Sequence[SequencedT]) -> SequencedT:
        """Take the next request of a sequence, to be batched."""
        self.queued_count -= 1
        sequence.home.queued_count -= 1
        item = sequence.in_flight = sequence.queue.popleft()
        return item

    def put_back(self, sequence: Sequence[SequencedT], item: SequencedT) -> None:
        """Queue a request of a sequence before its others, to be executed again."""
        self._count(sequence, 1)
        sequence.queue.appendleft(item)

    def rest(self, sequence: Sequence[SequencedT], now_ns: int) -> None:
        """Note that nothing of a running sequence is queued or executed any more."""
        self._quiet[sequence] = now_ns

    def rest_adopted(self, home: InstanceSlots[SequencedT], now_ns: int) -> None:
        """Note that an instance executes nothing any more that it had before it joined."""
        adopted, home.adopted = home.adopted, []
        for sequence in adopted:
            is_running = sequence.phase is SequencePhase.RUNNING
            if is_running and not sequence.queue and sequence.in_flight is None:
                self.rest(sequence, now_ns)

    def reopen(self, sequence: Sequence[SequencedT]) -> None:
        """Have requests of its id lead to a sequence again whose END request comes once more."""
        self._open.setdefault(sequence.id, sequence)

    def disown(self, sequence: Sequence[SequencedT]) -> None:
        """Have requests of its id lead to a sequence no more that ends with what is executed."""
        if self._open.get(sequence.id) is sequence:
            del self._open[sequence.id]

    # Ends of sequences

    def cut(self, sequence: Sequence[SequencedT]) -> bool:
        """Cancel what a running sequence has queued before it starts again.

        Returns:
            Whether it does.
        """
        queue = sequence.queue
        while queue and not queue[0].flags & SEQUENCE_START:
            self._count(sequence, -1)
            self.dropped.append((queue.popleft(), RequestCancelledError()))
        return bool(queue)

    def end(
        self, sequence: Sequence[SequencedT], event: SequenceEvent
    ) -> Sequence[SequencedT] | None:
        """End a running sequence; what it has queued is cancelled.

        Returns:
            The sequence that has its slot now, if one waited.
        """
        home, slot = sequence.home, sequence.slot
        self._cancel(sequence, event)
        successor = None if home.is_retired else self._successor()
        if successor is None:
            home.slots[slot] = None
            heapq.heappush(home.free, slot)
        else:
            self._run_in(successor, home, slot)
        return successor

    def reap(self, now_ns: int) -> list[Sequence[SequencedT]]:
        """End the sequences that have been idle; return those that got their slots."""
        successors = []
        while (idle_at_ns := self.idle_at_ns) is not None and idle_at_ns <= now_ns:
            successor = self.end(next(iter(self._quiet)), SequenceEvent.IDLE)
            if successor is not None:
                successors.append(successor)
        return successors

    def expire(self, now_ns: int) -> None:
        """Drop the sequences that have waited too long for a slot."""
        while (sequence := self._backlog.pop_expired(now_ns)) is not None:
            items = self._leave(sequence, SequenceEvent.TIMED_OUT)
            self.dropped += [(item, UnavailableError(_TIMED_OUT)) for item in items]

    def give_up(self, item: SequencedT) -> bool:
        """Forget a sequence of the backlog, if nothing of it is here but this request.

        Returns:
            Whether it was so.
        """
        for sequence in self._backlog.sequences():
            queue = sequence.queue
            if len(queue) == 1 and queue[0] is item:
                self._backlog.remove(sequence)
                self._leave(sequence, SequenceEvent.CANCELLED)
                return True
        return False

    def clear(self) -> list[SequencedT]:
        """Forget every sequence and give up what they have queued."""
        items = [item for item, _ in self.dropped]
        running = [sequence for home in self.homes.values() for sequence in home.running]
        for sequence in [*running, *self._backlog.sequences()]:
            items += self._empty(sequence)
        self.dropped = []
        self._backlog.clear()
        self._open.clear()
        self._quiet.clear()
        for home in self.homes.values():
            home.slots = [None] * self._slot_count
            home.free = list(range(self._slot_count))
            home.executing = []
            home.adopted = []
        return items

    def _give_id(self, item: SequencedT) -> CorrelationId:
        if not self._is_iterative:
            raise InvalidArgumentError(
                f"inference request to model '{self._model_name}' must specify a non-zero or "
                f"non-empty correlation ID",
                Phase.ENQUEUE,
            )
        while True:
            self._last_own_id += 1
            if self._last_own_id not in self._open:
                break
        item.correlation_id = self._last_own_id
        item.flags = SEQUENCE_START
        return self._last_own_id

    def _start(self, correlation_id: CorrelationId, item: SequencedT) -> Sequence[SequencedT]:
        sequence: Sequence[SequencedT] = Sequence(correlation_id, item.tenant, item.weight)
        self._open[correlation_id] = sequence
        best: InstanceSlots[SequencedT] | None = None
        for home in self.homes.values():
            if home.free and not home.is_retired and (best is None or home.rank < best.rank):
                best = home
        if best is None:
            self._backlog.add(sequence)
        else:
            self._run_in(sequence, best, heapq.heappop(best.free))
        return sequence

    def _successor(self) -> Sequence[SequencedT] | None:
        """Return the sequence whose turn it is, which waits no more."""
        while (successor := self._backlog.pop()) is not None:
            if not any(item.is_cancelled for item in successor.queue):
                return successor
            self._cancel(successor, SequenceEvent.CANCELLED)
        return None

    def _run_in(
        self, sequence: Sequence[SequencedT], home: InstanceSlots[SequencedT], slot: int
    ) -> None:
        sequence.move(SequenceEvent.SLOT_FREE)
        sequence.home = home
        sequence.slot = slot
        home.slots[slot] = sequence
        home.queued_count += len(sequence.queue)
        self._backlog.started(sequence)

    def _cancel(self, sequence: Sequence[SequencedT], event: SequenceEvent) -> None:
        items = self._leave(sequence, event)
        self.dropped += [(item, RequestCancelledError()) for item in items]

    def _leave(self, sequence: Sequence[SequencedT], event: SequenceEvent) -> list[SequencedT]:
        """End a sequence and return what it had queued."""
        items = self._empty(sequence)
        if sequence.phase is SequencePhase.RUNNING:
            self._backlog.ended(sequence)
        sequence.move(event)
        self._quiet.pop(sequence, None)
        if self._open.get(sequence.id) is sequence:
            del self._open[sequence.id]
        return items

    def _empty(self, sequence: Sequence[SequencedT]) -> list[SequencedT]:
        items = list(sequence.queue)
        sequence.queue.clear()
        self._count(sequence, -len(items))
        return items

    def _count(self, sequence: Sequence[SequencedT], more: int) -> None:
        self.queued_count += more
        if sequence.phase is SequencePhase.RUNNING:
            sequence.home.queued_count += more


def not_started(correlation_id: int | str, model_name: str) -> InvalidArgumentError:
    """Return the error of a request whose sequence goes on nowhere."""
    return InvalidArgumentError(
        f"inference request for sequence {correlation_id} to model '{model_name}' "
        f"must specify the START flag on the first request of the sequence",
        Phase.ENQUEUE,
    )
