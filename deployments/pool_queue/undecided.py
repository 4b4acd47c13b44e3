# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests of sequences that a queue does not know, while it may yet hear of them.

An instance tells which sequences run there when it is adopted. Until all have done so, that a queue
does not know a sequence means nothing: its requests wait, for a while.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from backends.api.errors import InvalidArgumentError, Phase, TritonError
from backends.api.request import SEQUENCE_START
from deployments.pool_queue.foreign_ticket import HeldTicket

# One that is in the routing table and cannot be reached is not waited for any longer.
_WAIT_S: Final = 5.0


class UndecidedTickets:
    """What waits in one queue until its instances have told what runs there.

    Args:
        take: Takes a ticket once more.

    Attributes:
        has_heard: Returns whether all instances have told.
    """

    __slots__ = ("_is_deciding", "_loop", "_take", "_tickets", "_timer", "has_heard")

    def __init__(self, take: Callable[[HeldTicket], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._take = take
        self._tickets: list[HeldTicket] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_deciding = False
        self.has_heard: Callable[[], bool] = lambda: True

    def __len__(self) -> int:
        return len(self._tickets)

    def keep(self, ticket: HeldTicket, error: TritonError) -> bool:
        """Keep a ticket that was refused; return whether it was refused too early."""
        is_unknown = isinstance(error, InvalidArgumentError) and error.phase is Phase.ENQUEUE
        is_midway = bool(ticket.correlation_id) and not ticket.flags & SEQUENCE_START
        if self._is_deciding or not (is_unknown and is_midway) or self.has_heard():
            return False
        self._tickets.append(ticket)
        if self._timer is None:
            self._timer = self._loop.call_later(_WAIT_S, self._decide)
        return True

    def look(self) -> None:
        """Decide, if all instances have told by now."""
        if self._tickets and self.has_heard():
            self._decide()

    def clear(self) -> list[HeldTicket]:
        """Give up all that waits, oldest first."""
        tickets, self._tickets = self._tickets, []
        self.close()
        return tickets

    def close(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _decide(self) -> None:
        self._is_deciding = True
        try:
            for ticket in self.clear():
                self._take(ticket)
        finally:
            self._is_deciding = False
