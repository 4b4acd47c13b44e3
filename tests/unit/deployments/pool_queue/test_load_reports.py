# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which routers hear of a queue's load and of its free instances, and how often."""

import asyncio

from deployments.pool_queue.load_reports import (
    GRANT_PERIOD_S,
    WAIT_PERIOD_S,
    LoadReports,
    answered,
)
from deployments.pool_queue.messages import Load
from deployments.pool_queue.ticket_server import PartyLane
from tests.support.virtual_time import run


class Hearer(PartyLane):
    """Notes what it hears; there is no connection."""

    def __init__(self):
        self.heard = []

    def send_load(self, load):
        self.heard.append(load.waiting_count)


class Queue:
    def __init__(self):
        self.waiting = self.free = 0
        self.reports = LoadReports(asyncio.get_running_loop(), lambda: self.load)

    @property
    def load(self):
        return Load("m", 1, self.waiting, self.free)


def test_a_router_that_has_not_asked_hears_nothing():
    async def main():
        queue, hearer = Queue(), Hearer()
        queue.waiting = 1
        queue.reports.used_by(hearer)
        queue.reports.granted(hearer)
        await asyncio.sleep(1)
        assert not hearer.heard
        queue.reports.asked(hearer, when_free=False)
        assert hearer.heard == [1]

    run(main())


def test_a_router_hears_what_it_is_granted_with_every_ten_milliseconds():
    async def main():
        queue, hearer, other = Queue(), Hearer(), Hearer()
        for each in (hearer, other):
            queue.reports.asked(each, when_free=False)
        for _ in range(100):
            await asyncio.sleep(GRANT_PERIOD_S / 10)
            queue.reports.granted(hearer)
        assert 9 <= len(hearer.heard) - 1 <= 10
        assert len(other.heard) == 1

    run(main())


def test_a_router_whose_request_has_to_wait_hears_every_millisecond():
    async def main():
        queue, hearer = Queue(), Hearer()
        queue.reports.asked(hearer, when_free=False)
        for waiting in range(1, 51):
            await asyncio.sleep(WAIT_PERIOD_S / 5)
            queue.waiting = waiting
            queue.reports.used_by(hearer)
            queue.reports.used_by(hearer)
        await asyncio.sleep(1)
        assert 9 <= len(hearer.heard) - 1 <= 10
        queue.reports.used_by(hearer)
        queue.waiting = 0  # it was granted in the same tick
        count = len(hearer.heard)
        await asyncio.sleep(1)
        assert len(hearer.heard) == count

    run(main())


def test_a_free_instance_answers_one_question():
    async def main():
        queue, first, second = Queue(), Hearer(), Hearer()
        queue.reports.asked(first, when_free=True)
        queue.reports.asked(second, when_free=True)
        assert not first.heard
        assert not answered(queue.reports.askers, queue.load)
        queue.free = 1
        assert answered(queue.reports.askers, queue.load) == [first]
        assert queue.reports.askers
        queue.reports.tell(second, queue.load)  # which hears by that of the free instance, too
        assert not queue.reports.askers

    run(main())


def test_a_router_that_asks_no_more_is_not_answered_and_hears_of_the_load_yet():
    async def main():
        queue, first, second = Queue(), Hearer(), Hearer()
        queue.reports.asked(first, when_free=True)
        queue.reports.asked(second, when_free=True)
        queue.reports.askers.pop(first)
        queue.free = 2
        assert answered(queue.reports.askers, queue.load) == [second]
        queue.reports.granted(first)
        assert first.heard

    run(main())


def test_a_router_that_is_gone_hears_no_more():
    async def main():
        queue, gone, asker = Queue(), Hearer(), Hearer()
        queue.reports.asked(gone, when_free=False)
        queue.reports.asked(asker, when_free=True)
        await asyncio.sleep(1)
        queue.waiting = 1
        queue.reports.used_by(gone)
        queue.reports.forget(gone)
        await asyncio.sleep(1)
        queue.reports.granted(gone)
        assert gone.heard == [0]
        queue.reports.close()
        assert not queue.reports.askers
        queue.reports.granted(asker)
        assert not asker.heard

    run(main())


def test_a_question_is_over_when_its_router_hears_of_a_free_instance_or_is_gone():
    async def main():
        queue, one, other = Queue(), Hearer(), Hearer()
        reports = queue.reports
        for each in (one, other, one):
            reports.asked(each, when_free=True)
        assert list(reports.askers) == [one, other]
        reports.tell(one, queue.load)
        assert list(reports.askers) == [one, other]
        queue.free = 1
        reports.tell(one, queue.load)
        assert list(reports.askers) == [other]
        reports.forget(other)
        assert not reports.askers

    run(main())


def load_of(free, waiting=0, batch_size=1.0):
    return Load("m", 1, waiting, free, 4, 1e7, batch_size)


def test_as_many_routers_hear_as_there_are_free_instances():
    asked = dict.fromkeys("abc")
    assert answered(asked, load_of(free=2)) == ["a", "b"]
    assert answered(asked, load_of(free=2)) == ["c"]
    assert not asked


def test_nobody_hears_while_requests_wait():
    asked = dict.fromkeys("a")
    assert answered(asked, load_of(free=1, waiting=1)) == []
    assert answered(asked, load_of(free=0)) == []
    assert asked


def test_executions_of_several_requests_are_shared():
    assert load_of(1, batch_size=4.0).is_shared
    assert not load_of(1).is_shared
    assert not load_of(1, batch_size=1.25).is_shared
