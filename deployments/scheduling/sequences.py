# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The sequences an instance knows: which slot each has, which wait, which have gone quiet.

A sequence runs in a slot from its first request until its last one was executed, or waits for a
slot in the backlog. Its id leads to it until its END request has come; after that another sequence
may start under the same id.

Triton: core/src/sequence_batch_scheduler/sequence_batch_scheduler.cc Enqueue, ReleaseSequenceSlot,
ReaperThread @73aad7c. There a sequence goes idle from the arrival of its last request, even while
that is queued or executed; here from when nothing of it is queued or executed any more.
"""

import heapq
import itertools
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

from backends.api.backend import ExecuteRequest
from backends.api.errors import (
    InvalidArgumentError,
    Phase,
    RequestCancelledError,
    TritonError,
    UnavailableError,
)
from backends.api.request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from deployments.scheduling.priority_queue import NEVER
from deployments.scheduling.scheduler import STOPPED, Scheduled
from deployments.scheduling.sequence_controls import SequenceStates

_log = logging.getLogger(__name__)

_NS_PER_US = 1000
# Entries of timed-out sequences are looked through when there are more than this and twice as many
# as there are sequences.
_MIN_STALE = 64
_TIMED_OUT = "timeout of the corresponding sequence has been expired"

CorrelationId = int | str


class SequenceItem(Scheduled, ExecuteRequest, Protocol):
    """A request as sequence batchers see it.

    Attributes:
        states: What its sequence carries along, for the response to update; None when nothing.
        is_rescheduled: Whether the model asked for the request to be executed once more.
    """

    states: SequenceStates | None
    is_rescheduled: bool

    @property
    def is_cancelled(self) -> bool: ...  # noqa: D102


Item = TypeVar("Item", bound=SequenceItem)


class SequencePhase(Enum):
    """Where a sequence is."""

    BACKLOG = auto()
    RUNNING = auto()
    OVER = auto()


class SequenceEvent(Enum):
    """What moves a sequence on."""

    SLOT_FREE = auto()
    LAST_REQUEST_DONE = auto()
    IDLE = auto()
    CANCELLED = auto()
    TIMED_OUT = auto()


_NEXT_PHASE = {
    (SequencePhase.BACKLOG, SequenceEvent.SLOT_FREE): SequencePhase.RUNNING,
    (SequencePhase.BACKLOG, SequenceEvent.CANCELLED): SequencePhase.OVER,
    (SequencePhase.BACKLOG, SequenceEvent.TIMED_OUT): SequencePhase.OVER,
    (SequencePhase.RUNNING, SequenceEvent.LAST_REQUEST_DONE): SequencePhase.OVER,
    (SequencePhase.RUNNING, SequenceEvent.IDLE): SequencePhase.OVER,
    (SequencePhase.RUNNING, SequenceEvent.CANCELLED): SequencePhase.OVER,
}


class Sequence(Generic[Item]):
    """One sequence.

    Attributes:
        id: Its correlation id.
        phase: Where it is.
        slot: Its slot, while it runs.
        queue: Its requests that no one has begun to batch, in order.
        in_flight: The request of it that is batched or executed.
        states: What it carries from request to request; None when the model has no states.
        expires_ns: When it leaves the backlog without having run; NEVER when it stays.
    """

    __slots__ = ("expires_ns", "id", "in_flight", "phase", "queue", "slot", "states")

    def __init__(self, correlation_id: CorrelationId, states: SequenceStates | None) -> None:
        self.id = correlation_id
        self.phase = SequencePhase.BACKLOG
        self.slot = -1
        self.queue: deque[Item] = deque()
        self.in_flight: Item | None = None
        self.states = states
        self.expires_ns = NEVER

    def move(self, event: SequenceEvent) -> None:
        """Enter the next phase; a KeyError means the scheduler is wrong."""
        self.phase = _NEXT_PHASE[self.phase, event]


class Sequences(Generic[Item]):
    """All sequences of an instance.

    Args:
        model_name: For messages.
        slot_count: How many sequences run at a time.
        idle_us: How long a sequence may be quiet; 0 means for ever.
        make_states: Returns the states of a new sequence; None when the model has none.
        is_iterative: Whether requests without a correlation id are sequences of their own.

    Attributes:
        slots: The running sequence of each slot.
        dropped: Requests that left with an error; whoever looks at them empties the list.
        is_stopped: Whether no sequence may start any more.
        queued_count: Requests of all sequences that no one has begun to batch.
    """

    def __init__(
        self,
        model_name: str,
        slot_count: int,
        idle_us: int,
        make_states: Callable[[], SequenceStates] | None = None,
        *,
        is_iterative: bool = False,
    ) -> None:
        self.slots: list[Sequence[Item] | None] = [None] * slot_count
        self.dropped: list[tuple[Item, TritonError]] = []
        self.is_stopped = False
        self.queued_count = 0
        self._model_name = model_name
        self._idle_ns = idle_us * _NS_PER_US
        self._make_states = make_states
        self._is_iterative = is_iterative
        self._last_own_id = 0
        self._free = list(range(slot_count))
        # Ordered, because sequences leave at its head and out of its middle.
        self._backlog: OrderedDict[Sequence[Item], None] = OrderedDict()
        # When sequences of the backlog time out; entries of those that have left it are skipped.
        self._expiries: list[tuple[int, int, Sequence[Item]]] = []
        self._expiry_numbers = itertools.count()
        self._open: dict[CorrelationId, Sequence[Item]] = {}
        # Since when each running sequence is quiet, the longest first.
        self._quiet: dict[Sequence[Item], int] = {}

    @property
    def count(self) -> int:
        """Sequences that run or wait for a slot."""
        return len(self.slots) - len(self._free) + len(self._backlog)

    @property
    def deadline_ns(self) -> int | None:
        """When the first sequence of the backlog times out."""
        expiries = self._expiries
        while expiries and not self._is_due(expiries[0]):
            heapq.heappop(expiries)
        return expiries[0][0] if expiries else None

    @property
    def wake_at_ns(self) -> int | None:
        """When the longest quiet sequence becomes idle."""
        if not self._idle_ns or not self._quiet:
            return None
        return next(iter(self._quiet.values())) + self._idle_ns

    def knows(self, correlation_id: CorrelationId) -> bool:
        """Whether a sequence of this id is open."""
        return correlation_id in self._open

    def admit(self, item: Item, now_ns: int) -> Sequence[Item]:
        """Add a request to its sequence, which it may start.

        Raises:
            InvalidArgumentError: It has no correlation id, or its sequence never started.
            UnavailableError: It would start a sequence, and the scheduler was stopped.
        """
        request = item.request
        if not request.correlation_id:
            self._give_id(request)
        is_start = bool(request.flags & SEQUENCE_START)
        if is_start and self.is_stopped:
            raise UnavailableError(STOPPED)
        correlation_id = request.correlation_id
        sequence = self._open.get(correlation_id)
        if sequence is None:
            if not is_start:
                raise InvalidArgumentError(
                    f"inference request for sequence {correlation_id} to model "
                    f"'{self._model_name}' must specify the START flag on the first request of "
                    f"the sequence",
                    Phase.ENQUEUE,
                )
            sequence = self._start(correlation_id)
        elif is_start:
            _log.warning(
                "sequence %s for model '%s' has a conflict. The previous sequence did not end "
                "before this sequence start. Previous sequence will be terminated early.",
                correlation_id,
                self._model_name,
            )
        sequence.queue.append(item)
        self.queued_count += 1
        self._quiet.pop(sequence, None)
        if sequence.phase is SequencePhase.BACKLOG and item.timeout_us:
            self._expire_at(sequence, now_ns + item.timeout_us * _NS_PER_US)
        if request.flags & SEQUENCE_END:
            del self._open[correlation_id]
        return sequence

    def take(self, sequence: Sequence[Item]) -> Item:
        """Take the next request of a sequence, to be batched."""
        self.queued_count -= 1
        item = sequence.in_flight = sequence.queue.popleft()
        return item

    def put_back(self, sequence: Sequence[Item], item: Item) -> None:
        """Queue a request of a sequence before its others, to be executed again."""
        self.queued_count += 1
        sequence.queue.appendleft(item)

    def rest(self, sequence: Sequence[Item], now_ns: int) -> None:
        """Note that nothing of a running sequence is queued or executed any more."""
        self._quiet[sequence] = now_ns

    def end(self, sequence: Sequence[Item], event: SequenceEvent) -> Sequence[Item] | None:
        """End a running sequence; what it has queued is cancelled.

        Returns:
            The sequence that has its slot now, if one waited.
        """
        self._leave(sequence, event)
        slot, sequence.slot = sequence.slot, -1
        while self._backlog:
            successor, _ = self._backlog.popitem(last=False)
            if any(item.is_cancelled for item in successor.queue):
                self._leave(successor, SequenceEvent.CANCELLED)
                continue
            self._run_in(successor, slot)
            return successor
        self.slots[slot] = None
        heapq.heappush(self._free, slot)
        return None

    def reap(self, now_ns: int) -> list[Sequence[Item]]:
        """End the sequences that have been idle; return those that got their slots."""
        successors = []
        while (wake_at_ns := self.wake_at_ns) is not None and wake_at_ns <= now_ns:
            successor = self.end(next(iter(self._quiet)), SequenceEvent.IDLE)
            if successor is not None:
                successors.append(successor)
        return successors

    def expire(self, now_ns: int) -> None:
        """Drop the sequences that have waited too long for a slot."""
        while (deadline_ns := self.deadline_ns) is not None and deadline_ns <= now_ns:
            _, _, sequence = heapq.heappop(self._expiries)
            del self._backlog[sequence]
            items = self._empty(sequence)
            self._leave(sequence, SequenceEvent.TIMED_OUT)
            self.dropped += [(item, UnavailableError(_TIMED_OUT)) for item in items]

    def clear(self) -> list[Item]:
        """Forget every sequence and give up what they have queued."""
        items = [item for item, _ in self.dropped]
        running = [sequence for sequence in self.slots if sequence is not None]
        for sequence in [*running, *self._backlog]:
            items += self._empty(sequence)
        self.dropped = []
        self._backlog.clear()
        self._expiries.clear()
        self._open.clear()
        self._quiet.clear()
        self.slots = [None] * len(self.slots)
        self._free = list(range(len(self.slots)))
        return items

    def _give_id(self, request: InferenceRequest) -> None:
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
        request.correlation_id = self._last_own_id
        request.flags = SEQUENCE_START

    def _start(self, correlation_id: CorrelationId) -> Sequence[Item]:
        states = None if self._make_states is None else self._make_states()
        sequence: Sequence[Item] = Sequence(correlation_id, states)
        self._open[correlation_id] = sequence
        if self._free:
            self._run_in(sequence, heapq.heappop(self._free))
        else:
            self._backlog[sequence] = None
        return sequence

    def _run_in(self, sequence: Sequence[Item], slot: int) -> None:
        sequence.move(SequenceEvent.SLOT_FREE)
        sequence.slot = slot
        sequence.expires_ns = NEVER
        self.slots[slot] = sequence

    def _leave(self, sequence: Sequence[Item], event: SequenceEvent) -> None:
        sequence.move(event)
        self._quiet.pop(sequence, None)
        if self._open.get(sequence.id) is sequence:
            del self._open[sequence.id]
        self.dropped += [(item, RequestCancelledError()) for item in self._empty(sequence)]

    def _empty(self, sequence: Sequence[Item]) -> list[Item]:
        items = list(sequence.queue)
        sequence.queue.clear()
        self.queued_count -= len(items)
        return items

    def _expire_at(self, sequence: Sequence[Item], expires_ns: int) -> None:
        if expires_ns >= sequence.expires_ns:
            return
        sequence.expires_ns = expires_ns
        expiries = self._expiries
        if len(expiries) > _MIN_STALE + 2 * len(self._backlog):
            # Sequences that got a slot would otherwise stay until they had timed out.
            expiries[:] = [entry for entry in expiries if self._is_due(entry)]
            heapq.heapify(expiries)
        heapq.heappush(expiries, (expires_ns, next(self._expiry_numbers), sequence))

    def _is_due(self, entry: tuple[int, int, Sequence[Item]]) -> bool:
        expires_ns, _, sequence = entry
        is_waiting = sequence.phase is SequencePhase.BACKLOG and sequence in self._backlog
        return is_waiting and sequence.expires_ns == expires_ns


def is_last(request: InferenceRequest) -> bool:
    """Whether a request ends its sequence."""
    return bool(request.flags & SEQUENCE_END)
