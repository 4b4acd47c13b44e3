# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A ticket at the router's end, and what its queue and its lane want of each other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from backends.api.errors import TritonError
from backends.api.request import SEQUENCE_START
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.batches import BatchPart
from deployments.lane.messages import LaneLimits
from deployments.pool_queue.connection import TICKET_LIMITS
from deployments.pool_queue.messages import Grant
from deployments.pool_queue.own_request import OwnRequest


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


class DecidedHere(Protocol):
    """A queue as its lane uses it; `deployments.pool_queue.ticket_queue.TicketQueue`.

    Attributes:
        tickets: Those of its requests that the holder has not decided on.
    """

    tickets: "WaitingTickets"

    def granted(self, grant: Grant, granted: "Sequence[WaitingTicket]") -> None:
        """Send requests as a part of a batch."""

    def refused(self, waiting: "WaitingTicket", error: TritonError) -> None:
        """Pass on the error of a request that does not wait any more."""

    def unknown(self, waiting: "WaitingTicket", error: TritonError) -> None:
        """Keep a request for a holder that does not know the model yet, for a while."""

    def gone(self, waiting: "WaitingTicket", error: TritonError) -> None:
        """End a request, or give it back, that the holder has no ticket of any more."""


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
        among: Where `WaitingTickets` keeps it.
    """

    __slots__ = (
        "among",
        "is_parked",
        "is_unknown",
        "is_withdrawn",
        "queue",
        "request",
        "taken",
        "tries",
        "unknown_since_s",
    )

    def __init__(self, queue: DecidedHere, request: OwnRequest, tries: int = 0) -> None:
        self.queue = queue
        self.request = request
        self.tries = tries
        self.unknown_since_s = 0.0
        self.is_parked = self.is_unknown = False
        self.is_withdrawn = False
        self.taken: Callable[[OwnRequest | None], None] | None = None
        self.among = queue.tickets.bound

    def settle(self, request: OwnRequest | None) -> None:
        """Tell whoever withdrew it that the request is back, or by None that it is not."""
        taken, self.taken = self.taken, None
        if taken is not None:
            taken(request)


class WaitingTickets:
    """The tickets of one queue, by what may become of them; each kind oldest first.

    Nobody has to walk what waits in other queues, or what has to stay, to find what may leave.

    Attributes:
        movable: What may as well wait elsewhere.
        starts: What begins sequences that may as well begin elsewhere.
        bound: The rest. Also what is parked or being withdrawn.
    """

    __slots__ = ("bound", "movable", "starts")

    def __init__(self) -> None:
        self.movable: dict[WaitingTicket, None] = {}
        self.starts: dict[WaitingTicket, None] = {}
        self.bound: dict[WaitingTicket, None] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.movable) + len(self.starts) + len(self.bound)

    def all(self) -> list[WaitingTicket]:
        """Return all of them, oldest first."""
        tickets = [*self.movable, *self.starts, *self.bound]
        return sorted(tickets, key=lambda waiting: waiting.request.enqueue_ns)

    def add(self, waiting: WaitingTicket) -> None:
        """Take a ticket that the holder has, or is about to get."""
        request = waiting.request
        if request.is_movable:
            waiting.among = among = self.movable
        elif request.may_start_elsewhere:
            waiting.among = among = self.starts
        else:
            waiting.among = among = self.bound
        among[waiting] = None

    def bind(self, waiting: WaitingTicket) -> None:
        """Have a ticket stay where it is."""
        bound = self.bound
        if waiting.among is not bound:
            del waiting.among[waiting]
            waiting.among = bound
            bound[waiting] = None

    def remove(self, waiting: WaitingTicket) -> None:
        """Forget a ticket."""
        del waiting.among[waiting]

    def clear(self) -> None:
        """Forget all."""
        self.movable.clear()
        self.starts.clear()
        self.bound.clear()


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


class TicketSender(Protocol):
    """A lane of tickets as its queues use it; `deployments.pool_queue.ticket_lane.TicketLane`."""

    owner: TicketOwner
    is_local: bool
    max_message_bytes: int

    @property
    def is_open(self) -> bool: ...  # noqa: D102

    def write_down(self, waiting: WaitingTicket) -> int:
        """Give a request its number."""

    def find(self, request: OwnRequest) -> WaitingTicket | None:
        """Return what is written down of a request."""

    def strike_out(self, number: int) -> WaitingTicket | None:
        """Forget what is written down of a number."""

    async def knows(self, model_name: str, version: int, correlation_id: int | str) -> bool | None:
        """Ask the holder whether a sequence goes on there; None when it does not say."""

    def send(self, kind: int, number: int, message: bytes = b"", flags: int = 0) -> None:
        """Send a frame, if the lane is open."""
