# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler of a pool as the scheduler of its only instance.

An instance that is on its own asks for a batch when it is free, so asking says that the last batch
is executed.
"""

from typing import Generic

from deployments.scheduling.pool_scheduler import PoolScheduler
from deployments.scheduling.scheduler import Decision, Item

_ITSELF = ""


class SoloScheduler(Generic[Item]):
    """Asks a pool's scheduler for one instance.

    Args:
        pool: The scheduler, without any instance yet.
    """

    __slots__ = ("_executing", "_pool", "enqueue", "expire", "knows", "stop")

    def __init__(self, pool: PoolScheduler[Item]) -> None:
        pool.join(_ITSELF)
        self._pool = pool
        self._executing: list[Item] = []
        self.enqueue = pool.enqueue
        self.expire = pool.expire
        self.knows = pool.knows
        self.stop = pool.stop

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""
        return self._pool.pending_count

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have something to give up; None means never."""
        return self._pool.deadline_ns

    @property
    def sequence_count(self) -> int:
        """Sequences that have started and not ended."""
        return self._pool.sequence_count

    def next_batch(self, now_ns: int) -> Decision[Item]:
        """Decide for an instance that is free: what it executed before is done."""
        pool = self._pool
        if self._executing:
            executed, self._executing = self._executing, []
            pool.executed(_ITSELF, executed, now_ns)
        decision = pool.next_batch(_ITSELF, now_ns)
        self._executing = decision.batch
        return decision

    def clear(self) -> list[Item]:
        """Give up everything queued, oldest first."""
        self._executing = []
        return self._pool.clear()
