# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where other routers' tickets arrive at the holder of a node's queues: a lane for each router."""

import asyncio
import logging
import socket
import ssl
import time
from typing import TYPE_CHECKING, Final, Protocol

from mypy_extensions import mypyc_attr

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
from deployments.pool_queue.connection import NO_SLABS, TICKET_LIMITS, holder_name
from deployments.pool_queue.messages import (
    Grant,
    Lease,
    Load,
    Ticket,
    canonical_signature,
    decode_lease_end,
    decode_missing,
    decode_question,
    decode_sequence_question,
    decode_ticket,
)
from deployments.pool_queue.own_request import OwnRequest
from deployments.supervision.listener import Listener

if TYPE_CHECKING:
    from deployments.pool_queue.held_queue import HeldQueue

logger = logging.getLogger(__name__)

BACKLOG: Final = 1024
# Handshakes of TLS at the same time.
_MAX_ARRIVING_COUNT: Final = 256


class HeldQueues(Protocol):
    """The queues that this process holds."""

    def find(self, model_name: str, version: int) -> "HeldQueue | None":
        """Return the queue of a model version; None when it has none here, or not yet."""

    def queue_at(self, instance: str) -> "HeldQueue | None":
        """Return the queue whose batches lie at an incarnation, be it one without tickets yet."""

    def party_lost(self, party: "PartyLane") -> None:
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

    queue: "HeldQueue"

    def __init__(self, party: "PartyLane", number: int, ticket: Ticket, now_ns: int) -> None:
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


class TicketServer:
    """The holder's lanes of tickets.

    Everything happens on the event loop on which it was opened.

    Args:
        queues: The queues that this process holds while it is open.
        secret: The cluster's lane secret.
        limits: Bounds of each lane.

    Attributes:
        epoch: Of the holder; 0 while it is not open.
        lanes: The connections, also those that have proved nothing yet.
    """

    def __init__(
        self, queues: HeldQueues, *, secret: bytes, limits: LaneLimits = TICKET_LIMITS
    ) -> None:
        self.queues = queues
        self.secret = secret
        self.limits = limits
        self.epoch = 0
        self.lanes: set[PartyLane] = set()
        self._listeners: list[Listener[object]] = []

    def open(self, sock: socket.socket, epoch: int) -> None:
        """Accept the routers of this node.

        Args:
            sock: A Unix socket that listens; it is closed with the server.
            epoch: Of the holder.
        """
        self.epoch = epoch
        self._listen(sock, None)

    def accept_remote(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> int:
        """Accept the routers of other nodes, after `open`, and return the port.

        Args:
            sock: A TCP socket that listens; it is closed with the server.
            tls: Context of these lanes; None leaves them in clear text.
        """
        port: int = sock.getsockname()[1]
        self._listen(sock, tls)
        return port

    def _listen(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        timeout_s = self.limits.handshake_timeout_s
        encryption = {} if tls is None else {"ssl": tls, "ssl_handshake_timeout": timeout_s}
        listener: Listener[object] = Listener("ticket", self._end, _MAX_ARRIVING_COUNT)
        listener.listen([sock], lambda: encryption)
        self._listeners.append(listener)

    def close(self) -> None:
        """Give up the sockets, so that another may hold; then close the lanes.

        Whatever was granted or refused before is still written.
        """
        self.epoch = 0
        for listener in self._listeners:
            listener.release()
        self._listeners.clear()
        for lane in list(self.lanes):
            lane.connection.close("closed here")

    def _end(self) -> LaneConnection:
        return PartyLane(self).connection


@mypyc_attr(allow_interpreted_subclasses=True)
class PartyLane:
    """Another router's connection, and its requests that wait here.

    Attributes:
        connection: What its transport talks to.
    """

    def __init__(self, server: TicketServer) -> None:
        self._server = server
        self._queues = server.queues
        self._max_count = server.limits.max_inflight_count
        self._waiting: dict[int, ForeignTicket] = {}
        loop, secret, limits = asyncio.get_running_loop(), server.secret, server.limits
        self.connection = LaneConnection(
            self, loop, ServerHandshake, secret, NO_SLABS, limits, offers_slabs=False
        )
        self.connection.control = {
            TICKET: self._on_ticket,
            WITHDRAW: self._on_withdraw,
            LEASE_END: self._on_lease_end,
            LOAD: self._on_question,
            PING: self._on_ping,
            SEQUENCE: self._on_sequence,
        }

    # What the connection calls: `deployments.lane.connection.LaneRole`

    def describe(self) -> str:
        """Return what the lane is called in the log."""
        return "lane of tickets from a router"

    def connected(self, *, is_proved: bool) -> None:
        """Give the stranger the time of a handshake, unless too many are at it."""
        server = self._server
        server.lanes.add(self)
        if not server.epoch:
            self.connection.break_off("the queues are not held here any more")
        elif not is_proved:
            self.connection.admit(lane.connection for lane in server.lanes)

    def take_setup(self, setup: Setup) -> None:
        """Tell the router which holder this is."""
        del setup
        self.connection.send(SETUP, 0, encode(Setup(incarnation=holder_name(self._server.epoch))))
        self.connection.set_up_done()

    def take_frames(self, frames: list[Frame]) -> None:
        """Take tickets, and what else the router has to say."""
        for frame in frames:
            self.connection.take_control(frame)

    def lost(self, reason: str) -> None:
        """Cancel what waits; its requests are the router's."""
        server = self._server
        server.lanes.discard(self)
        if not self.connection.version:
            return
        waiting = list(self._waiting.values())
        self._waiting.clear()
        for ticket in waiting:
            ticket.is_cancelled = True
            ticket.queue.withdrawn(ticket)
        logger.info("%s lost with %d tickets: %s", self.describe(), len(waiting), reason)
        if not server.epoch:
            # It is this holder that ends its lanes.
            return
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
            queue.reports.askers.pop(self, None)
        else:
            queue.asked_by(self, when_free=asked.when_free)

    def _on_sequence(self, frame: Frame) -> None:
        asked = decode_sequence_question(frame.message)
        queue = self._queues.find(asked.model_name, asked.version)
        known = None if queue is None else queue.has_sequence(asked.correlation_id)
        self.connection.send(SEQUENCE, frame.request_id, encode(known))

    def _on_ping(self, frame: Frame) -> None:
        self.connection.send(PONG, frame.request_id)

    # Writing: nothing is sent once the lane is lost

    def grant(self, grant: Grant) -> None:
        """Have the router send these requests as a part of a batch."""
        for number in grant.tickets:
            # One that was withdrawn is not among them: schedulers drop what is cancelled.
            self._waiting.pop(number, None)
        if not self.connection.is_lost:
            self.connection.send(GRANT, 0, encode(grant))
            self.connection.flush()

    def refuse(self, ticket: ForeignTicket, error: TritonError, *, is_final: bool) -> None:
        """Tell the router the error of a request that waits no more.

        Without ``is_final`` it was for want of a queue: perhaps there is one soon.
        """
        if self._waiting.pop(ticket.number, None) is not None:
            self._send_error(ticket.number, error, FLAG_FINAL if is_final else 0)

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
