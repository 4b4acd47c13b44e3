# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The holder's end of a lane of tickets: one other router, and its requests that wait here."""

import logging
import time
from collections.abc import Sequence
from typing import Protocol, TypeVar

from backends.api.errors import InternalError, TritonError, UnavailableError
from deployments.lane.connection import LaneConnection
from deployments.lane.frames import (
    ERROR,
    FLAG_FINAL,
    GRANT,
    LEASE,
    LEASE_END,
    LOAD,
    PING,
    PONG,
    SEQUENCE,
    SETUP,
    TICKET,
    WITHDRAW,
    Frame,
    FrameError,
)
from deployments.lane.handshake import ServerHandshake
from deployments.lane.messages import ErrorMessage, LaneLimits, Setup, encode
from deployments.pool_queue.connection import hand_out, holder_name, ticket_connection
from deployments.pool_queue.foreign_ticket import ForeignTicket, HeldQueues, no_queue
from deployments.pool_queue.messages import (
    Grant,
    Lease,
    Load,
    decode_lease_end,
    decode_missing,
    decode_question,
    decode_sequence_question,
    decode_ticket,
)
from deployments.pool_queue.queued_request import QueuedTicket

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

# Strangers who have connected and proved nothing yet.
MAX_UNPROVED_COUNT = 256


class PartyLanes(Protocol):
    """What the lanes of one holder share; `deployments.pool_queue.ticket_server.TicketServer`.

    Attributes:
        queues: The queues that this process holds.
        secret: The cluster's lane secret.
        limits: Bounds of each lane.
        epoch: Of the holder; 0 when it holds no more.
        lanes: The connections, also those that have proved nothing yet.
        unproved_count: How many have not.
    """

    queues: HeldQueues
    secret: bytes
    limits: LaneLimits
    epoch: int
    lanes: "set[PartyLane]"
    unproved_count: int


