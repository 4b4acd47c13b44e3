# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Leases of a pool with its real queue: made while it is idle, called back when requests wait."""

import pytest

from deployments.pool_queue.lease_desk import LeaseDesk
from deployments.pool_queue.leases import UNUSED_NS
from deployments.scheduling.factory import make_pool_scheduler
from deployments.scheduling.holds import NO_HOLDS
from deployments.scheduling.pool_queue import PoolQueue
from tests.support.queued_items import FakeItem
from tests.support.ticket_rig import CONFIG

MS = 1_000_000


class Router:
    def __init__(self, *, is_local=True):
        self.is_local = is_local
        self.leases = []
        self.called = []

    def lease(self, lease):
        self.leases.append((lease.number, lease.instance))

    def call_back(self, lease):
        self.called.append(lease.number)


class Clock:
    """Rings when the test's time has come."""

    def __init__(self):
        self.now_ns = 0
        self.waiting = []

    def call_at_ns(self, at_ns, callback):
        entry = [at_ns, callback]
        self.waiting.append(entry)
        clock = self

        class Handle:
            def cancel(self):
                clock.waiting.remove(entry)

        return Handle()

    def pass_until(self, now_ns):
        self.now_ns = now_ns
        for entry in [each for each in self.waiting if each[0] <= now_ns]:
            self.waiting.remove(entry)
            entry[1]()


class Pool:
    """A pool of two instances, and its desk."""

    def __init__(self):
        self.queue = PoolQueue(make_pool_scheduler(CONFIG, NO_HOLDS))
        self.clock = Clock()
        self.desk = LeaseDesk(
            self.queue, "model", 1, 7, self.clock, clock_ns=lambda: self.clock.now_ns
        )
        for instance in "ab":
            self.queue.join(instance)

    def look(self, now_ns):
        batches = self.queue.next(now_ns).batches
        self.desk.look(now_ns)
        return batches

    def request(self, now_ns, router=None):
        """Queue a request, and return its batch if there is one."""
        self.queue.enqueue(FakeItem("r", enqueue_ns=now_ns), now_ns)
        batches = self.queue.next(now_ns).batches
        for batch in batches:
            if router is None:
                self.desk.used_here(now_ns)
            else:
                self.desk.began(batch.number, router, now_ns)
        self.desk.look(now_ns)
        return batches

    def executed(self, instance, number, now_ns):
        self.queue.executed(instance, number, MS, now_ns)
        self.desk.ended(number, now_ns)
        return self.look(now_ns)


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture
def leased(pool):
    """A router that has a lease of the instance it used."""
    router = Router()
    (batch,) = pool.request(0, router)
    assert not router.leases
    pool.executed(batch.instance, batch.number, MS)
    ((number, instance),) = router.leases
    assert instance == batch.instance
    assert pool.queue.free_count == 1
    router.number, router.instance = number, instance
    return router


def test_a_lease_that_was_used_is_made_again(pool, leased):
    pool.executed(leased.instance, leased.number, 2 * MS)
    assert [instance for _, instance in leased.leases] == [leased.instance] * 2
    assert not leased.called


def test_a_request_that_waits_calls_leases_back(pool, leased):
    (batch,) = pool.request(2 * MS)
    assert batch.instance != leased.instance
    assert not leased.called
    assert not pool.request(3 * MS)
    assert leased.called == [leased.number]
    pool.desk.returned(leased.number, leased)
    (waited,) = pool.look(4 * MS)
    assert waited.instance == leased.instance
    assert len(leased.leases) == 1


def test_a_router_of_another_node_gets_no_lease(pool):
    router = Router(is_local=False)
    (batch,) = pool.request(0, router)
    pool.executed(batch.instance, batch.number, MS)
    assert not router.leases


def test_what_another_router_gives_back_stays_leased(pool, leased):
    pool.desk.returned(leased.number, Router())
    assert pool.queue.free_count == 1


def test_an_unused_lease_is_called_back_after_a_second(pool, leased):
    pool.clock.pass_until(UNUSED_NS)
    assert not leased.called
    pool.clock.pass_until(MS + UNUSED_NS)
    assert leased.called == [leased.number]
    pool.desk.returned(leased.number, leased)
    pool.look(pool.clock.now_ns)
    assert len(leased.leases) == 1
    assert pool.queue.free_count == 2
    assert not pool.clock.waiting


def test_the_leases_of_a_router_that_is_gone_free_their_instances(pool, leased):
    pool.desk.party_lost(leased)
    assert pool.queue.free_count == 2
    pool.executed(leased.instance, leased.number, 2 * MS)  # it had been used
    assert pool.queue.free_count == 2
    assert len(leased.leases) == 1


def test_a_lease_ends_with_its_instance(pool, leased):
    pool.desk.left(leased.instance, 2 * MS)
    pool.queue.leave(leased.instance, 2 * MS)
    pool.desk.returned(leased.number, leased)
    pool.look(2 * MS)
    ((_, instance),) = leased.leases[1:]
    assert instance != leased.instance


def test_the_holders_own_requests_keep_an_instance_free(pool):
    router = Router()
    (own,) = pool.request(0)
    (batch,) = pool.request(0, router)
    pool.executed(batch.instance, batch.number, MS)
    assert not router.leases
    pool.executed(own.instance, own.number, 2 * MS)
    assert len(router.leases) == 1


def test_a_request_granted_while_others_wait_earns_no_lease(pool):
    router = Router()
    batches = [pool.request(0) for _ in range(2)]
    pool.queue.enqueue(FakeItem("r", enqueue_ns=0, batch_size=8), 0)
    pool.queue.enqueue(FakeItem("r", enqueue_ns=0, batch_size=8), 0)
    pool.queue.executed("a", batches[0][0].number, MS, MS)
    (batch,) = pool.queue.next(MS).batches
    pool.desk.began(batch.number, router, MS)
    assert pool.queue.pending_count == 1
    for each in (batch, batches[1][0]):
        (following,) = pool.executed(each.instance, each.number, 2 * MS) or (None,)
    assert following is None
    assert not router.leases


def test_a_router_that_has_asked_is_leased_what_is_idle_and_else_hears_nothing(pool):
    router = Router()
    assert pool.desk.answer(router, 0)
    assert pool.desk.answer(router, 0)
    assert {instance for _, instance in router.leases} == {"a", "b"}
    assert not pool.desk.answer(router, 0)
    assert len(router.leases) == 2
    pool.clock.pass_until(UNUSED_NS)
    assert sorted(router.called) == sorted(number for number, _ in router.leases)
