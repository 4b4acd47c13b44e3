# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler that does not batch."""

from collections import deque
from typing import Generic

from backends.api.errors import RequestCancelledError, TritonError, UnavailableError
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.scheduler import STOPPED, Decision, Item


class DefaultScheduler(Generic[Item]):
    """First in, first out, every request executed by itself; a client's batch stays whole.

    While requests of several tenants are queued, a batcher of single requests has them.
    """

    __slots__ = ("_fair", "_queue", "_stopped", "_tenant")

    sequence_count = 0

    def __init__(self) -> None:
        self._queue: deque[Item] = deque()
        self._fair: DynamicBatcher[Item] | None = None
        # Whose requests are queued; None for several tenants'.
        self._tenant: str | None = ""
        self._stopped = False

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""
        return len(self._queue) if self._fair is None else self._fair.pending_count

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have something to give up."""
        return None if self._fair is None else self._fair.deadline_ns

    def enqueue(self, item: Item, now_ns: int) -> bool:
        """Queue an item; always asks for a decision.

        Raises:
            UnavailableError: The scheduler was stopped.
        """
        if self._stopped:
            raise UnavailableError(STOPPED)
        if item.tenant != self._tenant:
            self._meet(item, now_ns)
        if self._fair is not None:
            return self._fair.enqueue(item, now_ns)
        self._queue.append(item)
        return True

    def next_batch(self, now_ns: int) -> Decision[Item]:
        """Hand out the oldest request that is not cancelled."""
        if self._fair is not None:
            return self._fair.next_batch(now_ns)
        queue = self._queue
        dropped: list[tuple[Item, TritonError]] = []
        while queue:
            item = queue.popleft()
            if not item.is_cancelled:
                return Decision([item], None, dropped)
            dropped.append((item, RequestCancelledError()))
        return Decision([], None, dropped)

    def expire(self, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Give up nothing but what is cancelled among several tenants' requests."""
        return [] if self._fair is None else self._fair.expire(now_ns)

    def knows(self, correlation_id: int | str) -> bool:
        """Sequences are nothing to it."""
        del correlation_id
        return False

    def stop(self) -> None:
        """Accept nothing more."""
        self._stopped = True

    def clear(self) -> list[Item]:
        """Give up everything queued, oldest first."""
        items = list(self._queue) if self._fair is None else self._fair.clear()
        self._queue.clear()
        return items

    def _meet(self, item: Item, now_ns: int) -> None:
        """Prepare for a request of another tenant than those that are queued, or one of several."""
        if not self.pending_count:
            self._fair, self._tenant = None, item.tenant
        elif self._fair is None:
            self._fair, self._tenant = DynamicBatcher(1), None
            for queued in self._queue:
                self._fair.enqueue(queued, now_ns)
            self._queue.clear()