class PartyLane:
    """A router's connection; implements `ForeignParty`.

    Args:
        server: What the lanes of one holder share.
        is_local: Whether the router is on this node.

    Attributes:
        connection: What its transport talks to.
        is_local: Whether the router is on this node.
    """

    __slots__ = (
        "_handlers",
        "_is_proved",
        "_max_count",
        "_queues",
        "_server",
        "_waiting",
        "connection",
        "is_local",
    )

    def __init__(self, server: PartyLanes, *, is_local: bool) -> None:
        self.is_local = is_local
        self._server = server
        self._queues = server.queues
        self._max_count = server.limits.max_inflight_count
        self._waiting: dict[int, ForeignTicket] = {}
        self._is_proved = False
        self._handlers = {
            TICKET: self._on_ticket,
            WITHDRAW: self._on_withdraw,
            LEASE_END: self._on_lease_end,
            LOAD: self._on_question,
            PING: self._on_ping,
            SEQUENCE: self._on_sequence,
        }
        self.connection: LaneConnection = ticket_connection(
            self, ServerHandshake, server.secret, server.limits
        )

    @property
    def waiting_count(self) -> int:
        """Tickets that wait."""
        return len(self._waiting)

    def close(self) -> None:
        """Close the lane; its router has its requests again."""
        self.connection.close("closed here")

    # What the connection calls: `deployments.lane.connection.LaneRole`

    def describe(self) -> str:
        """Return what the lane is called in the log."""
        return "lane of tickets from a router"

    def connected(self) -> None:
        """Give the stranger the time of a handshake, unless too many are at it."""
        server = self._server
        server.lanes.add(self)
        server.unproved_count += 1
        if not server.epoch:
            self.connection.break_off("the queues are not held here any more")
        elif server.unproved_count > MAX_UNPROVED_COUNT:
            self.connection.break_off("too many connections that have not proved themselves")

    def authenticated(self) -> None:
        """Count it among the strangers no more."""
        self._is_proved = True
        self._server.unproved_count -= 1

    def take_setup(self, setup: Setup) -> None:
        """Tell the router which holder this is."""
        del setup
        self.connection.send(SETUP, 0, encode(Setup(incarnation=holder_name(self._server.epoch))))
        self.connection.set_up_done()

    def take_frames(self, frames: list[Frame]) -> None:
        """Take tickets, and what else the router has to say."""
        hand_out(frames, self._handlers)

    def lost(self, reason: str) -> None:
        """Cancel what waits; its requests are the router's."""
        server = self._server
        server.lanes.discard(self)
        if not self._is_proved:
            server.unproved_count -= 1
            return
        waiting = list(self._waiting.values())
        self._waiting.clear()
        for ticket in waiting:
            ticket.is_cancelled = True
            ticket.queue.withdrawn(ticket)
        logger.info("%s lost with %d tickets: %s", self.describe(), len(waiting), reason)
        try:
            self._queues.party_lost(self)
        except Exception:
            logger.exception("%s: a queue raised on its loss", self.describe())

    # Reading

    def _on_ticket(self, frame: Frame) -> None:
        number = frame.request_id
        if number in self._waiting:
            raise FrameError(f"ticket {number} sent again while it waits")
        message = decode_ticket(frame.message)
        ticket = ForeignTicket(self, number, message, time.monotonic_ns())
        if len(self._waiting) >= self._max_count:
            full = f"{self._max_count} requests of one router wait on this node: send fewer at once"
            self._send_error(
                number, UnavailableError(f"request for '{message.model_name}': {full}")
            )
            return
        queue = self._queues.find(message.model_name, message.version)
        if queue is None:
            self._send_error(number, no_queue(message.model_name, message.version), flags=0)
            return
        ticket.queue = queue
        self._waiting[number] = ticket
        try:
            queue.enqueue(ticket)
        except TritonError as error:
            ticket.fail(error)
        except Exception:
            logger.exception("the queue of '%s' raised on a ticket", message.model_name)
            ticket.fail(
                InternalError(f"request for '{message.model_name}' could not be queued: fault")
            )
        else:
            queue.reports.used_by(self)

    def _on_withdraw(self, frame: Frame) -> None:
        if frame.message:
            missing = decode_missing(frame.message)
            if frame.request_id:
                self._give_up(frame.request_id)
                return
            # It has formed the batch, whether it takes tickets at present or not.
            queue = self._queues.queue_at(missing.instance)
            if queue is not None:
                queue.missing(self, missing)
            return
        ticket = self._waiting.pop(frame.request_id, None)
        if ticket is None:
            # The grant, or the error, is on its way.
            return
        ticket.is_cancelled = True
        self.connection.send(WITHDRAW, frame.request_id)
        ticket.queue.withdrawn(ticket, is_ended=frame.flags & FLAG_FINAL != 0)

    def _give_up(self, number: int) -> None:
        """Let a sequence begin elsewhere; if it cannot, its first request just waits on."""
        ticket = self._waiting.get(number)
        if ticket is not None and ticket.queue.give_up(ticket):
            del self._waiting[number]
            self.connection.send(WITHDRAW, number)

    def _on_lease_end(self, frame: Frame) -> None:
        ended = decode_lease_end(frame.message)
        queue = self._queues.find(ended.model_name, ended.version)
        if queue is not None:
            queue.lease_returned(self, ended.number)

    def _on_question(self, frame: Frame) -> None:
        asked = decode_question(frame.message)
        queue = self._queues.find(asked.model_name, asked.version)
        if queue is None:
            return
        if asked.is_over:
            queue.reports.asked_no_more(self)
        else:
            queue.asked_by(self, when_free=asked.when_free)

    def _on_sequence(self, frame: Frame) -> None:
        asked = decode_sequence_question(frame.message)
        queue = self._queues.find(asked.model_name, asked.version)
        known = None if queue is None else queue.has_sequence(asked.correlation_id)
        self.connection.send(SEQUENCE, frame.request_id, encode(known))

    def _on_ping(self, frame: Frame) -> None:
        self.connection.send(PONG, frame.request_id)

    # Writing: `deployments.pool_queue.foreign_ticket.ForeignParty`

    def grant(self, grant: Grant, tickets: Sequence[QueuedTicket]) -> None:
        """Have the router send these requests as a part of a batch."""
        del tickets
        waiting = self._waiting
        gone = [at for at, number in enumerate(grant.tickets) if waiting.pop(number, None) is None]
        if gone:
            # Schedulers drop what is cancelled; the instance waits for these in vain, for a while.
            logger.error("%s: batch %d has withdrawn tickets", self.describe(), grant.number)
            grant = _without(grant, gone)
        if grant.tickets and not self.connection.is_lost:
            self.connection.send(GRANT, 0, encode(grant))
            self.connection.flush()

    def refuse(self, ticket: ForeignTicket, error: TritonError) -> None:
        """Tell the router the error of a request that waits."""
        if self._waiting.pop(ticket.number, None) is not None:
            self._send_error(ticket.number, error)

    def turn_away(self, ticket: ForeignTicket, error: TritonError) -> None:
        """Tell the router that a request waits no more, for want of a queue."""
        if self._waiting.pop(ticket.number, None) is not None:
            self._send_error(ticket.number, error, flags=0)

    def send_load(self, load: Load) -> None:
        """Tell the router how much waits for a model here."""
        if not self.connection.is_lost:
            self.connection.send(LOAD, 0, encode(load))

    def lease(self, lease: Lease) -> None:
        """Let the router start one request that waits elsewhere."""
        if not self.connection.is_lost:
            self.connection.send(LEASE, 0, encode(lease))

    def _send_error(self, number: int, error: TritonError, flags: int = FLAG_FINAL) -> None:
        if not self.connection.is_lost:
            message = encode(ErrorMessage(error.code, error.message, error.phase))
            self.connection.send(ERROR, number, message, flags)


def _without(grant: Grant, gone: list[int]) -> Grant:
    def rest(values: Sequence[Value]) -> list[Value]:
        return [value for at, value in enumerate(values) if at not in gone]

    return Grant(
        grant.epoch,
        grant.number,
        grant.instance,
        rest(grant.tickets),
        rest(grant.slots),
        rest(grant.correlation_ids),
        grant.party,
        grant.place,
    )
