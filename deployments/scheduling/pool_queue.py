# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The queue of a pool: what waits for a model on a node, and which instance gets the next batch.

A request is bound to an instance when that instance can start it. The queue knows of each instance
how many batches lie there and how long they take. An instance is *free* while fewer batches lie
there than its depth: one, or two where executions are so short that the way to the instance and
back takes longer. Free instances that execute nothing go first, and of those the one that was last
used, whose caches are warm; of those that execute, the one that began first.

Instances under the rate limiter are not free before they say so: they are *asked* while something
waits that they may execute, and answer once their node's arbiter has granted what they need.

Pure: the clock is passed in, and what is to be sent is returned.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Generic, NamedTuple

from backends.api.errors import TritonError
from deployments.scheduling.pool_instance import RECENT, PoolInstance
from deployments.scheduling.pool_scheduler import NO_SEQUENCES, CorrelationId, PoolScheduler
from deployments.scheduling.scheduler import Decision, Item

# An execution shorter than this takes less time than a message to the instance and one back.
_SHORT_EXECUTION_NS: Final = 300_000


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


class PoolQueue(Generic[Item]):
    """All that waits for the instances of one pool.

    Args:
        scheduler: The model's.
        short_execution_ns: Below this an instance has the next batch before it needs it.
        last_number: Of an earlier queue of the same instances, whose batches may lie there yet.

    Attributes:
        avoid: Notes which instance a request that waits is not to go to.
        enqueue: Takes a request and returns whether `next` has to be asked; see
            `PoolScheduler.enqueue`.
        ended, missed: Learn what became of sequences at an instance; see `PoolScheduler`.
        give_up: Forgets a sequence that has not begun; see `PoolScheduler`.
        instances: The instances, by name.
        last_number: Of the batch that was formed last.
        mean_batch_size: Requests of an execution, in the mean over the latest; 1.0 before.
    """

    __slots__ = (
        "_has_limited", "_idle", "_is_shared", "_scheduler", "_short", "_short_ns", "avoid",
        "ended", "enqueue", "give_up", "instances", "last_number", "mean_batch_size", "missed",
    )  # fmt: skip

    def __init__(
        self,
        scheduler: PoolScheduler[Item],
        short_execution_ns: int = _SHORT_EXECUTION_NS,
        last_number: int = 0,
    ) -> None:
        self.enqueue = scheduler.enqueue
        self.avoid = scheduler.avoid
        self.ended = scheduler.ended
        self.give_up = scheduler.give_up
        self.missed = scheduler.missed
        self.instances: dict[str, PoolInstance[Item]] = {}
        self.mean_batch_size = 1.0
        self._scheduler = scheduler
        self._is_shared = scheduler.is_shared
        self._short_ns = short_execution_ns
        self.last_number = last_number
        self._has_limited = False
        # Instances that execute nothing, the last used at the end; and those that execute one short
        # batch, the first to end it at the front.
        self._idle: dict[PoolInstance[Item], None] = {}
        self._short: dict[PoolInstance[Item], None] = {}

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
    def free_count(self) -> int:
        """Instances that execute nothing and take what comes."""
        return sum(not each.is_leaving for each in self._idle)

    @property
    def mean_execution_ns(self) -> float:
        """How long an execution takes, in the mean over the instances; 0.0 before the first."""
        instances = self.instances.values()
        known = [each.mean_execution_ns for each in instances if each.mean_execution_ns]
        return sum(known) / len(known) if known else 0.0

    def knows(self, correlation_id: CorrelationId) -> bool:
        """Whether a sequence of this id goes on here."""
        return self._scheduler.knows(correlation_id)

    def is_needed(self, instance: str) -> bool:
        """Whether batches lie at an instance, or sequences run there."""
        known = self.instances.get(instance)
        return known is not None and bool(known.batch_count or self._scheduler.runs_on(instance))

    # Instances

    def join(
        self,
        instance: str,
        running: Mapping[int, CorrelationId] = NO_SEQUENCES,
        foreign_count: int = 0,
        now_ns: int = 0,
        *,
        is_limited: bool = False,
    ) -> None:
        """Take an instance in that is not there; ask `next` afterwards.

        Args:
            instance: Its name.
            running: By slot, the sequences that run there already.
            foreign_count: Batches of an earlier queue that it has not executed yet.
            now_ns: Now.
            is_limited: Whether it executes under the rate limiter.
        """
        joined: PoolInstance[Item] = PoolInstance(instance, foreign_count, is_limited=is_limited)
        self.instances[instance] = joined
        self._has_limited |= is_limited
        self._scheduler.join(instance, running, now_ns)
        if not foreign_count:
            self._idle = {joined: None, **self._idle}
            self._scheduler.executed(instance, (), now_ns)

    def retire(self, instance: str) -> Sequence[Item]:
        """Give an instance nothing more but what the sequences need that run there.

        Returns:
            Requests of sequences that cannot begin here any more, given up.
        """
        known = self.instances.get(instance)
        if known is None:
            return ()
        known.is_leaving = True
        self._short.pop(known, None)
        return self._scheduler.retire(instance)

    def restore(self, instance: str, now_ns: int) -> None:
        """Give an instance that was retired what comes again; ask `next` afterwards."""
        known = self.instances.get(instance)
        if known is not None:
            known.is_leaving = False
            self._scheduler.restore(instance, now_ns)
            self._sort_in(known)

    def leave(self, instance: str, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Forget an instance that is gone.

        Returns:
            What waited for its sequences. What lay there is its routers' to end.
        """
        gone = self.instances.pop(instance, None)
        if gone is None:
            return []
        self._idle.pop(gone, None)
        self._short.pop(gone, None)
        return self._scheduler.leave(instance, now_ns)

    # Leases

    def lease(self) -> Batch[Item] | None:
        """Have an empty batch lie at a free instance, for somebody else to fill.

        Returns:
            The batch, which ends with `executed` or `give_back`; None when nothing is free for it.
        """
        if self._scheduler.pending_count:
            return None
        for known in reversed(self._idle):
            if not (known.is_leaving or known.is_limited):
                return self._give(known, Decision([]))
        return None

    def give_back(self, instance: str, number: int) -> None:
        """Learn that an empty batch is not filled; ask `next` afterwards."""
        known = self.instances.get(instance)
        if known is not None and known.batches.pop(number, None) is not None:
            self._sort_in(known)

    # Requests

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
        known = self.instances.get(instance)
        if known is None:
            return
        batch = known.batches.pop(number, None)
        if batch is None:
            self._foreign_executed(known, now_ns)
            return
        known.note_execution(execution_ns)
        self.mean_batch_size += ((len(batch) or 1) - self.mean_batch_size) * RECENT
        for at in rescheduled:
            batch[at].is_rescheduled = True  # type: ignore[attr-defined]
        self._scheduler.executed(instance, batch, now_ns)
        self._sort_in(known)

    def granted(self, instance: str) -> None:
        """Learn that a limited instance may execute one batch; ask `next` afterwards."""
        known = self.instances.get(instance)
        if known is not None:
            known.is_asked = False
            known.is_granted = True

    def next(self, now_ns: int) -> Actions[Item]:
        """Return what is to be done now."""
        scheduler, is_shared = self._scheduler, self._is_shared
        batches: list[Batch[Item]] = []
        dropped: list[tuple[Item, TritonError]] = []
        wake_at_ns: int | None = None
        asked: list[str] = []
        if not is_shared:
            # Sequences that have gone idle let others begin, whether an instance is free or not.
            dropped += scheduler.expire(now_ns)
            wake_at_ns = scheduler.idle_at_ns
        for instance in self._free():
            if not is_shared or instance.is_limited:
                has_work = scheduler.has_work(instance.name)
                if instance.is_limited and not instance.is_granted:
                    if has_work and not instance.is_asked:
                        instance.is_asked = True
                        asked.append(instance.name)
                    continue
                if not has_work:
                    continue
            decision = scheduler.next_batch(instance.name, now_ns)
            if decision.dropped:
                dropped += decision.dropped
            if not decision.batch:
                wake_at_ns = _earlier(wake_at_ns, decision.wake_at_ns)
                if is_shared and not scheduler.is_choosy:
                    break
                continue
            batches.append(self._give(instance, decision))
            if is_shared and not scheduler.pending_count:
                break
        declined = self._declined() if self._has_limited else ()
        return Actions(batches, dropped, wake_at_ns, asked, declined)

    def flush(self, now_ns: int) -> Actions[Item]:
        """Give instances all that waits, busy or not: they are about to end, and nobody follows.

        Args:
            now_ns: An instant at which no batch waits to grow any more.
        """
        batches: list[Batch[Item]] = []
        dropped: list[tuple[Item, TritonError]] = []
        instances = itertools.cycle(self.instances.values())
        while self._is_shared and self.instances and self._scheduler.pending_count:
            instance = next(instances)
            decision = self._scheduler.next_batch(instance.name, now_ns)
            dropped += decision.dropped
            if not decision.batch:
                break
            batches.append(self._give(instance, decision))
        return Actions(batches, dropped)

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

    def _free(self) -> Iterator[PoolInstance[Item]]:
        """Go through the instances that are free, while they are given batches."""
        if self._idle:
            for instance in tuple(reversed(self._idle)):
                if not (instance.is_leaving and self._is_shared):
                    yield instance
        if self._short:
            yield from tuple(self._short)

    def _give(self, instance: PoolInstance[Item], decision: Decision[Item]) -> Batch[Item]:
        self.last_number = number = self.last_number + 1
        instance.batches[number] = decision.batch
        instance.is_granted = False
        self._sort_in(instance)
        return Batch(number, instance.name, decision)

    def _foreign_executed(self, instance: PoolInstance[Item], now_ns: int) -> None:
        if instance.foreign_count:
            instance.foreign_count -= 1
            if not instance.foreign_count:
                self._scheduler.executed(instance.name, (), now_ns)
            self._sort_in(instance)

    def _sort_in(self, instance: PoolInstance[Item]) -> None:
        """Note that the batches that lie at an instance are others now."""
        self._idle.pop(instance, None)
        self._short.pop(instance, None)
        count = instance.batch_count
        if not count:
            self._idle[instance] = None
        elif (
            count == 1
            and self._is_shared
            and 0 < instance.mean_execution_ns < self._short_ns
            and not (instance.is_leaving or instance.is_limited)
        ):
            self._short[instance] = None

    def _declined(self) -> list[str]:
        """Return the instances that hold a grant for which there is nothing."""
        declined = [each for each in self._idle if each.is_granted]
        for each in declined:
            each.is_granted = False
        return [each.name for each in declined]


def _earlier(one_ns: int | None, other_ns: int | None) -> int | None:
    if one_ns is None or other_ns is None:
        return one_ns if other_ns is None else other_ns
    return min(one_ns, other_ns)
