# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes of tickets over real sockets: a router, its requests, and a queue that a test turns."""

import asyncio
import itertools
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from backends.api.errors import TritonError, UnavailableError
from backends.api.model_config import DynamicBatching, ModelConfig, ModelInput
from backends.api.request import EMPTY, InferenceRequest, Tensor
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.contracts.sinks import ResponseSink
from deployments.lane.batches import BatchPart
from deployments.lane.frames import SETUP
from deployments.lane.inflight import LaneInflight
from deployments.lane.messages import LaneLimits, Setup, encode
from deployments.lane.pool_client import PoolClient
from deployments.pool_queue.connection import TICKET_LIMITS
from deployments.pool_queue.election import socket_name
from deployments.pool_queue.held_queue import HeldQueue
from deployments.pool_queue.load_reports import LoadReports
from deployments.pool_queue.messages import Grant, Lease, Load, Missing
from deployments.pool_queue.own_request import OwnRequest
from deployments.pool_queue.ticket_lane import TicketLane
from deployments.pool_queue.ticket_queue import TicketQueue
from deployments.pool_queue.ticket_server import HeldTicket, PartyLane, TicketServer
from deployments.pool_queue.waiting_ticket import TicketLaneOptions
from deployments.settings.port_range import ANY_PORT
from tests.support.lane_rig import SECRET, RawPeer, frame

EPOCH = 7_000_000_000
_names = itertools.count()


def unused_name() -> str:
    return socket_name(SECRET, f"node {os.getpid()} {next(_names)}")


CONFIG = ModelConfig(
    "model",
    max_batch_size=8,
    input=(ModelInput("A", "UINT8", (-1,)), ModelInput("B", "UINT8", (-1,), optional=True)),
    dynamic_batching=DynamicBatching(),
)
NEW_CONFIG = ModelConfig("new")


class Request(OwnRequest):
    """A request that is its own sink."""

    def __init__(self, *shape: int, **fields: Any) -> None:
        inputs = [Tensor("A", "UINT8", shape or (1, 1), EMPTY)]
        super().__init__(
            InferenceRequest("model", inputs=inputs, **fields), cast("ResponseSink", self)
        )
        self.error: TritonError | None = None
        self.ended = asyncio.get_running_loop().create_future()

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        assert final
        assert self.queue is None
        assert not self.ended.done()
        self.error = error
        self.ended.set_result(None)

    def moved(self) -> "Request":
        self.cancelled = True
        self.queue = None
        return self

    def cancel_in_queue(self) -> None:
        self.cancelled = True
        assert self.queue is not None
        self.queue.cancelled(self)


class InstanceLane(PoolClient):
    """Notes the cancels of what was sent; there is no connection."""

    def __init__(self) -> None:
        self.draining = False
        self.cancels: list[LaneInflight] = []

    def send_cancel(self, inflight: LaneInflight) -> None:
        self.cancels.append(inflight)


