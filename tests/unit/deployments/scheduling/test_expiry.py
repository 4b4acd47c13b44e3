# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that expire or are cancelled in long queues leave them in time, at little cost."""

import pytest

from backends.api.model_config import QueuePolicy
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.priority_queue import QueueRules
from tests.support.queued_items import FakeItem

US = 1000
# How long a request may stay after its time, for each request that waits.
GRACE_NS = 3 * US


class Watched(FakeItem):
    """Counts how often it is asked whether it is cancelled."""

    looked = 0
    is_gone = False

    @property
    def is_cancelled(self) -> bool:
        Watched.looked += 1
        return self.is_gone

    @is_cancelled.setter
    def is_cancelled(self, value: bool) -> None:
        self.is_gone = value


def queue(count: int, policy: QueuePolicy, **fields) -> tuple[DynamicBatcher, list[Watched]]:
    batcher: DynamicBatcher = DynamicBatcher(1, rules=QueueRules(policy))
    items = [Watched(str(number), enqueue_ns=number * 10 * US, **fields) for number in range(count)]
    for item in items:
        batcher.enqueue(item, item.enqueue_ns)
    Watched.looked = 0
    return batcher, items


def expire_all(batcher: DynamicBatcher) -> list[tuple[int, FakeItem]]:
    """Call `expire` whenever it is due; return what it dropped, and when."""
    dropped = []
    while (deadline_ns := batcher.deadline_ns) is not None:
        dropped += [(deadline_ns, item) for item, _ in batcher.expire(deadline_ns)]
    return dropped


def test_requests_of_one_timeout_expire_on_time_and_none_is_looked_at_again_and_again():
    batcher, items = queue(2000, QueuePolicy(default_timeout_us=100_000))
    dropped = expire_all(batcher)
    assert [item for _, item in dropped] == items
    assert [at for at, _ in dropped] == [item.enqueue_ns + 100_000 * US for item in items]
    assert Watched.looked < 20 * len(items)
    assert batcher.pending_count == 0


def test_a_shorter_timeout_of_its_own_expires_a_request_behind_others():
    policy = QueuePolicy(default_timeout_us=1_000_000, allow_timeout_override=True)
    batcher, items = queue(1000, policy)
    for number in range(100, 200):
        items[number].timeout_us = 20_000
    batcher.expire(0)
    Watched.looked = 0
    dropped = expire_all(batcher)
    early = dropped[:100]
    assert [item for _, item in early] == items[100:200]
    late_ns = max(at - item.enqueue_ns - 20_000 * US for at, item in early)
    assert 0 <= late_ns <= GRACE_NS * 1000
    assert Watched.looked < 20 * len(items)


@pytest.mark.parametrize("timeout_us", [0, 1_000_000])
def test_cancelled_requests_leave_the_middle_of_a_queue_soon(timeout_us):
    batcher, items = queue(1000, QueuePolicy(default_timeout_us=timeout_us))
    now_ns = 20_000 * US
    for item in items[100:600]:
        item.is_cancelled = True
        batcher.expire(now_ns)
        now_ns += US
    deadline_ns = batcher.deadline_ns
    assert deadline_ns <= now_ns + GRACE_NS * 1000
    batcher.expire(deadline_ns)
    assert batcher.pending_count == 500
    assert Watched.looked < 20 * len(items)
    assert (batcher.deadline_ns is None) == (timeout_us == 0)


def test_a_cancelled_request_leaves_a_short_queue_at_once():
    batcher, items = queue(3, QueuePolicy())
    items[1].is_cancelled = True
    assert [item for item, _ in batcher.expire(30 * US)] == [items[1]]
