# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The sequence batcher, in its two strategies.

Both keep a sequence in a slot and execute at most one of its requests at a time, in order.
``DirectSequenceBatcher`` is for models that keep state by row: row k of every batch is slot k, and
rows of slots that have nothing to run are filled with null requests whose READY control is off.
``OldestSequenceBatcher`` is for models that tell sequences apart by their correlation id: it hands
one request of each sequence at a time to a dynamic batcher.

A decision is only asked for when the instance is free, so asking says that the requests of the last
decision have been executed.

Triton: core/src/sequence_batch_scheduler/sequence_batch_scheduler.cc DirectSequenceBatch,
OldestSequenceBatch @73aad7c. In a direct batch, where shapes differ, Triton goes by the lowest
slot; here the oldest request decides, so that no slot can keep another from running.
"""

from abc import ABC, abstractmethod
from typing import Generic, NamedTuple

from backends.api.backend import ExecuteRequest
from backends.api.errors import InvalidArgumentError, Phase, TritonError
from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_START, InferenceRequest, InferenceResponse
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.scheduler import Decision
from deployments.scheduling.sequence_controls import (
    SequenceControls,
    SequenceStates,
    StateRules,
    null_tensor,
)
from deployments.scheduling.sequences import (
    CorrelationId,
    Item,
    Sequence,
    SequenceEvent,
    SequencePhase,
    Sequences,
    is_last,
)

_NS_PER_US = 1000


class _WithStates(NamedTuple):
    """A signature where the states' shapes count too."""

    inputs: object
    shapes: tuple[tuple[int, ...], ...]


