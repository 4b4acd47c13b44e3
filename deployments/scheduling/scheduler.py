# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an executor asks of a scheduler.

Schedulers are pure: they never read a clock, never block and start nothing. The executor calls them
under its lock, from the event loop (`enqueue`) and from the execution thread (`next_batch`), and
owns the waiting. An item belongs to the scheduler from `enqueue` until a decision hands it back.

Triton: core/src/dynamic_batch_scheduler.cc, core/src/scheduler.h @73aad7c
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from backends.api.backend import ExecuteRequest
from backends.api.errors import TritonError

STOPPED = "Server is stopping, scheduler for model has stopped accepting new inference requests"


class Scheduled(Protocol):
    """A request as schedulers see it.

    Attributes:
        request_id: The client's id, for messages; empty when none.
        batch_size: Leading dimension of its inputs; 1 when the model does not batch.
        enqueue_ns: When it was enqueued, on the clock that stamps every ``now_ns``.
        signature: What must be equal among requests that share a batch; None when nothing must.
        timeout_us: Queue timeout the client asked for; 0 means none.
        priority: Level the client asked for; 0 means the model's default.
        tenant: Whom the request counts for; empty for nobody in particular.
        weight: The tenant's share beside others' in a queue; 1.0 unless it has one.
    """

    batch_size: int
    enqueue_ns: int
    signature: object

    @property
    def request_id(self) -> str: ...  # noqa: D102
    @property
    def timeout_us(self) -> int: ...  # noqa: D102
    @property
    def priority(self) -> int: ...  # noqa: D102
    @property
    def tenant(self) -> str: ...  # noqa: D102
    @property
    def weight(self) -> float: ...  # noqa: D102
    @property
    def is_cancelled(self) -> bool: ...  # noqa: D102


class SequencedItem(Scheduled, Protocol):
    """A request of a sequence, as the schedulers of sequences see it.

    Attributes:
        correlation_id: Of its sequence; 0 or "" when none. Set for requests that get one.
        flags: SEQUENCE_START | SEQUENCE_END. Set for requests that get a correlation id, and for
            those that are executed once more.
        is_rescheduled: Whether it is to be executed once more.
    """

    correlation_id: int | str
    flags: int
    is_rescheduled: bool


Item = TypeVar("Item", bound=Scheduled)
SequencedT = TypeVar("SequencedT", bound=SequencedItem)


class Decision(NamedTuple, Generic[Item]):
    """What to do now.

    Attributes:
        batch: Requests to execute together; empty when there is nothing to run yet.
        wake_at_ns: When to ask again although nothing arrives; None means not before that. Set only
            with an empty batch.
        dropped: Requests that will not run, each with the error that ends it.
        rows: What the model is given, where that is not just the batch: its requests with others
            between them that only fill rows.
        slots: Where the requests are of sequences, the slot of each.
        row_count: Where each slot has its row, how many rows the batch has at least.
    """

    batch: list[Item]
    wake_at_ns: int | None = None
    dropped: Sequence[tuple[Item, TritonError]] = ()
    rows: Sequence[ExecuteRequest] | None = None
    slots: Sequence[int] = ()
    row_count: int = 0


class Scheduler(Protocol[Item]):
    """Decides which requests an instance executes next."""

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have something to give up; None means never."""

    @property
    def sequence_count(self) -> int:
        """Sequences that have started and not ended."""

    def knows(self, correlation_id: int | str) -> bool:
        """Whether a sequence of this id goes on here."""

    def enqueue(self, item: Item, now_ns: int) -> bool:
        """Take an item; on raise the caller still owns it.

        Returns:
            Whether a waiting executor has to ask for a decision again.

        Raises:
            UnavailableError: The scheduler was stopped or its queue is full.
            InvalidArgumentError: The scheduler cannot place the request.
        """

    def next_batch(self, now_ns: int) -> Decision[Item]:
        """Decide for an instance that is free: what it executed before is done."""

    def expire(self, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Give up requests whose time is over, while the instance is busy or asleep."""

    def stop(self) -> None:
        """Accept nothing more; what is queued is still handed out."""

    def clear(self) -> list[Item]:
        """Give up everything queued, oldest first."""
