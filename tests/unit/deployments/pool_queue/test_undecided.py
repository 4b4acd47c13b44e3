# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests of sequences that a queue does not know wait until its instances have told."""

import asyncio
from dataclasses import dataclass

from backends.api.errors import InvalidArgumentError, Phase, UnavailableError
from backends.api.request import SEQUENCE_START
from deployments.pool_queue.undecided import UndecidedTickets
from tests.support import virtual_time

UNKNOWN = InvalidArgumentError("must specify the START flag", Phase.ENQUEUE)


@dataclass(eq=False)
class Ticket:
    correlation_id: int = 1
    flags: int = 0


class Heard:
    def __init__(self) -> None:
        self.is_all = False
        self.taken: list[Ticket] = []
        self.undecided = UndecidedTickets(self.take)
        self.undecided.has_heard = lambda: self.is_all

    def take(self, ticket: Ticket) -> None:
        assert not self.undecided.keep(ticket, UNKNOWN)
        self.taken.append(ticket)


def test_a_request_waits_until_all_have_told() -> None:
    async def main() -> None:
        heard = Heard()
        tickets = [Ticket(), Ticket()]
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
        ticket = Ticket()
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
        assert not keep(Ticket(flags=SEQUENCE_START), UNKNOWN)
        assert not keep(Ticket(correlation_id=0), UNKNOWN)
        assert not keep(Ticket(), UnavailableError("ended with its instance"))
        assert not keep(Ticket(), InvalidArgumentError("elsewhere"))
        heard.is_all = True
        assert not keep(Ticket(), UNKNOWN)

    virtual_time.run(main())


def test_what_is_given_up_is_not_taken_again() -> None:
    async def main() -> None:
        heard = Heard()
        ticket = Ticket()
        assert heard.undecided.keep(ticket, UNKNOWN)
        assert heard.undecided.clear() == [ticket]
        await asyncio.sleep(10)
        assert not heard.taken

    virtual_time.run(main())
