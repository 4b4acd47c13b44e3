# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The queue of a pool: what waits for a model on a node, and which instance gets the next batch.

A request is bound to an instance when that instance can start it. The queue knows of each instance
how many batches lie there and how long they take. An instance is *free* while fewer batches lie
there than its depth: one, or two where executions are so short that the way to the instance and
back takes longer. Free instances that execute nothing go first, and of those the one that was last
used, whose caches are warm.

Instances under the rate limiter are not free before they say so: they are *asked* while something
waits, and answer once their node's arbiter has granted what they need.

Pure: the clock is passed in, and what is to be sent is returned.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Generic, NamedTuple

from backends.api.errors import TritonError
from deployments.scheduling.pool_scheduler import CorrelationId, PoolScheduler
from deployments.scheduling.scheduler import Decision, Item

# An execution shorter than this takes less time than a message to the instance and one back.
_SHORT_EXECUTION_NS: Final = 300_000
_SHORT_DEPTH: Final = 2
# How much one execution counts in the mean.
_WEIGHT: Final = 0.125

_NO_SEQUENCES: Mapping[int, CorrelationId] = {}


class Batch(NamedTuple, Generic[Item]):
    """A batch that an instance executes next.

    Attributes:
        number: Of this queue; grows.
        instance: Name of the instance.
        decision: The requests, and where they are of sequences, their slots.
    """

    number: int
    instance: str
    decision: Decision[Item]


class Actions(NamedTuple, Generic[Item]):
    """What is to be done now.

    Attributes:
        batches: Batches to be sent.
        dropped: Requests that will not run, each with the error that ends it.
        wake_at_ns: When to ask again although nothing happens; None means not before that.
        asked: Instances to be asked for their grant.
        declined: Instances whose grant is not needed any more.
    """

    batches: list[Batch[Item]]
    dropped: Sequence[tuple[Item, TritonError]] = ()
    wake_at_ns: int | None = None
    asked: Sequence[str] = ()
    declined: Sequence[str] = ()


class PoolInstance(Generic[Item]):
    """An instance as its pool's queue sees it.

    Attributes:
        name: Its name.
        batches: What lies there, by the batches' numbers.
        foreign_count: Batches of an earlier queue that lie there.
        mean_execution_ns: How long executions take; 0.0 before the first.
        is_leaving: Whether nothing is to start there but what its sequences need.
        is_limited: Whether it executes under the rate limiter.
        is_asked: Whether it was asked for its grant.
        is_granted: Whether it holds its grant and no batch yet.
    """

    __slots__ = (
        "batches",
        "foreign_count",
        "is_asked",
        "is_granted",
        "is_leaving",
        "is_limited",
        "mean_execution_ns",
        "name",
    )

    def __init__(self, name: str, foreign_count: int, *, is_limited: bool) -> None:
        self.name = name
        self.batches: dict[int, list[Item]] = {}
        self.foreign_count = foreign_count
        self.mean_execution_ns = 0.0
        self.is_leaving = False
        self.is_limited = is_limited
        self.is_asked = False
        self.is_granted = False

    @property
    def batch_count(self) -> int:
        """Batches that lie there."""
        return len(self.batches) + self.foreign_count


