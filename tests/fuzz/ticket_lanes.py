# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Both ends of a lane of tickets, behind the set-up, fed with any bytes: nothing is left then."""

import asyncio
from collections.abc import Iterator
from typing import Any

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
    SETUP,
    TICKET,
    WITHDRAW,
)
from deployments.lane.handshake import ClientHandshake, ServerHandshake
from deployments.lane.messages import ErrorMessage, Setup, encode
from deployments.pool_queue.connection import holder_name
from deployments.pool_queue.messages import Grant, Lease, LeaseEnd, Load, Missing, Question, Ticket
from deployments.pool_queue.ticket_lane import TicketLane
from deployments.pool_queue.ticket_server import PartyLane, TicketServer
from deployments.pool_queue.waiting_ticket import TicketLaneOptions
from tests.support.lane_rig import SECRET, frame
from tests.support.ticket_rig import CONFIG, EPOCH, NEW_CONFIG, Queues, Request, Router

_NONCE = bytes(32)


class _Transport:
    """Keeps what is written; implements `LaneTransport`."""

    def __init__(self) -> None:
        self.written = bytearray()

    def write(self, data: bytes) -> None:
        self.written += data

    def take(self) -> bytes:
        taken = bytes(self.written)
        self.written.clear()
        return taken

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        del high

    def get_extra_info(self, name: str) -> Any:
        del name

    def close(self) -> None:
        """Nothing is open."""

    abort = close


def _feed(connection: LaneConnection, pieces: Iterator[bytes]) -> None:
    for piece in pieces:
        connection.data_received(piece)
    connection.connection_lost(None)
    assert connection.is_lost


async def _feed_holder(pieces: Iterator[bytes]) -> None:
    queues, transport = Queues(), _Transport()
    server = TicketServer(queues, secret=SECRET)
    server.epoch = EPOCH
    connection = PartyLane(server).connection
    connection.connection_made(transport)
    peer = ClientHandshake(SECRET, _NONCE)
    connection.data_received(peer.open())
    connection.data_received(peer.feed(transport.take()) + frame(SETUP, message=encode(Setup())))
    assert connection.is_set_up
    _feed(connection, pieces)
    queue = queues.by_model["model", 1]
    assert not server.lanes
    assert not queue.came
    assert queues.lost
    queue.reports.close()


async def _feed_router(pieces: Iterator[bytes]) -> None:
    router, transport = Router(), _Transport()
    router.unreachable = {"a"}
    lane = TicketLane(TicketLaneOptions(SECRET, router), is_local=True)
    connection = lane._connection
    connection.connection_made(transport)
    peer = ServerHandshake(SECRET, _NONCE)
    connection.data_received(peer.feed(transport.take()))
    peer.feed(transport.take()[:32])
    setup = Setup(incarnation=holder_name(EPOCH))
    connection.data_received(frame(SETUP, message=encode(setup)))
    assert connection.is_set_up
    requests = [Request() for _ in range(4)]
    for config, request in zip([CONFIG, CONFIG, CONFIG, NEW_CONFIG], requests, strict=True):
        lane.queue_of(config.name, 1, config).start(request)
    lane.queue_of("model", 1, CONFIG).withdraw(requests[2], router.taken)
    _feed(connection, pieces)
    assert not lane.waiting
    # Each is back, has ended or is on its way to an instance: once.
    sent = [each for _, _, part in router.parts for each in part]
    ended = [each for each in requests if each.ended.done()]
    places = [*router.back, *filter(None, router.moved), *ended, *sent]
    assert sorted(map(id, places)) == sorted(map(id, requests))
    assert all(each.queue is None for each in requests)


def feed_holder(pieces: Iterator[bytes]) -> None:
    """Be a router that says anything to a holder."""
    with asyncio.Runner() as runner:
        runner.run(_feed_holder(pieces))


def feed_router(pieces: Iterator[bytes]) -> None:
    """Be a holder that says anything to a router."""
    with asyncio.Runner() as runner:
        runner.run(_feed_router(pieces))


def router_seeds() -> Iterator[bytes]:
    """What routers say."""
    ticket = Ticket("model", 1, 2, 3, [("A", (1, 2), b"x")], 4, 5, "id", 1, "request", "b")
    yield (
        frame(TICKET, 1, encode(ticket))
        + frame(TICKET, 2, encode(Ticket("new", 2)))
        + frame(WITHDRAW, 1)
        + frame(WITHDRAW, 0, encode(Missing("model", 1, EPOCH, 3, "a")))
        + frame(LEASE_END, 0, encode(LeaseEnd("model", 1, 3)))
        + frame(LOAD, 0, encode(Question("model", 1)))
        + frame(LOAD, 0, encode(Question("model", 1, is_over=True)))
        + frame(PING)
    )


def holder_seeds() -> Iterator[bytes]:
    """What holders say."""
    yield (
        frame(LOAD, 0, encode(Load("model", 1, 2, 3, 4, 5.0, 6.0, 7)))
        + frame(GRANT, 0, encode(Grant(EPOCH, 1, "b", [1], [0], [9])))
        + frame(ERROR, 2, encode(ErrorMessage("Unavailable", "full")), flags=FLAG_FINAL)
        + frame(WITHDRAW, 3)
        + frame(ERROR, 4, encode(ErrorMessage("Unavailable", "unknown")))
        + frame(LEASE, 0, encode(Lease("model", 1, EPOCH, 2, "b")))
        + frame(LEASE_END, 0, encode(LeaseEnd("model", 1, 2)))
        + frame(PONG)
    )
    yield frame(GRANT, 0, encode(Grant(EPOCH, 1, "a", [1, 2])))
