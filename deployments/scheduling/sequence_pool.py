# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Schedules the sequences of a pool, in the two strategies of the sequence batcher.

Both keep a sequence in a slot of one instance and have at most one of its requests executed at a
time, in order. ``DirectSequencePool`` is for models that keep state by row: row k of every batch is
slot k of the instance. ``OldestSequencePool`` (`deployments.scheduling.oldest_sequence_pool`) is
for models that tell sequences apart by their correlation id: it hands one request of each sequence
at a time to a dynamic batcher of its instance. What models are given besides, control inputs and
states, is added where they execute, by a `SequenceFeeder`.

Triton: core/src/sequence_batch_scheduler/sequence_batch_scheduler.cc DirectSequenceBatch,
OldestSequenceBatch @73aad7c. In a direct batch, where shapes differ, Triton goes by the lowest
slot; here the oldest request decides, so that no slot can keep another from running.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence as Items
from typing import Generic

from backends.api.errors import InvalidArgumentError, Phase, TritonError
from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.scheduling.holds import NO_HOLDS, Holds
from deployments.scheduling.pool_scheduler import NO_SEQUENCES, CorrelationId
from deployments.scheduling.scheduler import Decision, SequencedT
from deployments.scheduling.sequence_controls import SequenceControls
from deployments.scheduling.sequence_slots import (
    InstanceSlots,
    Sequence,
    SequenceEvent,
    SequencePhase,
)
from deployments.scheduling.sequences import Sequences

_NS_PER_US = 1000