class PoolQueue(Generic[Item]):
    """All that waits for the instances of one pool.

    Args:
        scheduler: The model's.
        short_execution_ns: Below this an instance has the next batch before it needs it.
    """

    def __init__(
        self, scheduler: PoolScheduler[Item], short_execution_ns: int = _SHORT_EXECUTION_NS
    ) -> None:
        self._scheduler = scheduler
        self._short_ns = short_execution_ns
        # The last used first, so that the same instances serve while few are needed.
        self._instances: dict[str, PoolInstance[Item]] = {}
        self._order: list[PoolInstance[Item]] = []
        self._last_number = 0

    @property
    def pending_count(self) -> int:
        """Requests that wait."""
        return self._scheduler.pending_count

    @property
    def sequence_count(self) -> int:
        """Sequences that have started and not ended."""
        return self._scheduler.sequence_count

    @property
    def free_slot_count(self) -> int:
        """Slots that are free for the next sequences."""
        return self._scheduler.free_slot_count

    @property
    def instances(self) -> Mapping[str, PoolInstance[Item]]:
        """The instances, by name."""
        return self._instances

    @property
    def free_count(self) -> int:
        """Instances that execute nothing and take what comes."""
        return sum(not (each.batch_count or each.is_leaving) for each in self._order)

    @property
    def mean_execution_ns(self) -> float:
        """How long an execution takes, in the mean over the instances; 0.0 before the first."""
        known = [each.mean_execution_ns for each in self._order if each.mean_execution_ns]
        return sum(known) / len(known) if known else 0.0

    def knows(self, correlation_id: CorrelationId) -> bool:
        """Whether a sequence of this id goes on here."""
        return self._scheduler.knows(correlation_id)

    def is_needed(self, instance: str) -> bool:
        """Whether batches lie at an instance, or sequences run there."""
        known = self._instances.get(instance)
        return known is not None and bool(known.batch_count or self._scheduler.runs_on(instance))

    # Instances

    def join(
        self,
        instance: str,
        running: Mapping[int, CorrelationId] = _NO_SEQUENCES,
        foreign_count: int = 0,
        now_ns: int = 0,
        *,
        is_limited: bool = False,
    ) -> None:
        """Take an instance in; ask `next` afterwards.

        Args:
            instance: Its name.
            running: By slot, the sequences that run there already.
            foreign_count: Batches of an earlier queue that it has not executed yet.
            now_ns: Now.
            is_limited: Whether it executes under the rate limiter.
        """
        joined: PoolInstance[Item] = PoolInstance(instance, foreign_count, is_limited=is_limited)
        self._instances[instance] = joined
        self._order.append(joined)
        self._scheduler.join(instance, running, now_ns)

    def retire(self, instance: str) -> None:
        """Give an instance nothing more but what the sequences need that run there."""
        if instance in self._instances:
            self._instances[instance].is_leaving = True
            self._scheduler.retire(instance)

    def leave(self, instance: str, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Forget an instance that is gone.

        Returns:
            What waited for its sequences. What lay there is its routers' to end.
        """
        gone = self._instances.pop(instance, None)
        if gone is None:
            return []
        self._order.remove(gone)
        return self._scheduler.leave(instance, now_ns)

    # Requests

    def enqueue(self, item: Item, now_ns: int) -> bool:
        """Take a request; on raise the caller still owns it.

        Returns:
            Whether `next` has to be asked.

        Raises:
            UnavailableError: The queue was stopped or is full.
            InvalidArgumentError: The scheduler cannot place the request.
        """
        return self._scheduler.enqueue(item, now_ns)

    def executed(
        self,
        instance: str,
        number: int,
        execution_ns: int,
        now_ns: int,
        rescheduled: Sequence[int] = (),
    ) -> None:
        """Learn that an instance is done with a batch; ask `next` afterwards.

        Args:
            instance: Its name.
            number: The batch's number; of an earlier queue when it is not known.
            execution_ns: How long the execution took.
            now_ns: Now.
            rescheduled: Which of the batch's requests are to be executed once more, by their
                places in it.
        """
        known = self._instances.get(instance)
        if known is None:
            return
        batch = known.batches.pop(number, None)
        if batch is None:
            known.foreign_count = max(0, known.foreign_count - 1)
            return
        mean_ns = known.mean_execution_ns
        known.mean_execution_ns = (
            mean_ns + (execution_ns - mean_ns) * _WEIGHT if mean_ns else execution_ns
        )
        for at in rescheduled:
            batch[at].is_rescheduled = True  # type: ignore[attr-defined]
        self._scheduler.executed(instance, batch, now_ns)
        if self._order[0] is not known:
            self._order.remove(known)
            self._order.insert(0, known)

    def granted(self, instance: str) -> None:
        """Learn that a limited instance may execute one batch; ask `next` afterwards."""
        known = self._instances.get(instance)
        if known is not None:
            known.is_asked = False
            known.is_granted = True

    def next(self, now_ns: int) -> Actions[Item]:
        """Return what is to be done now."""
        scheduler = self._scheduler
        batches: list[Batch[Item]] = []
        dropped: list[tuple[Item, TritonError]] = []
        wake_at_ns: int | None = None
        asked: list[str] = []
        for depth in range(_SHORT_DEPTH):
            for instance in tuple(self._order):
                if not self._is_free(instance, depth):
                    continue
                if instance.is_limited and not instance.is_granted:
                    if scheduler.pending_count and not instance.is_asked:
                        instance.is_asked = True
                        asked.append(instance.name)
                    continue
                decision = scheduler.next_batch(instance.name, now_ns)
                dropped += decision.dropped
                if decision.batch:
                    batches.append(self._give(instance, decision))
                    continue
                wake_at_ns = _earlier(wake_at_ns, decision.wake_at_ns)
                if scheduler.is_shared:
                    return Actions(batches, dropped, wake_at_ns, asked, self._declined())
        return Actions(batches, dropped, wake_at_ns, asked, self._declined())

    def expire(self, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Give up requests whose time is over."""
        return self._scheduler.expire(now_ns)

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have something to give up; None means never."""
        return self._scheduler.deadline_ns

    def clear(self) -> list[Item]:
        """Give up everything that waits, oldest first."""
        return self._scheduler.clear()

    def _is_free(self, instance: PoolInstance[Item], depth: int) -> bool:
        if instance.batch_count != depth:
            return False
        if instance.is_leaving and not self._scheduler.runs_on(instance.name):
            return False
        return not depth or (
            self._scheduler.is_shared
            and not instance.is_limited
            and 0 < instance.mean_execution_ns < self._short_ns
        )

    def _give(self, instance: PoolInstance[Item], decision: Decision[Item]) -> Batch[Item]:
        self._last_number = number = self._last_number + 1
        instance.batches[number] = decision.batch
        instance.is_granted = False
        return Batch(number, instance.name, decision)

    def _declined(self) -> list[str]:
        """Return the instances that hold a grant for which there is nothing."""
        declined = [each for each in self._order if each.is_granted]
        for each in declined:
            each.is_granted = False
        return [each.name for each in declined]


def _earlier(one_ns: int | None, other_ns: int | None) -> int | None:
    if one_ns is None or other_ns is None:
        return one_ns if other_ns is None else other_ns
    return min(one_ns, other_ns)
