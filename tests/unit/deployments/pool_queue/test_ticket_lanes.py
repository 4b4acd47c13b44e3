# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of a request between a router and the holder of its queue."""

import pytest

from backends.api.errors import InvalidArgumentError, RequestCancelledError, UnavailableError
from backends.api.request import SEQUENCE_START
from deployments.pool_queue import ticket_queue
from deployments.pool_queue.messages import Missing, canonical_signature
from tests.support.lane_rig import until
from tests.support.ticket_rig import (
    CONFIG,
    EPOCH,
    NEW_CONFIG,
    Queue,
    Request,
    Router,
    TicketRig,
    ticket_count,
)


def test_a_granted_request_is_sent_as_a_part_of_its_batch(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            requests = [Request(), Request(), Request()]
            for request in requests:
                client.start(request)
            await until(lambda: len(rig.queue.came) == 3)
            assert ticket_count(rig.server) == client.waiting_count == 3
            number = rig.queue.grant("a", 2, slots=[4, 5])
            await until(lambda: rig.router.parts)
            ((instance, part, sent),) = rig.router.parts
            assert (instance, sent) == ("a", requests[:2])
            assert (part.epoch, part.number, part.here_count, part.total_count) == (
                EPOCH,
                number,
                2,
                0,
            )
            assert (part.slots, part.queued_ns) == ([4, 5], [each.enqueue_ns for each in sent])
            assert all(each.queue is None for each in sent)
            assert requests[2].queue is client
            assert ticket_count(rig.server) == client.waiting_count == 1

    run(main)


def test_a_ticket_says_all_of_its_request(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            fields = {
                "timeout_us": 9,
                "priority": 2,
                "correlation_id": "sequence",
                "flags": SEQUENCE_START,
            }
            client.start(request := Request(3, 5, id="id", **fields))
            await until(lambda: rig.queue.came)
            ticket = rig.queue.came[0]
            assert {name: getattr(ticket, name) for name in fields} == fields
            assert (ticket.batch_size, ticket.request_id) == (3, "id")
            assert ticket.signature == request.signature == (("A", (5,), b""),)
            assert (ticket.enqueue_ns, ticket.number) == (request.enqueue_ns, 1)

    run(main)


@pytest.mark.parametrize("signature", [[[[[[1]]]]], {"A": 1}, 1.5])
def test_what_is_no_signature_is_refused(signature):
    with pytest.raises(ValueError, match="signature"):
        canonical_signature(signature)


def test_requests_of_two_routers_share_a_batch(run):
    async def main():
        async with TicketRig() as rig:
            routers = [Router(), Router()]
            for router in routers:
                (await rig.lane(router)).queue_of("model", 1, CONFIG).start(Request())
            await until(lambda: len(rig.queue.came) == 2)
            rig.queue.grant("a", 2)
            await until(lambda: all(router.parts for router in routers))
            assert [router.parts[0][1].here_count for router in routers] == [1, 1]

    run(main)


def test_a_queue_may_give_correlation_ids(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            requests = [Request(), Request(correlation_id="its own")]
            for request in requests:
                client.start(request)
            await until(lambda: len(rig.queue.came) == 2)
            rig.queue.grant("a", 2, slots=[0, 1], correlation_ids=[99, "its own"])
            await until(lambda: rig.router.parts)
            given = [(each.correlation_id, each.flags) for each in requests]
            assert given == [(99, SEQUENCE_START), ("its own", 0)]

    run(main)


def test_an_error_of_the_queue_ends_the_request(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            client.start(waiting := Request())
            await until(lambda: rig.queue.came)
            rig.queue.full = True
            client.start(refused := Request())
            await refused.ended
            assert isinstance(refused.error, UnavailableError)
            assert refused.error.message == "Exceeds maximum queue size"
            rig.queue.came.pop().fail(InvalidArgumentError("bad"))
            await waiting.ended
            assert waiting.error.message == "bad"
            assert ticket_count(rig.server) == client.waiting_count == 0

    run(main)


def test_an_error_after_the_grant_is_the_instances(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            client.start(request := Request())
            await until(lambda: rig.queue.came)
            ticket = rig.queue.came[0]
            rig.queue.grant("a")
            ticket.fail(UnavailableError("the instance is gone"))
            client.start(Request())
            await until(lambda: rig.router.parts and rig.queue.came)
            assert request.error is None

    run(main)


def test_a_cancelled_request_ends_when_the_holder_has_forgotten_it(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            client.start(request := Request())
            await until(lambda: rig.queue.came)
            request.cancelled = True
            client.cancelled(request)
            client.cancelled(request)
            assert request.error is None
            await request.ended
            assert isinstance(request.error, RequestCancelledError)
            assert len(rig.queue.withdrawals) == 1
            assert client.waiting_count == 0

    run(main)


def test_a_cancel_that_crosses_the_grant_follows_the_request_to_the_instance(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            client.start(request := Request())
            await until(lambda: rig.queue.came)
            rig.queue.grant("a")
            request.cancelled = True
            client.cancelled(request)
            await until(lambda: rig.router.lane.cancels)
            assert rig.router.lane.cancels == [request]
            assert request.error is None
            client.start(Request())
            await until(lambda: rig.queue.came)  # behind the WITHDRAW, of which nothing came
            assert not rig.queue.withdrawals

    run(main)


def test_a_withdrawn_request_comes_back_to_the_router(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            client.start(request := Request())
            client.withdraw(request, rig.router.taken)
            await until(lambda: rig.router.moved)
            assert rig.router.moved == [request]
            assert not request.ended.done()
            assert not rig.queue.came
            client.withdraw(request, rig.router.taken)  # which waits here no more
            await until(lambda: rig.router.moved == [request, None])
            client.start(request)
            client.withdraw(request, rig.router.taken)
            request.cancelled = True
            client.cancelled(request)
            await request.ended
            assert isinstance(request.error, RequestCancelledError)
            assert rig.router.moved == [request, None, None]

    run(main)


def test_a_withdrawn_request_that_is_granted_meanwhile_goes_on(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            client.start(waiting := Request())
            await until(lambda: rig.queue.came)
            rig.queue.grant("a")
            client.withdraw(waiting, rig.router.taken)
            await until(lambda: rig.router.parts)
            assert rig.router.moved == [None]
            client.withdraw(Request(), rig.router.taken)  # never started here
            await until(lambda: rig.router.moved == [None, None])

    run(main)


def test_the_first_request_of_a_sequence_comes_back_unless_more_of_it_waits_there(run):
    async def main():
        async with TicketRig() as rig:
            client = await rig.client()
            alone = Request(correlation_id=1, flags=SEQUENCE_START)
            first, *rest = [Request(correlation_id=2, flags=flags) for flags in (SEQUENCE_START, 0)]
            for request in (alone, first, *rest):
                client.start(request)
            assert client.starts() == [alone, first]
            client.withdraw(first, rig.router.taken, is_start=True)
            client.withdraw(alone, rig.router.taken, is_start=True)
            await until(lambda: rig.router.moved)
            assert rig.router.moved == [alone]
            assert [each.correlation_id for each in rig.queue.came] == [2, 2]
            # It is cancelled there all the same.
            first.cancel_in_queue()
            await first.ended
            assert [each.flags for each in rig.queue.came] == [0]
            assert rig.router.moved == [alone, None]

    run(main)


def test_a_part_without_a_lane_is_reported_and_queued_again(run):
    async def main():
        async with TicketRig() as rig:
            rig.router.unreachable = {"a", "b", "c", "d"}
            client = await rig.client()
            client.start(request := Request())
            for at, instance in enumerate("abcd"):
                await until(lambda: rig.queue.came)
                assert rig.queue.came[0].avoid == ("", "a", "b", "c")[at]
                number = rig.queue.grant(instance)
                await until(lambda count=at + 1: len(rig.queue.not_coming) == count)
                assert rig.queue.not_coming[-1] == Missing("model", 1, EPOCH, number, instance)
            await until(lambda: rig.queue.came)
            rig.queue.grant("e")
            await until(lambda: rig.router.parts)
            assert request.error is None
            assert client.waiting_count == 0

    run(main)


def test_a_part_without_a_lane_is_reported_to_a_queue_that_takes_no_tickets_now(run):
    async def main():
        async with TicketRig() as rig:
            rig.router.unreachable = {"a"}
            client = await rig.client()
            client.start(Request())
            await until(lambda: rig.queue.came)
            number = rig.queue.grant("a")
            # It learns from its instances which sequences run there, say, before it takes more.
            rig.queues.by_model.clear()
            await until(lambda: rig.queue.not_coming)
            assert rig.queue.not_coming == [Missing("model", 1, EPOCH, number, "a")]

    run(main)


def test_a_sequence_whose_instance_is_out_of_reach_keeps_others_from_nothing(run):
    async def main():
        async with TicketRig() as rig:
            rig.router.unreachable = {"a"}
            client = await rig.client()
            client.start(first := Request(correlation_id=1))
            while not client._parked:
                await until(lambda: rig.queue.came or client._parked)
                if rig.queue.came:
                    rig.queue.grant("a")
            client.start(later := Request(correlation_id=1))
            client.start(Request(correlation_id=2))
            client.start(Request())
            assert [each.request for each in client._parked] == [first, later]

    run(main)


def test_a_request_whose_instances_are_out_of_reach_for_long_is_unavailable(run, monkeypatch):
    monkeypatch.setattr(ticket_queue, "UNKNOWN_S", 0.0)

    async def main():
        async with TicketRig() as rig:
            rig.router.unreachable = {"a"}
            client = await rig.client()
            client.start(request := Request())
            await until(lambda: rig.queue.came)
            rig.queue.grant("a")
            await request.ended
            assert isinstance(request.error, UnavailableError)
            assert not rig.queue.came
            assert client.waiting_count == 0

    run(main)


def test_a_sequence_that_did_not_begin_has_no_id_yet(run):
    async def main():
        async with TicketRig() as rig:
            rig.router.unreachable = {"a"}
            client = await rig.client()
            client.start(request := Request())
            await until(lambda: rig.queue.came)
            rig.queue.grant("a", slots=[0], correlation_ids=[99])
            await until(lambda: rig.queue.not_coming and rig.queue.came)
            assert not rig.queue.came[0].correlation_id
            rig.queue.grant("b", slots=[0], correlation_ids=[100])
            await until(lambda: rig.router.parts)
            assert (request.correlation_id, request.flags) == (100, SEQUENCE_START)

    run(main)


def test_a_cancelled_part_without_a_lane_ends_there(run):
    async def main():
        async with TicketRig() as rig:
            rig.router.unreachable = {"a"}
            client = await rig.client()
            client.start(request := Request())
            await until(lambda: rig.queue.came)
            rig.queue.grant("a")
            request.cancelled = True
            await request.ended
            assert isinstance(request.error, RequestCancelledError)

    run(main)


def test_requests_of_a_model_that_the_holder_learns_of_later_keep_their_order(run):
    async def main():
        async with TicketRig() as rig:
            client = (await rig.lane()).queue_of("new", 2, NEW_CONFIG)
            for request_id in "abc":
                client.start(Request(id=request_id))
            await until(lambda: len(client._parked) == 3)
            client.start(Request(id="d"))
            rig.queues.by_model["new", 2] = queue = Queue()
            await until(lambda: len(queue.came) == 4)
            assert [ticket.request_id for ticket in queue.came] == list("abcd")

    run(main)


def test_a_model_that_stays_unknown_is_an_error(run, monkeypatch):
    monkeypatch.setattr(ticket_queue, "UNKNOWN_S", 0.02)

    async def main():
        async with TicketRig() as rig:
            client = (await rig.lane()).queue_of("new", 2, NEW_CONFIG)
            client.start(request := Request())
            await request.ended
            assert isinstance(request.error, UnavailableError)
            assert "unknown model: 'new' version 2" in request.error.message
            assert client.waiting_count == 0

    run(main)


def test_a_parked_request_can_be_cancelled_and_withdrawn(run):
    async def main():
        async with TicketRig() as rig:
            client = (await rig.lane()).queue_of("new", 2, NEW_CONFIG)
            client.start(cancelled := Request())
            client.start(moved := Request())
            await until(lambda: len(client._parked) == 2)
            cancelled.cancelled = True
            client.cancelled(cancelled)
            assert isinstance(cancelled.error, RequestCancelledError)
            client.withdraw(moved, rig.router.taken)
            await until(lambda: rig.router.moved == [moved])
            assert client.waiting_count == 0

    run(main)
