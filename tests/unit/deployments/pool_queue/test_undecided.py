# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests of sequences that a queue does not know wait until its instances have told."""

import asyncio

from backends.api.errors import InvalidArgumentError, Phase, UnavailableError
from backends.api.request import SEQUENCE_START, InferenceRequest
from deployments.pool_queue.foreign_ticket import HeldTicket
from deployments.pool_queue.own_request import OwnRequest
from deployments.pool_queue.undecided import UndecidedTickets
from tests.support import virtual_time
from tests.support.lane_rig import Sink

UNKNOWN = InvalidArgumentError("must specify the START flag", Phase.ENQUEUE)


def ticket_of(correlation_id: int = 1, flags: int = 0) -> OwnRequest:
    return OwnRequest(InferenceRequest("m", correlation_id=correlation_id, flags=flags), Sink())


class Heard:
    def __init__(self) -> None:
        self.is_all = False
        self.taken: list[HeldTicket] = []
        self.undecided = UndecidedTickets(self.take)
        self.undecided.has_heard = lambda: self.is_all

    def take(self, ticket: HeldTicket) -> None:
        assert not self.undecided.keep(ticket, UNKNOWN)
        self.taken.append(ticket)


def test_a_request_waits_until_all_have_told() -> None:
    async def main() -> None:
        heard = Heard()
        tickets = [ticket_of(), ticket_of()]
        assert all(heard.undecided.keep(each, UNKNOWN) for each in tickets)
        heard.undecided.look()
        assert (len(heard.undecided), heard.taken) == (2, [])
        heard.is_all = True
        heard.undecided.look()
        assert (len(heard.undecided), heard.taken) == (0, tickets)

    virtual_time.run(main())


def test_it_does_not_wait_for_ever() -> None:
    async def main() -> None:
        heard = Heard()
        ticket = ticket_of()
        assert heard.undecided.keep(ticket, UNKNOWN)
        await asyncio.sleep(4.9)
        assert not heard.taken
        await asyncio.sleep(0.2)
        assert heard.taken == [ticket]

    virtual_time.run(main())


def test_what_no_instance_could_say_more_of_does_not_wait() -> None:
    async def main() -> None:
        heard = Heard()
        keep = heard.undecided.keep
        assert not keep(ticket_of(flags=SEQUENCE_START), UNKNOWN)
        assert not keep(ticket_of(correlation_id=0), UNKNOWN)
        assert not keep(ticket_of(), UnavailableError("ended with its instance"))
        assert not keep(ticket_of(), InvalidArgumentError("elsewhere"))
        heard.is_all = True
        assert not keep(ticket_of(), UNKNOWN)

    virtual_time.run(main())


def test_what_is_given_up_is_not_taken_again() -> None:
    async def main() -> None:
        heard = Heard()
        ticket = ticket_of()
        assert heard.undecided.keep(ticket, UNKNOWN)
        assert heard.undecided.clear() == [ticket]
        await asyncio.sleep(10)
        assert not heard.taken

    virtual_time.run(main())
