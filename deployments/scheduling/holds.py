# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Schedulers that are held back until some requests are queued, for tests of batches.

Two environment variables of Triton say for how many. Once that many wait at the same time, the hold
is over for good. Schedulers that do not batch are never held.

========================== ===================================== ==================================
scheduler                  TRITONSERVER_DELAY_SCHEDULER counts   TRITONSERVER_BACKLOG_DELAY_...
========================== ===================================== ==================================
dynamic batcher            requests in the queue of the pool     nothing
sequences, strategy direct requests in the slots of all          and as well requests of sequences
                           instances of the pool                 in the backlog of the pool
sequences, strategy oldest requests in an instance's dynamic     nothing
                           batcher: at most one of each sequence
========================== ===================================== ==================================

Triton: core/src/dynamic_batch_scheduler.cc BatcherThread,
core/src/sequence_batch_scheduler/sequence_batch_scheduler.cc DelayScheduler, which counts a backlog
only where the first variable is set @73aad7c
"""

import re
from collections.abc import Mapping
from typing import Generic, NamedTuple

from backends.api.errors import TritonError
from deployments.scheduling.scheduler import Decision, Item, Scheduler

_DELAY = "TRITONSERVER_DELAY_SCHEDULER"
_BACKLOG = "TRITONSERVER_BACKLOG_DELAY_SCHEDULER"
_LEADING_NUMBER = re.compile(r"\s*\+?(\d+)")


class Holds(NamedTuple):
    """How long schedulers are held back.

    Attributes:
        delay_count: Requests that have to be queued; 0 holds nothing back.
        backlog_count: Requests that have to be in the backlog of sequences besides.
    """

    delay_count: int = 0
    backlog_count: int = 0


NO_HOLDS = Holds()


def holds_of(environ: Mapping[str, str]) -> Holds:
    """Return what a process's environment asks for; what is not a number counts as 0."""
    return Holds(_number(environ.get(_DELAY, "")), _number(environ.get(_BACKLOG, "")))


def _number(text: str) -> int:
    match = _LEADING_NUMBER.match(text)
    return int(match.group(1)) if match is not None else 0


class HeldScheduler(Generic[Item]):
    """A scheduler that hands out nothing before so many requests are queued.

    Args:
        inner: The scheduler.
        count: How many.
    """

    sequence_count = 0

    def __init__(self, inner: Scheduler[Item], count: int) -> None:
        self._inner = inner
        self._count = count
        self._is_held = True

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""
        return self._inner.pending_count

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have something to give up; None means never."""
        return self._inner.deadline_ns

    def knows(self, correlation_id: int | str) -> bool:
        """Sequences are nothing to it."""
        del correlation_id
        return False

    def enqueue(self, item: Item, now_ns: int) -> bool:
        """Take an item; see `Scheduler.enqueue`."""
        is_due = self._inner.enqueue(item, now_ns)
        if self._is_held and self._inner.pending_count >= self._count:
            self._is_held = False
            return True
        return is_due

    def next_batch(self, now_ns: int) -> Decision[Item]:
        """Decide for an instance that is free."""
        return Decision([]) if self._is_held else self._inner.next_batch(now_ns)

    def expire(self, now_ns: int) -> list[tuple[Item, TritonError]]:
        """Give up requests whose time is over."""
        return self._inner.expire(now_ns)

    def stop(self) -> None:
        """Accept nothing more."""
        self._inner.stop()

    def clear(self) -> list[Item]:
        """Give up everything queued, oldest first."""
        return self._inner.clear()
