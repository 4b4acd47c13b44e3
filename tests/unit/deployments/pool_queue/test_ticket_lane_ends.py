# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of tickets when one of the two ends, and how many there may be."""

import pytest

from backends.api.errors import InvalidArgumentError, RequestCancelledError, UnavailableError
from deployments.lane.messages import LaneLimits
from tests.support.lane_rig import until
from tests.support.ticket_rig import CONFIG, NEW_CONFIG, Request, TicketRig, ticket_count


def test_what_waits_comes_back_in_its_order_when_the_holder_dies(run):
    async def main():
        async with TicketRig() as rig:
            lane = await rig.lane()
            known, new = lane.queue_of("model", 1, CONFIG), lane.queue_of("new", 2, NEW_CONFIG)
            first, second, cancelled = Request(), Request(), Request()
            new.start(first)
            known.start(second)
            known.start(cancelled)
            await until(lambda: len(rig.queue.came) == 2 and new._parked)
            cancelled.cancelled = True
            ended = []

            def end():
                # Before the router sends them again, it knows that there is no holder.
                ended.append(list(rig.router.back))
                raise RuntimeError("a fault")

            lane.on_ended = end
            for each in rig.server.lanes:
                each.connection.transport.abort()
            await lane.wait_ended()
            assert ended == [[]]
            assert rig.router.back == [first, second]
            assert isinstance(cancelled.error, RequestCancelledError)
            assert not lane.is_open
            known.start(after := Request())
            await until(lambda: after in rig.router.back)

    run(main)


def test_the_tickets_of_a_router_that_dies_are_forgotten(run):
    async def main():
        async with TicketRig() as rig:
            lane = await rig.lane()
            lane.queue_of("model", 1, CONFIG).start(Request())
            await until(lambda: rig.queue.came)
            party = rig.queue.came[0].party
            ticket = rig.queue.came[0]
            lane._connection.transport.abort()
            await until(lambda: rig.queues.lost)
            assert rig.queues.lost == [party]
            assert ticket.is_cancelled
            ticket.fail(UnavailableError("too late"))
            party.send_load(rig.queue.load)
            assert ticket_count(rig.server) == 0

    run(main)


def test_a_router_has_a_bounded_number_of_tickets(run):
    async def main():
        async with TicketRig(LaneLimits(max_inflight_count=2)) as rig:
            client = await rig.client()
            for _ in range(2):
                client.start(Request())
            client.start(third := Request())
            await third.ended
            assert isinstance(third.error, UnavailableError)
            assert len(rig.queue.came) == 2

    run(main)


@pytest.mark.parametrize("request_id", ["x" * 2000, "\ud800"], ids=["long", "no_text"])
def test_a_ticket_that_cannot_be_sent_costs_one_request(run, request_id):
    async def main():
        async with TicketRig(LaneLimits(max_message_bytes=1000)) as rig:
            client = await rig.client()
            client.start(bad := Request(id=request_id))
            client.start(Request())
            await bad.ended
            assert isinstance(bad.error, InvalidArgumentError)
            await until(lambda: len(rig.queue.came) == 1)

    run(main)
