# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ticket of another router's request, and what the queues look like to the lanes of tickets."""

from collections.abc import Hashable
from typing import Protocol

from backends.api.errors import TritonError, UnavailableError
from deployments.lane.frames import FrameError
from deployments.pool_queue.load_reports import LoadReports
from deployments.pool_queue.messages import (
    Grant,
    Lease,
    Load,
    Missing,
    Ticket,
    canonical_signature,
)
from deployments.pool_queue.own_request import OwnRequest


class ForeignParty(Hashable, Protocol):
    """Another router; all its methods send, and do nothing once its lane is lost."""

    def grant(self, grant: Grant) -> None:
        """Have it send requests to an instance as a part of a batch."""

    def refuse(self, ticket: "ForeignTicket", error: TritonError, *, is_final: bool) -> None:
        """Tell it the error of a request that waits no more.

        Without ``is_final`` it was for want of a queue: perhaps there is one soon.
        """

    def send_load(self, load: Load) -> None:
        """Tell it how much waits for a model here."""

    def lease(self, lease: Lease) -> None:
        """Let it start one request that waits elsewhere."""


class HeldQueue(Protocol):
    """The queue of one model version, held in this process, as lanes of tickets use it.

    Attributes:
        reports: Tells parties of its load; the lanes say who they are.
    """

    @property
    def reports(self) -> LoadReports: ...  # noqa: D102

    def has_sequence(self, correlation_id: int | str) -> bool | None:
        """Whether a sequence goes on here, in a slot or in the backlog; None: not known yet."""

    def enqueue(self, ticket: "ForeignTicket") -> None:
        """Take a ticket.

        Raises:
            TritonError: It is not queued; the error ends the request.
        """

    def withdrawn(self, ticket: "ForeignTicket", *, is_ended: bool = False) -> None:
        """Learn that a waiting ticket, which `is_cancelled` now, is not to be granted.

        With ``is_ended`` that ends its request, which counts as a failure here.
        """

    def give_up(self, ticket: "ForeignTicket") -> bool:
        """Forget the first request of a sequence that has not begun, unless others follow it here.

        Returns:
            Whether it is to begin elsewhere now.
        """

    def missing(self, party: ForeignParty, missing: Missing) -> None:
        """Learn that requests of a granted batch will not come: the instance is to forget them."""

    def asked_by(self, party: ForeignParty, *, when_free: bool) -> None:
        """Learn that a party wants to know the load: now, or when an instance is free."""

    def lease_returned(self, party: ForeignParty, number: int) -> None:
        """Learn that a party has given back a lease it has not used; perhaps it never had it."""


class HeldQueues(Protocol):
    """The queues that this process holds."""

    def find(self, model_name: str, version: int) -> HeldQueue | None:
        """Return the queue of a model version; None when it has none here, or not yet."""

    def queue_at(self, instance: str) -> HeldQueue | None:
        """Return the queue whose batches lie at an incarnation, be it one without tickets yet."""

    def party_lost(self, party: ForeignParty) -> None:
        """Learn that a router is gone; its waiting tickets are cancelled already.

        Its leases that are not used, and its parts that have not come, never will be.
        """


class ForeignTicket:
    """A ticket of another router; what waits in a queue as `OwnRequest` does.

    Args:
        party: The router.
        number: Its number there.
        ticket: The message.
        now_ns: Now; when it is queued if the router's clock is another one.

    Attributes:
        queue: Where it waits; set before it is enqueued.

    Raises:
        FrameError: The message has values that no router sends.
        ValueError: The signature is none.
    """

    __slots__ = (
        "avoid",
        "batch_size",
        "correlation_id",
        "enqueue_ns",
        "flags",
        "is_cancelled",
        "is_kept",
        "is_rescheduled",
        "number",
        "party",
        "priority",
        "queue",
        "request_id",
        "signature",
        "tenant",
        "timeout_us",
        "weight",
    )

    queue: HeldQueue

    def __init__(self, party: ForeignParty, number: int, ticket: Ticket, now_ns: int) -> None:
        times = ticket.queued_ns, ticket.waited_ns, ticket.timeout_us
        if min(ticket.batch_size, ticket.priority, *times) < 0:
            raise FrameError(f"ticket {number} has a negative size, time or priority")
        # A future time would wait for ever; another boot's clock says 0.
        queued_ns = min(ticket.queued_ns, now_ns) or max(0, now_ns - ticket.waited_ns)
        self.party = party
        self.number = number
        self.batch_size = ticket.batch_size
        self.enqueue_ns = queued_ns
        self.signature = canonical_signature(ticket.signature)
        self.timeout_us = ticket.timeout_us
        self.priority = ticket.priority
        self.correlation_id = ticket.correlation_id
        self.flags = ticket.flags
        self.request_id = ticket.request_id
        self.avoid = ticket.avoid
        self.tenant = ticket.tenant
        self.weight = ticket.weight
        self.is_cancelled = False
        self.is_kept = False
        self.is_rescheduled = False

    def fail(self, error: TritonError) -> None:
        """Tell the router the error, if the ticket still waits there."""
        self.party.refuse(self, error, is_final=True)

    def turn_away(self, error: TritonError) -> None:
        """Tell the router that its queue is gone, if the ticket still waits there."""
        self.party.refuse(self, error, is_final=False)


# What waits in a queue that is held here.
HeldTicket = OwnRequest | ForeignTicket


def no_queue(model_name: str, version: int) -> UnavailableError:
    """Return the error of a request that finds no queue."""
    return UnavailableError(
        f"Request for unknown model: '{model_name}' version {version} has no queue on this node; "
        "try again once the model is ready"
    )