class NullRequest:
    """Fills the row of a slot that has nothing to run; its answer goes nowhere."""

    __slots__ = ("is_cancelled", "request")

    def __init__(self, like: InferenceRequest, input_count: int) -> None:
        inputs = [null_tensor(tensor) for tensor in like.inputs[:input_count]]
        self.request = InferenceRequest(
            like.model_name, like.model_version, inputs=inputs, outputs=like.outputs
        )
        self.is_cancelled = False

    def respond(self, response: InferenceResponse | None, *, final: bool = True) -> None:
        """Take a response nobody waits for."""

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error nobody waits for."""

    def reschedule(self) -> None:
        """Take a wish that means nothing here."""


class _SequenceBatcher(ABC, Generic[Item]):
    """What both strategies share."""

    def __init__(
        self,
        config: ModelConfig,
        batching: SequenceBatching,
        slot_count: int,
        states: StateRules | None,
    ) -> None:
        self._model_name = config.name
        self._is_iterative = batching.iterative
        self._controls = SequenceControls(config)
        # Inputs added to each request, for one that is executed again to lose.
        self._fed_count = self._controls.count + (0 if states is None else len(states.initial))
        self._sequences: Sequences[Item] = Sequences(
            config.name,
            slot_count,
            batching.max_sequence_idle_us,
            None if states is None else lambda: SequenceStates(states),
            is_iterative=batching.iterative,
        )
        self._executing: list[Sequence[Item]] = []

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""
        return self._sequences.queued_count

    @property
    def sequence_count(self) -> int:
        """Sequences that run or wait for a slot."""
        return self._sequences.count

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have something to give up."""
        return self._sequences.deadline_ns

    def knows(self, correlation_id: CorrelationId) -> bool:
        """Whether a sequence of this id is open."""
        return self._sequences.knows(correlation_id)

    def enqueue(self, item: Item, now_ns: int) -> bool:
        """Add a request to its sequence; on raise the caller still owns it.

        Returns:
            True: a waiting executor has to ask again.

        Raises:
            InvalidArgumentError: It has more than one row, no correlation id or one of the wrong
                type, or its sequence never started.
            UnavailableError: It would start a sequence, and the batcher was stopped.
        """
        if item.batch_size > 1:
            raise InvalidArgumentError(
                f"inference request to model '{self._model_name}' must specify batch-size 1 due "
                f"to requirements of sequence batcher",
                Phase.ENQUEUE,
            )
        if item.request.correlation_id:
            self._controls.check(item.request)
        self._reap(now_ns)
        sequence = self._sequences.admit(item, now_ns)
        if sequence.phase is SequencePhase.RUNNING:
            self._advance(sequence, now_ns)
        return True

    def expire(self, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Give up sequences that have waited too long for a slot."""
        self._sequences.expire(now_ns)
        return self._take_dropped()

    def stop(self) -> None:
        """Let no sequence start; those that run may go on."""
        self._sequences.is_stopped = True

    @abstractmethod
    def next_batch(self, now_ns: int) -> Decision[Item]:
        """Decide for an instance that is free: what it executed before is done."""

    @abstractmethod
    def _advance(self, sequence: Sequence[Item], now_ns: int) -> None:
        """Do what can be done for a running sequence that may have something queued."""

    def _complete(self, now_ns: int) -> None:
        """Go on with the sequences whose requests have been executed."""
        executed, self._executing = self._executing, []
        for sequence in executed:
            item, sequence.in_flight = sequence.in_flight, None
            if item is None:
                continue
            request = item.request
            if item.is_rescheduled:
                item.is_rescheduled = False
                request.flags = 0
                del request.inputs[len(request.inputs) - self._fed_count :]
                self._sequences.put_back(sequence, item)
            elif is_last(request) or (self._is_iterative and not sequence.queue):
                self._end(sequence, SequenceEvent.LAST_REQUEST_DONE, now_ns)
                continue
            if sequence.queue:
                self._advance(sequence, now_ns)
            else:
                self._sequences.rest(sequence, now_ns)

    def _end(self, sequence: Sequence[Item], event: SequenceEvent, now_ns: int) -> None:
        successor = self._sequences.end(sequence, event)
        if successor is not None:
            self._advance(successor, now_ns)

    def _reap(self, now_ns: int) -> None:
        for successor in self._sequences.reap(now_ns):
            self._advance(successor, now_ns)

    def _take(self, sequence: Sequence[Item]) -> Item:
        """Take a sequence's next request and give it what its model is fed."""
        item = self._sequences.take(sequence)
        request = item.request
        self._controls.add(request)
        states = sequence.states
        if states is not None:
            if request.flags & SEQUENCE_START:
                states.restart()
            states.add(request)
            item.states = states
        return item

    def _signature(self, sequence: Sequence[Item]) -> object:
        """Return what a sequence's next request must share with the others of its batch."""
        item = sequence.queue[0]
        states = sequence.states
        if states is None or not states.is_variable:
            return item.signature
        is_start = item.request.flags & SEQUENCE_START
        shapes = states.initial_shapes if is_start else states.shapes
        own = item.signature
        return _WithStates(own.inputs if isinstance(own, _WithStates) else own, shapes)

    def _take_dropped(self) -> list[tuple[Item, TritonError]]:
        dropped, self._sequences.dropped = self._sequences.dropped, []
        return dropped

    def _wake_at_ns(self, at_ns: int | None) -> int | None:
        idle_ns = self._sequences.wake_at_ns
        if at_ns is None or idle_ns is None:
            return idle_ns if at_ns is None else at_ns
        return min(at_ns, idle_ns)


class DirectSequenceBatcher(_SequenceBatcher[Item]):
    """Row k of every batch is slot k.

    Args:
        config: The model's config; there is a slot for each row of its largest batch.
        batching: Its sequence batcher.
        states: Its implicit states; None when it has none.
    """

    def __init__(
        self, config: ModelConfig, batching: SequenceBatching, states: StateRules | None = None
    ) -> None:
        slot_count = max(1, config.max_batch_size)
        super().__init__(config, batching, slot_count, states)
        # Without a utilisation to wait for, the delay means nothing.
        self._wanted_count = batching.minimum_slot_utilization * slot_count
        self._delay_ns = batching.max_queue_delay_us * _NS_PER_US if self._wanted_count else 0

    def next_batch(self, now_ns: int) -> Decision[Item]:
        """Decide for an instance that is free: what it executed before is done."""
        self._complete(now_ns)
        self._reap(now_ns)
        ready = [slot for slot in self._sequences.slots if slot is not None and slot.queue]
        for sequence in ready:
            self._drop_cancelled(sequence, now_ns)
        ready = [slot for slot in self._sequences.slots if slot is not None and slot.queue]
        dropped = self._take_dropped()
        if not ready:
            return Decision([], self._wake_at_ns(None), dropped)
        lead = min(ready, key=lambda sequence: sequence.queue[0].enqueue_ns)
        due_ns = lead.queue[0].enqueue_ns + self._delay_ns
        if now_ns < due_ns and len(ready) < self._wanted_count:
            return Decision([], self._wake_at_ns(due_ns), dropped)
        signature = self._signature(lead)
        chosen = [sequence for sequence in ready if self._signature(sequence) == signature]
        batch = [self._take(sequence) for sequence in chosen]
        self._executing = chosen
        return Decision(batch, None, dropped, self._rows(chosen, batch, ready[-1].slot))

    def clear(self) -> list[Item]:
        """Give up everything queued."""
        self._executing = []
        return self._sequences.clear()

    def _advance(self, sequence: Sequence[Item], now_ns: int) -> None:
        # What is queued in a slot is looked at when a batch forms.
        pass

    def _drop_cancelled(self, sequence: Sequence[Item] | None, now_ns: int) -> None:
        """End a sequence whose next request was cancelled, and its successors likewise."""
        while sequence is not None and sequence.queue and sequence.queue[0].is_cancelled:
            sequence = self._sequences.end(sequence, SequenceEvent.CANCELLED)

    def _rows(
        self, chosen: list[Sequence[Item]], batch: list[Item], last_slot: int
    ) -> list[ExecuteRequest] | None:
        if last_slot == len(chosen) - 1:
            return None
        by_slot = {each.slot: item for each, item in zip(chosen, batch, strict=True)}
        return [
            by_slot.get(slot) or self._null_request(chosen[0], batch[0])
            for slot in range(last_slot + 1)
        ]

    def _null_request(self, sequence: Sequence[Item], item: Item) -> NullRequest:
        request = item.request
        null = NullRequest(request, len(request.inputs) - self._fed_count)
        self._controls.add_not_ready(null.request)
        if sequence.states is not None:
            sequence.states.add_null(null.request)
        return null


class OldestSequenceBatcher(_SequenceBatcher[Item]):
    """Batches one request each of several sequences, in order of arrival.

    Args:
        config: The model's config.
        batching: Its sequence batcher.
        states: Its implicit states; None when it has none.
    """

    def __init__(
        self, config: ModelConfig, batching: SequenceBatching, states: StateRules | None = None
    ) -> None:
        largest = max(1, config.max_batch_size)
        super().__init__(config, batching, batching.max_candidate_sequences or largest, states)
        self._batcher: DynamicBatcher[Item] = DynamicBatcher(
            largest, batching.preferred_batch_size, batching.max_queue_delay_us
        )
        self._batched: dict[Item, Sequence[Item]] = {}

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""
        return super().pending_count + self._batcher.pending_count

    def next_batch(self, now_ns: int) -> Decision[Item]:
        """Decide for an instance that is free: what it executed before is done."""
        self._complete(now_ns)
        self._reap(now_ns)
        dropped: list[tuple[Item, TritonError]] = []
        while True:
            decision = self._batcher.next_batch(now_ns)
            for item, error in decision.dropped:
                dropped.append((item, error))
                self._end(self._batched.pop(item), SequenceEvent.CANCELLED, now_ns)
            if decision.batch or not decision.dropped:
                break
        dropped += self._take_dropped()
        if not decision.batch:
            return Decision([], self._wake_at_ns(decision.wake_at_ns), dropped)
        self._executing = [self._batched.pop(item) for item in decision.batch]
        return Decision(decision.batch, None, dropped)

    def clear(self) -> list[Item]:
        """Give up everything queued."""
        self._executing = []
        self._batched.clear()
        return self._batcher.clear() + self._sequences.clear()

    def _advance(self, sequence: Sequence[Item], now_ns: int) -> None:
        current: Sequence[Item] | None = sequence
        while current is not None and current.queue and current.in_flight is None:
            if current.queue[0].is_cancelled:
                current = self._sequences.end(current, SequenceEvent.CANCELLED)
                continue
            current.queue[0].signature = self._signature(current)
            item = self._take(current)
            self._batched[item] = current
            self._batcher.enqueue(item, now_ns)
            return