class SequencePool(ABC, Generic[SequencedT]):
    """What both strategies share."""

    is_shared = False
    is_choosy = False

    def __init__(self, config: ModelConfig, batching: SequenceBatching, slot_count: int) -> None:
        self._model_name = config.name
        self._is_iterative = batching.iterative
        self._controls = SequenceControls(config)
        self._sequences: Sequences[SequencedT] = Sequences(
            config.name,
            slot_count,
            batching.max_sequence_idle_us,
            is_iterative=batching.iterative,
        )

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""
        return self._sequences.queued_count

    @property
    def sequence_count(self) -> int:
        """Sequences that run or wait for a slot."""
        return self._sequences.count

    @property
    def free_slot_count(self) -> int:
        """Slots that are free for the next sequences."""
        return self._sequences.free_slot_count

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have something to give up."""
        return self._sequences.deadline_ns

    @property
    def idle_at_ns(self) -> int | None:
        """When a sequence first goes idle, which `expire` ends."""
        return self._sequences.idle_at_ns

    def knows(self, correlation_id: CorrelationId) -> bool:
        """Whether a sequence of this id is open."""
        return self._sequences.knows(correlation_id)

    def runs_on(self, instance: str) -> int:
        """Return how many sequences run on an instance."""
        home = self._sequences.homes.get(instance)
        return 0 if home is None else home.running_count

    def join(
        self, instance: str, running: Mapping[int, CorrelationId] = NO_SEQUENCES, now_ns: int = 0
    ) -> None:
        """Take an instance in; see `PoolScheduler.join`."""
        for successor in self._sequences.join(instance, running):
            self._advance(successor, now_ns)

    def retire(self, instance: str) -> Items[SequencedT]:
        """Let no sequence start on an instance any more; those that run there go on."""
        return self._sequences.retire(instance)

    def restore(self, instance: str, now_ns: int) -> None:
        """Let sequences start on an instance again."""
        for successor in self._sequences.restore(instance):
            self._advance(successor, now_ns)

    def leave(self, instance: str, now_ns: int) -> list[tuple[SequencedT, TritonError]]:
        """End the sequences of an instance that is gone; return what they had queued."""
        del now_ns
        return [*self._sequences.leave(instance), *self._take_dropped()]

    def enqueue(self, item: SequencedT, now_ns: int) -> bool:
        """Add a request to its sequence; on raise the caller still owns it.

        Returns:
            True: free instances have to ask again.

        Raises:
            InvalidArgumentError: It has more than one row, no correlation id or one of the wrong
                type, or its sequence never started.
            UnavailableError: It would start a sequence, and the scheduler was stopped.
        """
        if item.batch_size > 1:
            raise InvalidArgumentError(
                f"inference request to model '{self._model_name}' must specify batch-size 1 due "
                f"to requirements of sequence batcher",
                Phase.ENQUEUE,
            )
        correlation_id = item.correlation_id
        if correlation_id:
            self._controls.check(correlation_id, item)
        if self._sequences.has_quiet:
            self._reap(now_ns)
        sequence = self._sequences.admit(item, now_ns)
        if sequence.phase is SequencePhase.RUNNING:
            self._advance(sequence, now_ns)
        return True

    def avoid(self, item: SequencedT, instance: str, now_ns: int) -> None:
        """Do nothing: where a request goes is its sequence's."""

    def executed(self, instance: str, batch: Items[SequencedT], now_ns: int) -> None:
        """Go on with the sequences whose requests an instance has executed."""
        del batch
        home = self._sequences.homes.get(instance)
        if home is None:
            return
        if home.adopted:
            self._sequences.rest_adopted(home, now_ns)
        executed, home.executing = home.executing, []
        for sequence in executed:
            item, sequence.in_flight = sequence.in_flight, None
            if item is None:
                continue
            if item.is_rescheduled:
                item.is_rescheduled = False
                item.flags = 0
                self._sequences.put_back(sequence, item)
            elif item.flags & SEQUENCE_END or (self._is_iterative and not sequence.queue):
                self._end(sequence, SequenceEvent.LAST_REQUEST_DONE, now_ns)
                continue
            if sequence.queue:
                self._advance(sequence, now_ns)
            else:
                self._sequences.rest(sequence, now_ns)

    def ended(self, instance: str, sequences: Mapping[int, CorrelationId], now_ns: int) -> None:
        """End sequences that have ended at their instance; see `PoolScheduler.ended`.

        What one has queued is cancelled; from a START on it goes on as another sequence.
        """
        home = self._sequences.homes.get(instance)
        if home is None:
            return
        for slot, correlation_id in sequences.items():
            sequence = home.slots[slot] if slot < len(home.slots) else None
            if sequence is None or sequence.id != correlation_id:
                continue
            if sequence in home.executing:
                home.executing.remove(sequence)
                sequence.in_flight = None
            elif sequence.in_flight is not None:
                # The instance will say the same when it has come there.
                continue
            if self._sequences.cut(sequence):
                self._advance(sequence, now_ns)
            else:
                self._end(sequence, SequenceEvent.CANCELLED, now_ns)

    def missed(self, instance: str, items: Items[SequencedT]) -> None:
        """Learn that requests do not come to their instance; see `PoolScheduler.missed`."""
        home = self._sequences.homes.get(instance)
        for sequence in [] if home is None else home.executing:
            item = sequence.in_flight
            if item is None or item not in items:
                continue
            if item.flags & SEQUENCE_START and not sequence.queue:
                # Nothing of it has come there: it starts again wherever there is a slot then.
                item.flags |= SEQUENCE_END
                self._sequences.disown(sequence)
            elif item.flags & SEQUENCE_END:
                item.flags &= ~SEQUENCE_END
                self._sequences.reopen(sequence)

    def expire(self, now_ns: int) -> list[tuple[SequencedT, TritonError]]:
        """Give up sequences that are idle or have waited too long for a slot."""
        self._reap(now_ns)
        self._sequences.expire(now_ns)
        return self._take_dropped()

    def give_up(self, item: SequencedT) -> bool:
        """Forget a sequence that waits for a slot; see `PoolScheduler.give_up`."""
        return self._sequences.give_up(item)

    def stop(self) -> None:
        """Let no sequence start; those that run may go on."""
        self._sequences.is_stopped = True

    @abstractmethod
    def has_work(self, instance: str) -> bool:
        """Whether something waits that an instance might execute."""

    @abstractmethod
    def next_batch(self, instance: str, now_ns: int) -> Decision[SequencedT]:
        """Decide for an instance that is free."""

    @abstractmethod
    def clear(self) -> list[SequencedT]:
        """Give up everything queued."""

    @abstractmethod
    def _advance(self, sequence: Sequence[SequencedT], now_ns: int) -> None:
        """Do what can be done for a running sequence that may have something queued."""

    def _end(self, sequence: Sequence[SequencedT], event: SequenceEvent, now_ns: int) -> None:
        successor = self._sequences.end(sequence, event)
        if successor is not None:
            self._advance(successor, now_ns)

    def _reap(self, now_ns: int) -> None:
        for successor in self._sequences.reap(now_ns):
            self._advance(successor, now_ns)

    def _take_dropped(self) -> list[tuple[SequencedT, TritonError]]:
        dropped, self._sequences.dropped = self._sequences.dropped, []
        return dropped

    def _wake_at_ns(self, at_ns: int | None) -> int | None:
        idle_ns = self._sequences.idle_at_ns
        if at_ns is None or idle_ns is None:
            return idle_ns if at_ns is None else at_ns
        return min(at_ns, idle_ns)


