# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The dynamic batcher.

The requests that would run together now are the *forming batch*: the queue is walked from its head
and each request is added until one does not fit (too large, or of another signature). The batcher
never looks behind that one, never splits a request and never reorders. Whether the forming batch
runs is then a question of preferred sizes and of the age of its oldest request.

The walk resumes where it stopped, so a request is looked at once however often the executor asks;
it starts over only when a request in the forming batch was cancelled or has expired.

Triton: core/src/dynamic_batch_scheduler.cc GetDynamicBatch @73aad7c
"""

from collections import deque
from typing import Generic

from backends.api.errors import RequestCancelledError, TritonError, UnavailableError
from backends.api.model_config import QueuePolicy
from backends.api.request import id_prefix
from deployments.scheduling.scheduler import STOPPED, Decision, Item

_NS_PER_US = 1000
_NEVER = 1 << 63


class DynamicBatcher(Generic[Item]):
    """Batches requests of several clients, in the order they came.

    Args:
        max_batch_size: No batch is larger; at least 1.
        preferred_batch_size: Sizes that run without waiting for more; none means the largest size.
        max_queue_delay_us: How long a request may wait for its batch to grow; 0 runs whatever is
            queued.
        queue_policy: Limit of the queue and queue timeout. A timeout rejects; DELAY is not served.
    """

    __slots__ = (
        "_batch",
        "_best_count",
        "_delay_ns",
        "_dropped",
        "_expires_ns",
        "_is_closed",
        "_max_batch_size",
        "_max_preferred",
        "_policy",
        "_preferred",
        "_queue",
        "_size",
        "_stopped",
    )

    def __init__(
        self,
        max_batch_size: int,
        preferred_batch_size: tuple[int, ...] = (),
        max_queue_delay_us: int = 0,
        queue_policy: QueuePolicy | None = None,
    ) -> None:
        self._max_batch_size = max_batch_size
        self._preferred = frozenset(preferred_batch_size or (max_batch_size,))
        self._max_preferred = max(self._preferred)
        self._delay_ns = max_queue_delay_us * _NS_PER_US
        self._policy = queue_policy or QueuePolicy()
        self._queue: deque[Item] = deque()
        self._dropped: list[tuple[Item, TritonError]] = []
        self._stopped = False
        # The forming batch: its requests, their size, how many of them make the best preferred
        # size, the first expiry among them, and whether the head of the queue cannot join.
        self._batch: list[Item] = []
        self._size = 0
        self._best_count = 0
        self._expires_ns = _NEVER
        self._is_closed = False

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""
        return len(self._queue) + len(self._batch)

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
        limit = self._policy.max_queue_size
        if limit and self.pending_count >= limit:
            raise UnavailableError(id_prefix(item.request_id) + "Exceeds maximum queue size")
        if not self._delay_ns:
            self._queue.append(item)
            return True
        was_empty = not self._batch
        self._queue.append(item)
        self._walk(now_ns)
        return (
            was_empty
            or self._is_closed
            or self._best_count > 0
            or self._size >= self._max_preferred
            or self._expires_ns < _NEVER
        )

    def next_batch(self, now_ns: int) -> Decision[Item]:
        """Decide for an instance that is free."""
        batch = self._batch
        if batch and (self._expires_ns <= now_ns or any(item.is_cancelled for item in batch)):
            self._rewind(0)
        self._walk(now_ns)
        dropped, self._dropped = self._dropped, []
        batch = self._batch
        if not batch:
            return Decision([], None, dropped)
        deadline_ns = batch[0].enqueue_ns + self._delay_ns
        is_late = self._delay_ns > 0 and now_ns >= deadline_ns
        if self._best_count and not is_late:
            return Decision(self._take(self._best_count), None, dropped)
        if self._is_closed or self._size >= self._max_preferred or is_late or not self._delay_ns:
            return Decision(self._take(len(batch)), None, dropped)
        return Decision([], min(deadline_ns, self._expires_ns), dropped)

    def remove(self, item: Item) -> bool:
        """Take an item back out of the queue; False when it is not in it."""
        self._rewind(0)
        try:
            self._queue.remove(item)
        except ValueError:
            return False
        return True

    def stop(self) -> None:
        """Accept nothing more."""
        self._stopped = True

    def clear(self) -> list[Item]:
        """Give up everything queued, oldest first."""
        self._rewind(0)
        items = [item for item, _ in self._dropped]
        items.extend(self._queue)
        self._dropped = []
        self._queue.clear()
        return items

    def _walk(self, now_ns: int) -> None:
        queue, batch = self._queue, self._batch
        while queue and not self._is_closed:
            item = queue[0]
            expires_ns = self._expiry_ns(item)
            if item.is_cancelled:
                self._dropped.append((queue.popleft(), RequestCancelledError()))
                continue
            if expires_ns <= now_ns:
                error = UnavailableError("Request timeout expired")
                self._dropped.append((queue.popleft(), error))
                continue
            size = self._size + item.batch_size
            if batch:
                if size > self._max_preferred and not self._best_count:
                    self._best_count = len(batch)
                if size > self._max_batch_size or item.signature != batch[0].signature:
                    self._is_closed = True
                    return
            batch.append(queue.popleft())
            self._size = size
            if size in self._preferred:
                self._best_count = len(batch)
            self._expires_ns = min(self._expires_ns, expires_ns)

    def _expiry_ns(self, item: Item) -> int:
        timeout_us = self._policy.default_timeout_us
        # An override counts only when it is shorter than the default, so none without a default.
        if self._policy.allow_timeout_override and 0 < item.timeout_us < timeout_us:
            timeout_us = item.timeout_us
        return item.enqueue_ns + timeout_us * _NS_PER_US if timeout_us else _NEVER

    def _take(self, count: int) -> list[Item]:
        batch = self._batch
        self._rewind(count)
        del batch[count:]
        return batch

    def _rewind(self, start: int) -> None:
        self._queue.extendleft(reversed(self._batch[start:]))
        self._batch = []
        self._size = self._best_count = 0
        self._expires_ns = _NEVER
        self._is_closed = False
