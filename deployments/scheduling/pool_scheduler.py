# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the queue of a pool asks of a scheduler, and how a scheduler for one instance serves many.

Most schedulers do not care which instance executes a batch: whatever is free gets the next one.
Sequences do care: each has its slot on one instance. Both are a `PoolScheduler`, which is asked for
a batch by naming the instance that is free for it.

A request that an instance has lost, or could not be given, may *avoid* that instance: it then waits
for another one while there is one, but not for long: the other may be busy for a minute, and the
one avoided may have been out of reach for a moment only.

Triton: core/src/dynamic_batch_scheduler.cc has one queue for all instances of a version,
core/src/sequence_batch_scheduler/sequence_batch_scheduler.cc one backlog @73aad7c
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, Protocol

from backends.api.errors import TritonError
from deployments.scheduling.scheduler import Decision, Item, Scheduler

CorrelationId = int | str

# How long a request avoids an instance.
AVOID_NS: Final = 200_000_000

NO_SEQUENCES: Mapping[int, CorrelationId] = {}


class PoolScheduler(Protocol[Item]):
    """Decides which requests an instance of a pool executes next.

    Attributes:
        is_shared: Whether its answer is the same whichever free instance is named, unless something
            that waits avoids one.
        is_choosy: Whether something that waits avoids an instance.
    """

    @property
    def is_shared(self) -> bool: ...  # noqa: D102
    @property
    def is_choosy(self) -> bool: ...  # noqa: D102

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have something to give up; None means never."""

    @property
    def sequence_count(self) -> int:
        """Sequences that have started and not ended."""

    @property
    def free_slot_count(self) -> int:
        """Slots that are free for the next sequences."""

    @property
    def idle_at_ns(self) -> int | None:
        """When a sequence first goes idle, which `expire` ends; None means never."""

    def knows(self, correlation_id: CorrelationId) -> bool:
        """Whether a sequence of this id goes on here."""

    def join(
        self, instance: str, running: Mapping[int, CorrelationId] = NO_SEQUENCES, now_ns: int = 0
    ) -> None:
        """Take an instance in.

        Args:
            instance: Its name.
            running: By slot, the sequences that run there already: another holder started them.
                They are not idle before `executed` is called.
            now_ns: Now.
        """

    def retire(self, instance: str) -> Sequence[Item]:
        """Let no sequence start on an instance any more; those that run there go on.

        Returns:
            Of the last one that any could have started on: what waits for a slot, given up.
        """

    def restore(self, instance: str, now_ns: int) -> None:
        """Take back that an instance was retired."""

    def leave(self, instance: str, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Forget an instance that is gone; return what was queued for its sequences."""

    def runs_on(self, instance: str) -> int:
        """Return how many sequences run on an instance."""

    def has_work(self, instance: str) -> bool:
        """Whether something waits that an instance might execute."""

    def enqueue(self, item: Item, now_ns: int) -> bool:
        """Take an item; on raise the caller still owns it.

        Returns:
            Whether free instances have to ask for a decision again.

        Raises:
            UnavailableError: The scheduler was stopped or its queue is full.
            InvalidArgumentError: The scheduler cannot place the request.
        """

    def avoid(self, item: Item, instance: str, now_ns: int) -> None:
        """Give an item that is queued to another instance than this one, if one is soon free."""

    def next_batch(self, instance: str, now_ns: int) -> Decision[Item]:
        """Decide for an instance that is free."""

    def executed(self, instance: str, batch: Sequence[Item], now_ns: int) -> None:
        """Learn that an instance has executed a batch.

        Items that are to be executed once more have ``is_rescheduled`` set.
        """

    def missed(self, instance: str, items: Sequence[Item]) -> None:
        """Learn that requests of a batch do not come to its instance: they are enqueued once more.

        It is called before `executed`.
        """

    def ended(self, instance: str, sequences: Mapping[int, CorrelationId], now_ns: int) -> None:
        """Learn that an instance has ended sequences by itself; call it before `executed`.

        Args:
            instance: Its name.
            sequences: By slot, the sequences.
            now_ns: Now.
        """

    def expire(self, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Give up requests whose time is over, and sequences that are idle."""

    def give_up(self, item: Item) -> bool:
        """Forget a sequence that waits for a slot, if nothing of it is here but this request.

        Returns:
            Whether it was so.
        """

    def stop(self) -> None:
        """Accept nothing more; what is queued is still handed out."""

    def clear(self) -> list[Item]:
        """Give up everything queued, oldest first."""


class SharedScheduler(Generic[Item]):
    """A scheduler to which all instances of a pool are alike.

    Args:
        inner: The scheduler.
    """

    __slots__ = ("_avoiding", "_inner", "_takers", "enqueue")

    is_shared = True
    sequence_count = 0
    free_slot_count = 0
    idle_at_ns = None

    def __init__(self, inner: Scheduler[Item]) -> None:
        self._inner = inner
        self.enqueue = inner.enqueue
        # What avoids which instance until when, and the instances that take what comes.
        self._avoiding: dict[Item, tuple[str, int]] = {}
        self._takers: set[str] = set()

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""
        return self._inner.pending_count

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have something to give up; None means never."""
        return self._inner.deadline_ns

    def knows(self, correlation_id: CorrelationId) -> bool:
        """Sequences are nothing to it."""
        del correlation_id
        return False

    def join(
        self, instance: str, running: Mapping[int, CorrelationId] = NO_SEQUENCES, now_ns: int = 0
    ) -> None:
        """Take an instance in; they are alike to it."""
        del running, now_ns
        self._takers.add(instance)

    def retire(self, instance: str) -> Sequence[Item]:
        """Do not count on an instance."""
        self._takers.discard(instance)
        return ()

    def restore(self, instance: str, now_ns: int) -> None:
        """Count on an instance again."""
        del now_ns
        self._takers.add(instance)

    def leave(self, instance: str, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Give up nothing: what is queued is for any instance."""
        del now_ns
        self._takers.discard(instance)
        return []

    def runs_on(self, instance: str) -> int:
        """No sequence does."""
        del instance
        return 0

    def has_work(self, instance: str) -> bool:
        """Whether something waits."""
        del instance
        return self._inner.pending_count > 0

    @property
    def is_choosy(self) -> bool:
        """Whether something that waits avoids an instance."""
        return bool(self._avoiding)

    def avoid(self, item: Item, instance: str, now_ns: int) -> None:
        """Give an item that is queued to another instance than this one, if one is soon free."""
        self._avoiding[item] = instance, now_ns + AVOID_NS

    def next_batch(self, instance: str, now_ns: int) -> Decision[Item]:
        """Decide for an instance that is free."""
        if self._avoiding:
            return self._next_for(instance, now_ns)
        return self._inner.next_batch(now_ns)

    def _next_for(self, instance: str, now_ns: int) -> Decision[Item]:
        """Decide for an instance; what avoids it is queued once more, behind the others."""
        avoiding = self._avoiding_now(instance, now_ns) if self._takers - {instance} else {}
        dropped: list[tuple[Item, TritonError]] = []
        put_back: set[Item] = set()
        while True:
            decision = self._inner.next_batch(now_ns)
            dropped += decision.dropped
            avoids = avoiding.keys() & decision.batch
            if not avoids:
                break
            for item in decision.batch:
                if item in avoids:
                    dropped += self._put_back(item, now_ns)
            batch = [item for item in decision.batch if item not in avoids]
            if batch or avoids <= put_back:
                decision = Decision(batch, None if batch else min(avoiding.values()))
                break
            put_back |= avoids
        for item in (*decision.batch, *(item for item, _ in dropped)):
            self._avoiding.pop(item, None)
        return decision._replace(dropped=dropped)

    def _avoiding_now(self, instance: str, now_ns: int) -> dict[Item, int]:
        """Return what avoids an instance, and until when."""
        return {
            item: until_ns
            for item, (avoided, until_ns) in self._avoiding.items()
            if avoided == instance and now_ns < until_ns
        }

    def _put_back(self, item: Item, now_ns: int) -> list[tuple[Item, TritonError]]:
        try:
            self._inner.enqueue(item, now_ns)
        except TritonError as error:
            return [(item, error)]
        return []

    def expire(self, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Give up requests whose time is over."""
        dropped = self._inner.expire(now_ns)
        if self._avoiding:
            for item, _ in dropped:
                self._avoiding.pop(item, None)
        return dropped

    def executed(self, instance: str, batch: Iterable[Item], now_ns: int) -> None:
        """What was executed is nothing to it any more."""

    def missed(self, instance: str, items: Sequence[Item]) -> None:
        """They are nothing to it until they are enqueued once more."""

    def ended(self, instance: str, sequences: Mapping[int, CorrelationId], now_ns: int) -> None:
        """Sequences are nothing to it."""

    def give_up(self, item: Item) -> bool:
        """Sequences are nothing to it."""
        del item
        return False

    def stop(self) -> None:
        """Accept nothing more; what is queued is still handed out."""
        self._inner.stop()

    def clear(self) -> list[Item]:
        """Give up everything queued, oldest first."""
        self._avoiding.clear()
        return self._inner.clear()
