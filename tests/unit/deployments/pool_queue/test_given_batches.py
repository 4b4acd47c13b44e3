# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a batch is to its instance and to the routers that have a part of it."""

from backends.api.request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from deployments.lane.batches import Done, Forget
from deployments.lane.client import LaneClient
from deployments.pool_queue import messages
from deployments.pool_queue.given_batches import GivenBatches
from deployments.pool_queue.messages import Grant, Missing
from deployments.pool_queue.own_request import OwnRequest, TicketMaker
from deployments.pool_queue.ticket_server import ForeignTicket, PartyLane
from deployments.scheduling.pool_queue import Batch
from deployments.scheduling.scheduler import Decision
from tests.support.ticket_rig import CONFIG, EPOCH


class Instance(LaneClient):
    """The holder's lane to an instance: notes what it is told; there is no connection."""

    def __init__(self):
        self.parts = []
        self.forgotten = []

    def start_batch(self, part, requests):
        self.parts.append((part, list(requests)))

    def forget(self, forget):
        self.forgotten.append(forget)


class Party(PartyLane):
    """Notes what it is granted; there is no connection."""

    def __init__(self):
        self.grants = []

    def grant(self, grant):
        self.grants.append(grant)


def ticket(party=None, number=0, flags=0, correlation_id=0):
    """A ticket that waits: of another router, or this process's own."""
    if party is not None:
        message = messages.Ticket(
            "model", 1, queued_ns=5, flags=flags, correlation_id=correlation_id
        )
        return ForeignTicket(party, number, message, now_ns=5)
    fields = {"flags": flags, "correlation_id": correlation_id}
    own = OwnRequest(InferenceRequest("model", **fields), None)
    maker = TicketMaker(CONFIG)
    maker._clock_ns = lambda: 5
    maker.make(own, object())
    return own


def given(*tickets, slots=(), number=1, batches=None):
    """Give a batch to the instance "a"."""
    if batches is None:
        batches = GivenBatches(EPOCH)
        batches.join("a", Instance())
    decision = Decision(list(tickets), slots=slots)
    return batches, list(batches.give(Batch(number, "a", decision)))


def test_each_router_is_told_its_part_and_the_instance_how_many_there_are():
    one, other, own = Party(), Party(), ticket()
    tickets = [ticket(one, 11), own, ticket(other, 21), ticket(one, 12)]
    batches, parties = given(*tickets)
    assert parties == [one, other]
    ((part, sent),) = batches.lanes["a"].parts
    assert (sent, part.here_count, part.total_count, part.party) == ([own], 1, 4, 0)
    assert (own.queue, part.queued_ns) == (None, [5])
    assert one.grants == [Grant(EPOCH, 1, "a", [11, 12], [], (), 1)]
    assert other.grants == [Grant(EPOCH, 1, "a", [21], [], (), 2)]


def test_the_instance_hears_which_sequences_other_routers_begin_and_end():
    one = Party()
    batches, _ = given(
        ticket(one, 1, SEQUENCE_START, 7),
        ticket(one, 2, SEQUENCE_END, 8),
        ticket(None, 0, SEQUENCE_START, 9),
        slots=(4, 5, 6),
    )
    ((part, _),) = batches.lanes["a"].parts
    assert (part.sequences, part.slots) == ({4: 7, 5: 0}, [6])
    assert one.grants[0].slots == [4, 5]


def test_a_router_whose_part_will_not_come_is_not_waited_for():
    one, other = Party(), Party()
    tickets = [ticket(one, 1), ticket(other, 2), ticket(other, 3)]
    batches, _ = given(*tickets)
    instance = batches.lanes["a"]
    for wrong in (
        Missing("m", 1, EPOCH, 1, "b"),
        Missing("m", 1, EPOCH + 1, 1, "a"),
        Missing("m", 1, EPOCH, 2, "a"),
    ):
        assert batches.missing(other, wrong) == ()
    assert batches.missing(Party(), Missing("m", 1, EPOCH, 1, "a")) == ()
    assert instance.forgotten == []
    assert batches.missing(other, Missing("m", 1, EPOCH, 1, "a")) == tickets[1:]
    assert instance.forgotten == [Forget(EPOCH, 1, 2, 2)]


def test_of_a_router_that_is_gone_nothing_is_waited_for_and_of_others_all():
    one, other = Party(), Party()
    batches, _ = given(ticket(one, 1), ticket(other, 2))
    given(ticket(other, 3), number=2, batches=batches)
    given(ticket(), number=3, batches=batches)
    batches.party_lost(one)
    assert batches.lanes["a"].forgotten == [Forget(EPOCH, 1, 1, 1)]


def test_requests_that_are_executed_again_stay_at_their_instance():
    tickets = [ticket(), ticket(), ticket()]
    batches, _ = given(*tickets, slots=(4, 5, 6))
    assert list(batches.done("a", Done(EPOCH, 1, rescheduled=[5]))) == [1]
    assert [each in batches.kept for each in tickets] == [False, True, False]
    assert [each.is_kept for each in tickets] == [False, True, False]
    fresh = ticket()
    given(tickets[1], fresh, slots=(5, 4), number=2, batches=batches)
    part, sent = batches.lanes["a"].parts[1]
    assert (part.kept, part.slots, part.total_count, sent) == ([5], [4], 1, [fresh])
    assert batches.done("a", Done(EPOCH, 2)) == []
    assert tickets[1] not in batches.kept


def test_the_end_of_a_batch_nobody_knows_is_nothing():
    batches, _ = given(ticket(), slots=(0,))
    assert batches.done("a", Done(EPOCH, 9, rescheduled=[0])) == ()
    assert batches.done("a", Done(EPOCH, 1)) == ()


def test_a_router_hears_the_correlation_id_that_its_request_was_given_once():
    one = Party()
    nameless, named = ticket(one, 1, correlation_id=70), ticket(one, 2, correlation_id=71)
    batches = GivenBatches(EPOCH)
    batches.join("a", Instance())
    batches.nameless.add(nameless)
    given(nameless, named, batches=batches)
    given(nameless, number=2, batches=batches)
    assert [grant.correlation_ids for grant in one.grants] == [[70, 0], ()]


def test_an_instance_leaves_once():
    batches, _ = given(ticket())
    assert batches.leave("a")
    assert not batches.leave("a")
    assert batches.missing(Party(), Missing("m", 1, EPOCH, 1, "a")) == ()
