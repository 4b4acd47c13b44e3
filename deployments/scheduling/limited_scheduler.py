# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A scheduler under the rate limiter: batches leave only while the instance holds its resources.

It stands around another scheduler, so that instances without the rate limiter know nothing of it.
Single requests and dynamic batches stay in their queue until the resources are there: meanwhile
batches grow, and requests expire as they do while the model is busy. Sequences take the other way
round, as in Triton, because asking their batcher says that the last batch is done: the batch is
taken first and then waits for its resources.
"""

from collections.abc import Sequence
from typing import Generic, Protocol

from backends.api.errors import TritonError
from deployments.scheduling.scheduler import Decision, Item, Scheduler


class Grant(Protocol):
    """The right of an instance to execute; the executor is woken when it is granted."""

    @property
    def is_held(self) -> bool:
        """Whether the instance may execute now."""

    def ask(self) -> None:
        """Ask for it, unless that was done."""

    def done(self, *, ask_again: bool) -> None:
        """Give it back after an execution and perhaps get in line again."""

    def decline(self) -> None:
        """Give it back without an execution."""


class LimitedScheduler(Generic[Item]):
    """Lets another scheduler's batches leave one grant at a time.

    Args:
        inner: The scheduler.
        grant: The right to execute.
        takes_first: Whether a batch is taken from it before the grant is asked for.
    """

    def __init__(self, inner: Scheduler[Item], grant: Grant, *, takes_first: bool) -> None:
        self._inner = inner
        self._grant = grant
        self._next = self._take_then_ask if takes_first else self._ask_then_take
        # Whether a batch was handed out that is done when the next one is asked for.
        self._is_executing = False
        # A batch that waits for the grant.
        self._taken: Decision[Item] | None = None

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""
        taken = self._taken
        return self._inner.pending_count + (0 if taken is None else len(taken.batch))

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have something to give up; None means never."""
        return self._inner.deadline_ns

    @property
    def sequence_count(self) -> int:
        """Sequences that have started and not ended."""
        return self._inner.sequence_count

    def knows(self, correlation_id: int | str) -> bool:
        """Whether a sequence of this id goes on here."""
        return self._inner.knows(correlation_id)

    def enqueue(self, item: Item, now_ns: int) -> bool:
        """Take an item; see `Scheduler.enqueue`."""
        return self._inner.enqueue(item, now_ns)

    def next_batch(self, now_ns: int) -> Decision[Item]:
        """Decide for an instance that is free: what it executed before is done."""
        return self._next(now_ns)

    def expire(self, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Give up requests whose time is over."""
        return self._inner.expire(now_ns)

    def stop(self) -> None:
        """Accept nothing more; what is queued is still handed out."""
        self._inner.stop()

    def clear(self) -> list[Item]:
        """Give up everything queued, oldest first."""
        taken, self._taken = self._taken, None
        return [*([] if taken is None else taken.batch), *self._inner.clear()]

    def _ask_then_take(self, now_ns: int) -> Decision[Item]:
        inner, grant = self._inner, self._grant
        is_pending = inner.pending_count > 0
        if self._is_executing:
            self._is_executing = False
            grant.done(ask_again=is_pending)
        if is_pending and not grant.is_held:
            grant.ask()
            # Those that were cancelled are not kept until the grant.
            return Decision([], None, inner.expire(now_ns))
        decision = inner.next_batch(now_ns)
        if decision.batch:
            self._is_executing = True
        elif grant.is_held:
            # Cancelled meanwhile, or a batch still waits to grow.
            grant.decline()
        return decision

    def _take_then_ask(self, now_ns: int) -> Decision[Item]:
        grant = self._grant
        taken = self._taken
        dropped: Sequence[tuple[Item, TritonError]] = ()
        if taken is None:
            taken = self._inner.next_batch(now_ns)
            if self._is_executing:
                self._is_executing = False
                grant.done(ask_again=bool(taken.batch))
            if not taken.batch:
                return taken
            dropped = taken.dropped
            self._taken = taken = taken._replace(dropped=())
        if not grant.is_held:
            grant.ask()
            return Decision([], None, dropped)
        self._taken = None
        self._is_executing = True
        return taken._replace(dropped=dropped)
