# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router hears of loads, and what becomes of its requests at a holder."""

import asyncio
import dataclasses
import time

from backends.api.request import SEQUENCE_START
from deployments.pool_queue.load_reports import WAIT_PERIOD_S
from tests.support.lane_rig import until
from tests.support.ticket_rig import (
    CONFIG,
    EPOCH,
    NEW_CONFIG,
    Request,
    TicketRig,
)


def test_a_router_that_has_asked_hears_the_load_when_its_ticket_waits(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            heard = []
            client.on_load = heard.append
            client.start(Request())
            await until(lambda: rig.queue.came)
            assert not heard
            client.ask()
            await until(lambda: len(heard) == 1)
            assert (heard[0].waiting_count, heard[0].instance_count) == (1, 2)
            await asyncio.sleep(WAIT_PERIOD_S * 2)
            client.start(Request())
            await until(lambda: len(heard) == 2)
            assert heard[1].waiting_count == 2

    run(main)


def test_a_question_that_is_over_is_not_answered(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            client.ask(when_free=True)
            await until(lambda: rig.queue.reports.askers)
            client.ask(is_over=True)
            await until(lambda: not rig.queue.reports.askers)
            # It was not forgotten with the router's lane.
            assert rig.server.lanes

    run(main)


def test_what_a_holder_without_the_queue_turns_away_may_go_elsewhere(run):
    async def main():
        async with TicketRig() as rig:
            client = (await rig.lane()).queue_of("new", 2, NEW_CONFIG)
            client.on_turned_away = lambda: True
            client.start(request := Request())
            client.start(Request(correlation_id=3))
            await until(lambda: rig.router.back == [request] and client._parked)
            assert client.waiting_count == 1

    run(main)


def test_a_withdrawal_ends_with_its_lane(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            client.start(request := Request())
            await until(lambda: rig.queue.came)
            client.withdraw(request, rig.router.taken)
            assert (client.waiting_count, client.staying_count) == (1, 0)
            (party,) = rig.server.lanes
            party.connection.close("closed here")
            await until(lambda: rig.router.back == [request])
            assert rig.router.moved == [None]
            assert client.staying_count == 0

    run(main)


def test_another_nodes_router_has_a_clock_of_its_own(run):
    async def main():
        async with TicketRig() as rig:
            lane = await rig.remote_lane()
            client = lane.queue_of("model", 1, CONFIG)
            client.start(request := Request())
            await until(lambda: rig.queue.came)
            # The message took a while, and here the clocks are one.
            assert rig.queue.came[0].enqueue_ns > request.enqueue_ns
            request.enqueue_ns -= 10**10
            rig.queue.grant("a")
            await until(lambda: rig.router.parts)
            part = rig.router.parts[0][1]
            assert part.queued_ns == ()
            assert 10**10 < part.waited_ns[0] < 2 * 10**10

    run(main)


def test_what_has_waited_before_it_comes_to_another_nodes_queue_counts_there(run):
    async def main():
        async with TicketRig() as rig:
            lane = await rig.remote_lane()
            request = Request()
            request.wait_from(time.monotonic_ns() - 10**10)
            lane.queue_of("model", 1, CONFIG).start(request)
            await until(lambda: rig.queue.came)
            assert 10**10 < time.monotonic_ns() - rig.queue.came[0].enqueue_ns < 2 * 10**10

    run(main)


def test_a_router_of_another_model_hears_only_what_it_asked_for(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            loads = []
            client.on_load = loads.append
            client.ask()
            await until(lambda: loads)
            assert (loads[0].model_name, loads[0].version) == ("model", 1)
            assert not client.has_movable
            client.start(request := Request())
            assert client.has_movable
            assert [each.request for each in client.tickets.movable] == [request]
            client.start(Request(correlation_id=7, flags=SEQUENCE_START))
            assert [each.request for each in client.tickets.movable] == [request]
            after = dataclasses.replace(CONFIG, max_batch_size=4)
            client.configure(after)
            assert client.config is after

    run(main)


def test_a_lease_that_answers_a_question_is_used_by_the_request_it_is_for(run):
    async def main():
        async with TicketRig() as rig:
            lane = await rig.remote_lane()
            client = lane.queue_of("model", 1, CONFIG)
            leases = []
            client.on_lease = leases.append
            client.start(Request())
            await until(lambda: rig.queue.came)
            (party,) = rig.server.lanes
            rig.queue.lease(party, 9, "a")
            rig.queue.lease(party, 10, "b")
            await until(lambda: len(leases) == 2)
            assert client.start_on(leases[0], request := Request())
            ((instance, part, sent),) = rig.router.parts
            assert (instance, sent) == ("a", [request])
            assert (part.epoch, part.number, part.here_count, part.total_count) == (EPOCH, 9, 1, 1)
            rig.router.unreachable.add("b")
            assert not client.start_on(leases[1], request := Request())
            assert request.queue is None
            await until(lambda: rig.queue.given_back == [10])

    run(main)


def test_a_lease_of_a_model_the_router_has_not_asked_for_is_given_back(run):
    async def main():
        async with TicketRig() as rig:
            lane = await rig.remote_lane()
            await until(lambda: rig.server.lanes)
            (party,) = rig.server.lanes
            rig.queue.lease(party, 9, "a")
            await until(lambda: rig.queue.given_back == [9])
            lane.queue_of("model", 1, CONFIG)
            rig.queue.lease(party, 10, "a")
            await until(lambda: rig.queue.given_back == [9, 10])

    run(main)
