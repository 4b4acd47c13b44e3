# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The dynamic batcher.

The requests that would run together now are the *forming batch*: the queue is walked from its head
and each request is added until one does not fit (too large, or of another signature). The batcher
never looks behind that one, never splits a request and never reorders. Whether the forming batch
runs is then a question of preferred sizes and of the age of its oldest request.

The walk resumes where it stopped, so a request is looked at once however often the executor asks;
it starts over only when a request in the forming batch was cancelled or has expired, or when one
came that is served before the last of them.

All requests are one tenant's as a rule. When one of another tenant comes while some are queued, the
queue is one by tenants until it is empty (`deployments.scheduling.fair_queue`).

Triton: core/src/dynamic_batch_scheduler.cc GetDynamicBatch @73aad7c
"""

from typing import Generic

from backends.api.errors import TritonError, UnavailableError
from deployments.scheduling.fair_queue import FairQueue
from deployments.scheduling.priority_queue import NEVER, PriorityQueue, QueueRules, Rank
from deployments.scheduling.scheduler import STOPPED, Decision, Item

_NS_PER_US = 1000
_DEFAULT_RULES = QueueRules()


class DynamicBatcher(Generic[Item]):
    """Batches requests of several clients, in the order of their levels and of their arrival.

    Args:
        max_batch_size: No batch is larger; at least 1. A larger request runs by itself.
        preferred_batch_size: Sizes that run without waiting for more; none means the largest size.
        max_queue_delay_us: How long a request may wait for its batch to grow; 0 runs whatever is
            queued.
        rules: Priority levels, and each level's limit and timeout.
    """

    __slots__ = (
        "_batch",
        "_best_count",
        "_delay_ns",
        "_expires_ns",
        "_fair",
        "_is_closed",
        "_last_index",
        "_max_batch_size",
        "_max_preferred",
        "_oldest_ns",
        "_plain",
        "_preferred",
        "_queue",
        "_ranks",
        "_rules",
        "_size",
        "_stopped",
        "_tenant",
    )

    def __init__(
        self,
        max_batch_size: int,
        preferred_batch_size: tuple[int, ...] = (),
        max_queue_delay_us: int = 0,
        rules: QueueRules = _DEFAULT_RULES,
    ) -> None:
        self._max_batch_size = max_batch_size
        self._preferred = frozenset(preferred_batch_size or (max_batch_size,))
        self._max_preferred = max(self._preferred)
        self._delay_ns = max_queue_delay_us * _NS_PER_US
        self._rules = rules
        self._plain: PriorityQueue[Item] = PriorityQueue(rules)
        # The one of these two that is used; whose requests are queued, None for several tenants'.
        self._queue = self._plain
        self._fair: FairQueue[Item] | None = None
        self._tenant: str | None = ""
        self._stopped = False
        # The forming batch: its requests and the ranks they came from, their size, how many of
        # them make the best preferred size, the oldest arrival and the first expiry among them,
        # the last rank looked at, and whether the head of the queue cannot join.
        self._batch: list[Item] = []
        self._ranks: list[Rank[Item]] = []
        self._size = 0
        self._best_count = 0
        self._oldest_ns = NEVER
        self._expires_ns = NEVER
        self._last_index = 0
        self._is_closed = False

    sequence_count = 0

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""
        return self._queue.count

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have a request to reject."""
        deadline_ns = self._queue.deadline_ns
        return None if deadline_ns == NEVER else deadline_ns

    def enqueue(self, item: Item, now_ns: int) -> bool:
        """Queue an item; on raise the caller still owns it.

        Returns:
            Whether a waiting executor has to ask again: not while the forming batch only grows
            towards its delay.

        Raises:
            UnavailableError: The batcher was stopped, or ``max_queue_size`` requests wait.
        """
        if self._stopped:
            raise UnavailableError(STOPPED)
        if item.tenant != self._tenant:
            self._meet(item)
        was_empty = not self._batch
        rank = self._queue.admit(item)
        if rank.index < self._last_index:
            self._rewind(0)
        if not self._delay_ns:
            return True
        self._walk(now_ns)
        return (
            was_empty
            or self._is_closed
            or self._best_count > 0
            or self._size >= self._max_preferred
            or self._expires_ns < NEVER
        )

    def next_batch(self, now_ns: int) -> Decision[Item]:
        """Decide for an instance that is free."""
        batch, queue = self._batch, self._queue
        if batch and (
            self._expires_ns <= now_ns
            or queue.is_ageing
            or any(item.is_cancelled for item in batch)
        ):
            self._rewind(0)
        self._walk(now_ns)
        dropped: list[tuple[Item, TritonError]] | tuple[()] = ()
        if queue.dropped:
            dropped, queue.dropped = queue.dropped, []
        if not self._batch:
            return Decision([], None, dropped)
        deadline_ns = self._oldest_ns + self._delay_ns
        is_late = self._delay_ns > 0 and now_ns >= deadline_ns
        if self._best_count and not is_late:
            return Decision(self._take(self._best_count), None, dropped)
        if self._is_closed or self._size >= self._max_preferred or is_late or not self._delay_ns:
            return Decision(self._take(len(self._batch)), None, dropped)
        return Decision([], min(deadline_ns, self._expires_ns), dropped)

    def expire(self, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Give up what is cancelled or has waited its timeout, though no instance is free."""
        self._rewind(0)
        self._queue.expire(now_ns)
        dropped, self._queue.dropped = self._queue.dropped, []
        return dropped

    def knows(self, correlation_id: int | str) -> bool:
        """Sequences are nothing to it."""
        del correlation_id
        return False

    def stop(self) -> None:
        """Accept nothing more."""
        self._stopped = True

    def clear(self) -> list[Item]:
        """Give up everything queued, in the order it would be served."""
        self._rewind(0)
        return self._queue.clear()

    def _meet(self, item: Item) -> None:
        """Prepare for a request of another tenant than those that are queued, or one of several."""
        queue = self._queue
        if not queue.count and not queue.dropped:
            self._queue, self._fair, self._tenant = self._plain, None, item.tenant
            return
        if self._fair is None and self._tenant is not None:
            self._rewind(0)
            self._queue = self._fair = FairQueue(self._rules, self._tenant, self._plain)
            self._tenant = None
        elif self._fair is not None and self._fair.displaces(item):
            self._rewind(0)

    def _walk(self, now_ns: int) -> None:
        queue, batch, fair = self._queue, self._batch, self._fair
        while not self._is_closed:
            rank = queue.head(now_ns)
            if rank is None:
                return
            item = rank.items[0]
            self._last_index = max(self._last_index, rank.index)
            size = self._size + item.batch_size
            if batch:
                if size > self._max_preferred and not self._best_count:
                    self._best_count = len(batch)
                if size > self._max_batch_size or item.signature != batch[0].signature:
                    self._is_closed = True
                    return
            batch.append(rank.items.popleft())
            if fair is not None:
                fair.popped(item)
            self._ranks.append(rank)
            self._size = size
            if size in self._preferred:
                self._best_count = len(batch)
            self._oldest_ns = min(self._oldest_ns, item.enqueue_ns)
            if rank.level.timeout_ns:
                self._expires_ns = min(self._expires_ns, rank.expires_ns(item))

    def _take(self, count: int) -> list[Item]:
        batch, ranks = self._batch, self._ranks
        self._rewind(count)
        if count < len(batch):
            del batch[count:], ranks[count:]
        self._queue.taken(ranks)
        return batch

    def _rewind(self, start: int) -> None:
        """Put back all but the first ``start`` requests of the forming batch and begin another."""
        for index in range(len(self._batch) - 1, start - 1, -1):
            self._ranks[index].items.appendleft(self._batch[index])
        if self._fair is not None:
            self._fair.put_back(start)
        self._batch = []
        self._ranks = []
        self._size = self._best_count = self._last_index = 0
        self._oldest_ns = self._expires_ns = NEVER
        self._is_closed = False
