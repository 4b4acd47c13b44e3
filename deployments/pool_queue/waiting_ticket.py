# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A ticket at the router's end, and what lanes of tickets want of the router."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from backends.api.request import SEQUENCE_START
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.batches import BatchPart
from deployments.lane.messages import LaneLimits
from deployments.pool_queue.connection import TICKET_LIMITS
from deployments.pool_queue.own_request import OwnRequest, Taken

if TYPE_CHECKING:
    from deployments.pool_queue.ticket_queue import TicketQueue


class TicketOwner(Protocol):
    """The router behind a lane of tickets."""

    def send_part(self, instance: str, part: BatchPart, requests: Sequence[OwnRequest]) -> bool:
        """Send requests to an incarnation as a part of a batch.

        Returns:
            Whether that could be done: a lane to the instance is open.
        """

    def returned(self, requests: list[OwnRequest]) -> None:
        """Take back what waited at a holder that is gone, oldest first."""

    def reach(self, model_name: str, version: int, endpoint: InstanceEndpoint) -> None:
        """Open a lane to an instance that goes on with sequences, if there is none."""


class WaitingTicket:
    """A request that the holder has not decided on.

    Attributes:
        queue: Where it waits.
        request: The request.
        tries: How often its instance could not be reached.
        unknown_since_s: When the holder first did not know the model; 0.0 when it does.
        is_unknown: Whether the holder did not know the model when it heard of it.
        is_parked: Whether it waits here, to be sent to a holder that does not know the model.
        is_withdrawn: Whether the holder was told to forget it.
        taken: Learns what became of a request that was withdrawn; None for nobody.
    """

    __slots__ = (
        "is_parked",
        "is_unknown",
        "is_withdrawn",
        "queue",
        "request",
        "taken",
        "tries",
        "unknown_since_s",
    )

    def __init__(self, queue: "TicketQueue", request: OwnRequest, tries: int = 0) -> None:
        self.queue = queue
        self.request = request
        self.tries = tries
        self.unknown_since_s = 0.0
        self.is_parked = self.is_unknown = False
        self.is_withdrawn = False
        self.taken: Taken | None = None

    def settle(self, request: OwnRequest | None) -> None:
        """Tell whoever withdrew it that the request is back, or by None that it is not."""
        taken, self.taken = self.taken, None
        if taken is not None:
            taken(request)


class WaitingTickets:
    """The tickets of one queue, by what may become of them; each kind oldest first.

    Nobody has to walk what waits in other queues, or what has to stay, to find what may leave.

    Attributes:
        movable: What may as well wait elsewhere, unless it is parked or being withdrawn.
        starts: What begins sequences that may as well begin elsewhere; the same.
    """

    __slots__ = ("_all", "movable", "starts")

    def __init__(self) -> None:
        self._all: dict[WaitingTicket, None] = {}
        self.movable: dict[WaitingTicket, None] = {}
        self.starts: dict[WaitingTicket, None] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def all(self) -> list[WaitingTicket]:
        """Return all of them, oldest first."""
        return sorted(self._all, key=lambda waiting: waiting.request.enqueue_ns)

    def add(self, waiting: WaitingTicket) -> None:
        """Take a ticket that the holder has, or is about to get."""
        self._all[waiting] = None
        if waiting.request.is_movable:
            self.movable[waiting] = None
        elif waiting.request.may_start_elsewhere:
            self.starts[waiting] = None

    def bind(self, waiting: WaitingTicket) -> None:
        """Have a ticket stay where it is."""
        self.movable.pop(waiting, None)
        self.starts.pop(waiting, None)

    def remove(self, waiting: WaitingTicket) -> None:
        """Forget a ticket."""
        del self._all[waiting]
        self.bind(waiting)

    def clear(self) -> None:
        """Forget all."""
        self._all.clear()
        self.movable.clear()
        self.starts.clear()


def not_begun(
    parked: Sequence[WaitingTicket], waiting: Sequence[WaitingTicket]
) -> list[WaitingTicket]:
    """Return what waits of sequences of which nothing has begun, and which may do so elsewhere.

    Args:
        parked: What is not at the holder, oldest first.
        waiting: All that waits in the same queue. Of a sequence of which the holder has a request
            yet nothing is returned: it might overtake that.
    """
    sequences: dict[int | str, list[WaitingTicket]] = {}
    for each in parked:
        sequences.setdefault(each.request.correlation_id, []).append(each)
    parked_set = set(parked)
    sent = {each.request.correlation_id for each in waiting if each not in parked_set}
    return [
        each
        for correlation_id, requests in sequences.items()
        if correlation_id not in sent
        and requests[0].request.flags & SEQUENCE_START
        and not any(each.request.local_only for each in requests)
        for each in requests
    ]


@dataclass(frozen=True, slots=True)
class TicketLaneOptions:
    """What all lanes of tickets of a router have in common.

    Attributes:
        secret: The cluster's lane secret.
        owner: The router.
        limits: Bounds of each lane.
        silence_s: How long a holder that has tickets may be silent; 0.0 for ever.
    """

    secret: bytes
    owner: TicketOwner
    limits: LaneLimits = TICKET_LIMITS
    silence_s: float = 0.0