class Router:
    """Implements `TicketOwner`; instances of ``unreachable`` have no lane."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, BatchPart, list[LaneInflight]]] = []
        self.unreachable: set[str] = set()
        self.lane: Any = InstanceLane()
        self.back: list[Request] = []
        self.reached: list[tuple[str, int, InstanceEndpoint]] = []
        self.moved: list[OwnRequest | None] = []

    def send_part(self, instance: str, part: BatchPart, requests: Sequence[OwnRequest]) -> bool:
        if instance in self.unreachable:
            return False
        for request in requests:
            request.lane = self.lane
        self.parts.append((instance, part, list(requests)))
        return True

    def returned(self, requests: Sequence[Any]) -> None:
        self.back += requests

    def reach(self, model_name: str, version: int, endpoint: InstanceEndpoint) -> None:
        self.reached.append((model_name, version, endpoint))

    def taken(self, request: OwnRequest | None) -> None:
        self.moved.append(request)


class Queue(HeldQueue):
    """The test says what is granted."""

    def __init__(self) -> None:
        self.came: list[Any] = []
        self.free_count = 0
        self.full = False
        self.withdrawals: list[HeldTicket] = []
        self.not_coming: list[Missing] = []
        self.given_back: list[int] = []
        # Incarnations of its instances.
        self.used: set[str] = set()
        self.reports = LoadReports(asyncio.get_running_loop(), lambda: self.load)
        self._numbers = itertools.count(1)

    @property
    def load(self) -> Load:
        return Load("model", 1, len(self.came), self.free_count, 2)

    def enqueue(self, ticket: HeldTicket) -> None:
        if self.full:
            raise UnavailableError("Exceeds maximum queue size")
        self.came.append(ticket)

    def withdrawn(self, ticket: HeldTicket, *, is_ended: bool = False) -> None:
        assert ticket.is_cancelled
        if ticket in self.came:
            self.came.remove(ticket)
        self.withdrawals.append(ticket)

    def give_up(self, ticket: HeldTicket) -> bool:
        same = [each for each in self.came if each.correlation_id == ticket.correlation_id]
        is_alone = len(same) == 1
        if is_alone:
            self.came.remove(ticket)
        return is_alone

    def missing(self, party: PartyLane, missing: Missing) -> None:
        self.not_coming.append(missing)

    def asked_by(self, party: PartyLane, *, when_free: bool) -> None:
        self.reports.asked(party, when_free=when_free)

    def lease_returned(self, party: PartyLane, number: int) -> None:
        self.given_back.append(number)

    def grant(self, instance: str, count: int = 1, **fields: Any) -> int:
        """Grant the oldest tickets as one batch."""
        batch, self.came = self.came[:count], self.came[count:]
        self.used.add(instance)
        number = next(self._numbers)
        for party in dict.fromkeys(ticket.party for ticket in batch):
            own = [ticket.number for ticket in batch if ticket.party is party]
            party.grant(Grant(EPOCH, number, instance, own, **fields))
        return number

    def lease(self, party: PartyLane, number: int, instance: str) -> None:
        party.lease(Lease("model", 1, EPOCH, number, instance))


class Queues:
    """Implements `HeldQueues` with one model."""

    def __init__(self) -> None:
        self.by_model = {("model", 1): Queue()}
        self._all = list(self.by_model.values())
        self.lost: list[PartyLane] = []

    def find(self, model_name: str, version: int) -> Queue | None:
        return self.by_model.get((model_name, version))

    def queue_at(self, instance: str) -> Queue | None:
        return next((each for each in self._all if instance in each.used), None)

    def party_lost(self, party: PartyLane) -> None:
        self.lost.append(party)
        for queue in self.by_model.values():
            queue.came = [ticket for ticket in queue.came if not ticket.is_cancelled]
            queue.reports.forget(party)


def listening(name: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    sock.bind(name)
    sock.listen()
    return sock


def connected(name: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.connect(name)
    except BaseException:
        sock.close()
        raise
    return sock


async def holder_by_hand(
    serve: Callable[[RawPeer], Awaitable[None]], listener: socket.socket | None = None
) -> asyncio.Server:
    """Be the holder of one router, behind the set-up.

    Args:
        serve: Is the holder.
        listener: Where it listens; None for a port.
    """

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = RawPeer(reader, writer)
        await peer.accept()
        await peer.next_frame()
        peer.write(frame(SETUP, message=encode(Setup(incarnation=f"holder-{EPOCH}"))))
        await serve(peer)
        writer.close()

    if listener is not None:
        return await asyncio.start_unix_server(accept, sock=listener)
    return await asyncio.start_server(accept, "127.0.0.1", 0)


def ticket_count(server: TicketServer) -> int:
    """Return how many tickets of all routers wait."""
    lanes: set[Any] = set(server.lanes)
    return sum(len(lane._waiting) for lane in lanes)


class TicketRig:
    """A holder with one model, and routers that connect to it."""

    def __init__(
        self, limits: LaneLimits = TICKET_LIMITS, tls: ssl.SSLContext | None = None
    ) -> None:
        self.queues = Queues()
        self.queue = self.queues.by_model["model", 1]
        self.server = TicketServer(self.queues, secret=SECRET, limits=limits)
        self.limits = limits
        self.router = Router()
        self.name = unused_name()
        self._tls = tls

    async def __aenter__(self) -> "TicketRig":
        self.server.open(listening(self.name), EPOCH)
        sock = ANY_PORT.listen("127.0.0.1", 64)
        self.address = "127.0.0.1", self.server.accept_remote(sock, self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        assert ticket_count(self.server) == 0
        assert not self.server.lanes

    def options(self, router: Router | None = None, silence_s: float = 0.0) -> TicketLaneOptions:
        return TicketLaneOptions(SECRET, router or self.router, self.limits, silence_s)

    async def lane(self, router: Router | None = None, silence_s: float = 0.0) -> TicketLane:
        options = self.options(router, silence_s)
        return await TicketLane(options, is_local=True).open_unix(connected(self.name))

    async def remote_lane(
        self, epoch: int = EPOCH, tls: ssl.SSLContext | None = None
    ) -> TicketLane:
        return await TicketLane(self.options(), is_local=False, epoch=epoch).open_tcp(
            self.address, tls
        )

    async def client(self) -> TicketQueue:
        return (await self.lane()).queue_of("model", 1, CONFIG)

    async def raw(self) -> RawPeer:
        """A router by hand, behind the set-up."""
        from deployments.lane.handshake import ClientHandshake

        peer = RawPeer(*await asyncio.open_connection(*self.address))
        peer.handshake = ClientHandshake(SECRET, os.urandom(32))
        await peer.prove()
        peer.write(frame(SETUP, message=encode(Setup())))
        await peer.next_frame()
        return peer
