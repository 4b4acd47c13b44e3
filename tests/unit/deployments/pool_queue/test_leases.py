# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Leases of a pool with its real queue: which instances, for whom, and for how long unused."""

import pytest

from deployments.lane.client import LaneClient
from deployments.pool_queue.leases import UNUSED_NS, Leases
from deployments.pool_queue.ticket_server import PartyLane
from deployments.scheduling.factory import make_pool_scheduler
from deployments.scheduling.holds import NO_HOLDS
from deployments.scheduling.pool_queue import PoolQueue
from tests.support.queued_items import FakeItem
from tests.support.ticket_rig import CONFIG, EPOCH


class Router(PartyLane):
    """Notes its leases; there is no connection."""

    def __init__(self):
        self.leases = []

    def lease(self, lease):
        self.leases.append((lease.number, lease.instance))


class Lane(LaneClient):
    """Notes what it is told; there is no connection."""

    def __init__(self):
        self.forgotten = []

    def forget(self, forget):
        assert (forget.epoch, forget.count, forget.party) == (EPOCH, 1, 0)
        self.forgotten.append(forget.number)


class Pool:
    """A pool of two instances, and its leases."""

    def __init__(self):
        self.queue = PoolQueue(make_pool_scheduler(CONFIG, NO_HOLDS))
        self.lanes = {name: Lane() for name in "ab"}
        for name in self.lanes:
            self.queue.join(name)
        self.now_ns = 0
        self.leases = Leases(self.queue, self.lanes, ("model", 1), EPOCH)

    def make(self, router):
        return self.leases.make(router, self.now_ns)

    def pass_until(self, now_ns):
        self.now_ns = now_ns
        self.leases.expire(now_ns)


@pytest.fixture
def pool():
    return Pool()


def test_each_free_instance_is_leased_once(pool):
    router = Router()
    assert [pool.make(router) for _ in range(3)] == [True, True, False]
    assert sorted(instance for _, instance in router.leases) == ["a", "b"]
    assert pool.queue.free_count == 0
    assert pool.queue.next(0).batches == []


def test_no_instance_is_leased_that_leaves_or_needs_a_grant_or_while_something_waits(pool):
    pool.queue.retire("a")
    pool.queue.join("c", is_limited=True)
    router = Router()
    assert [pool.make(router) for _ in range(2)] == [True, False]
    assert router.leases[0][1] == "b"
    pool.queue.enqueue(FakeItem("x"), 0)
    pool.queue.join("d")
    assert not pool.make(router)


def test_only_who_has_a_lease_can_give_it_back_and_once(pool):
    router = Router()
    pool.make(router)
    number = router.leases[0][0]
    pool.leases.returned(Router(), number)
    assert pool.queue.free_count == 1
    pool.leases.returned(router, number)
    assert pool.queue.free_count == 2
    (batch,) = _given(pool, "x")
    pool.leases.returned(router, number)
    assert batch.number in pool.queue.instances[batch.instance].batches


def _given(pool, name):
    pool.queue.enqueue(FakeItem(name), 0)
    return pool.queue.next(0).batches


def test_a_lease_that_is_not_used_in_time_is_its_instances_to_forget(pool):
    router = Router()
    pool.make(router)
    pool.now_ns = 5
    pool.make(router)
    assert pool.leases.deadline_ns == UNUSED_NS
    (first, at_first), (second, at_second) = router.leases
    pool.pass_until(UNUSED_NS - 1)
    assert not pool.lanes[at_first].forgotten
    pool.pass_until(UNUSED_NS + 4)
    assert pool.lanes[at_first].forgotten == [first]
    assert not pool.lanes[at_second].forgotten
    # Something of it may have come: the instance says when it is free.
    assert pool.queue.free_count == 0
    pool.leases.returned(router, first)
    assert pool.queue.free_count == 0
    pool.queue.executed(at_first, first, 0, pool.now_ns)
    assert pool.queue.free_count == 1
    pool.pass_until(UNUSED_NS + 5)
    assert pool.lanes[at_second].forgotten == [second]
    assert pool.leases.deadline_ns is None


def test_nothing_is_said_of_a_lease_that_is_over_or_whose_instance_is_gone(pool):
    router = Router()
    for _ in range(2):
        pool.make(router)
    (first, at_first), (_, at_second) = router.leases
    pool.leases.ended(first)
    gone = pool.lanes.pop(at_second)
    pool.pass_until(UNUSED_NS)
    assert pool.lanes[at_first].forgotten == gone.forgotten == []


def test_only_the_leases_of_a_router_that_is_gone_are_forgotten(pool):
    router, other = Router(), Router()
    pool.make(router)
    pool.make(other)
    ((number, instance),) = router.leases
    pool.leases.party_lost(router)
    assert pool.lanes[instance].forgotten == [number]
    assert not pool.lanes[other.leases[0][1]].forgotten
