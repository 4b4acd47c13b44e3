# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A sequence, and the slots of one instance in which sequences run."""

from collections import deque
from enum import Enum, auto
from typing import Generic

from deployments.scheduling.pool_scheduler import CorrelationId
from deployments.scheduling.priority_queue import NEVER
from deployments.scheduling.scheduler import SequencedT


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
    INSTANCE_GONE = auto()


_NEXT_PHASE = {
    (SequencePhase.BACKLOG, SequenceEvent.SLOT_FREE): SequencePhase.RUNNING,
    (SequencePhase.BACKLOG, SequenceEvent.CANCELLED): SequencePhase.OVER,
    (SequencePhase.BACKLOG, SequenceEvent.TIMED_OUT): SequencePhase.OVER,
    (SequencePhase.RUNNING, SequenceEvent.LAST_REQUEST_DONE): SequencePhase.OVER,
    (SequencePhase.RUNNING, SequenceEvent.IDLE): SequencePhase.OVER,
    (SequencePhase.RUNNING, SequenceEvent.CANCELLED): SequencePhase.OVER,
    (SequencePhase.RUNNING, SequenceEvent.INSTANCE_GONE): SequencePhase.OVER,
}


class Sequence(Generic[SequencedT]):
    """One sequence.

    Attributes:
        id: Its correlation id.
        phase: Where it is.
        home: The slots of its instance; set when it begins to run.
        slot: Its slot there.
        queue: Its requests that no one has begun to batch, in order.
        in_flight: The request of it that is batched or executed.
        expires_ns: When it leaves the backlog without having run; NEVER when it stays.
        tenant: Whose it is; empty for nobody in particular.
        weight: The tenant's share beside others'.
    """

    __slots__ = (
        "expires_ns", "home", "id", "in_flight", "phase", "queue", "slot", "tenant", "weight",
    )  # fmt: skip

    home: "InstanceSlots[SequencedT]"
    slot: int

    def __init__(
        self, correlation_id: CorrelationId, tenant: str = "", weight: float = 1.0
    ) -> None:
        self.id = correlation_id
        self.tenant = tenant
        self.weight = weight
        self.phase = SequencePhase.BACKLOG
        self.queue: deque[SequencedT] = deque()
        self.in_flight: SequencedT | None = None
        self.expires_ns = NEVER

    def move(self, event: SequenceEvent) -> None:
        """Enter the next phase; a KeyError means the scheduler is wrong."""
        self.phase = _NEXT_PHASE[self.phase, event]


class InstanceSlots(Generic[SequencedT]):
    """The slots of one instance.

    Attributes:
        name: The instance.
        slots: The running sequence of each.
        free: A heap of those without one.
        is_retired: Whether no sequence starts here any more.
        queued_count: Requests of sequences here that no one has begun to batch.
        executing: The sequences whose requests the instance executes.
        adopted: The sequences that ran here before; the instance may execute requests of theirs.
    """

    __slots__ = ("adopted", "executing", "free", "is_retired", "name", "queued_count", "slots")

    def __init__(self, name: str, slot_count: int) -> None:
        self.name = name
        self.slots: list[Sequence[SequencedT] | None] = [None] * slot_count
        self.free = list(range(slot_count))
        self.is_retired = False
        self.queued_count = 0
        self.executing: list[Sequence[SequencedT]] = []
        self.adopted: list[Sequence[SequencedT]] = []

    @property
    def running(self) -> list[Sequence[SequencedT]]:
        """The sequences, by slot."""
        return [sequence for sequence in self.slots if sequence is not None]

    @property
    def running_count(self) -> int:
        """Sequences that run here."""
        return len(self.slots) - len(self.free)

    @property
    def rank(self) -> tuple[int, int]:
        """Of instances with free slots, the one with the least gets the next sequence."""
        return self.free[0], -len(self.free)