class DirectSequencePool(SequencePool[SequencedT]):
    """Row k of every batch is slot k.

    Args:
        config: The model's config; there is a slot for each row of its largest batch.
        batching: Its sequence batcher.
        holds: What is to be queued before anything is executed.
    """

    def __init__(
        self, config: ModelConfig, batching: SequenceBatching, holds: Holds = NO_HOLDS
    ) -> None:
        slot_count = max(1, config.max_batch_size)
        super().__init__(config, batching, slot_count)
        # Without a utilisation to wait for, the delay means nothing.
        self._wanted_count = batching.minimum_slot_utilization * slot_count
        self._delay_ns = batching.max_queue_delay_us * _NS_PER_US if self._wanted_count else 0
        self._holds = holds
        self._is_held = holds.delay_count > 0

    def has_work(self, instance: str) -> bool:
        """Whether something waits that an instance might execute."""
        return self._sequences.homes[instance].queued_count > 0

    def next_batch(self, instance: str, now_ns: int) -> Decision[SequencedT]:
        """Decide for an instance that is free."""
        if self._sequences.has_quiet:
            self._reap(now_ns)
        home = self._sequences.homes[instance]
        ready = self._ready(home)
        if [each for each in ready if each.queue[0].is_cancelled]:
            for sequence in ready:
                self._drop_cancelled(sequence)
            ready = self._ready(home)
        dropped = self._take_dropped()
        if not ready or (self._is_held and self._holds_back()):
            return Decision([], self._wake_at_ns(None), dropped)
        lead = ready[0] if len(ready) == 1 else min(ready, key=_arrival)
        if self._delay_ns and len(ready) < self._wanted_count:
            due_ns = _arrival(lead) + self._delay_ns
            if now_ns < due_ns:
                return Decision([], self._wake_at_ns(due_ns), dropped)
        signature = lead.queue[0].signature
        chosen = [each for each in ready if each.queue[0].signature == signature]
        batch = [self._sequences.take(each) for each in chosen]
        home.executing = chosen
        slots = [each.slot for each in chosen]
        return Decision(batch, None, dropped, None, slots, ready[-1].slot + 1)

    def clear(self) -> list[SequencedT]:
        """Give up everything queued."""
        return self._sequences.clear()

    def _advance(self, sequence: Sequence[SequencedT], now_ns: int) -> None:
        # What is queued in a slot is looked at when a batch forms.
        pass

    def _ready(self, home: InstanceSlots[SequencedT]) -> list[Sequence[SequencedT]]:
        if not home.queued_count:
            return []
        return [slot for slot in home.slots if slot is not None and slot.queue]

    def _drop_cancelled(self, sequence: Sequence[SequencedT] | None) -> None:
        """End a sequence whose next request was cancelled, and its successors likewise."""
        while sequence is not None and sequence.queue and sequence.queue[0].is_cancelled:
            sequence = self._sequences.end(sequence, SequenceEvent.CANCELLED)

    def _holds_back(self) -> bool:
        slot_count = sum(home.queued_count for home in self._sequences.homes.values())
        backlog_count = self._sequences.queued_count - slot_count
        delay, backlog = self._holds
        self._is_held = slot_count < delay or backlog_count < backlog
        return self._is_held


def _arrival(sequence: Sequence[SequencedT]) -> int:
    return sequence.queue[0].enqueue_ns
