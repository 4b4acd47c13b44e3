# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The keepalive flags as a peer of either transport sees them on the wire."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from cluster.options.parsing import ServerOptions
from cluster.server.transport_options import grpc_options
from deployments.grpc.kserve.service import HEALTH_PATH, STREAM_PATH, GrpcService
from deployments.grpc.server.http2_server import Http2Server
from deployments.http2 import frames
from deployments.http2.errors import ErrorCode
from deployments.http2.keepalive_options import options_from_flags
from deployments.http2.limits import Http2Limits
from tests.support.grpc_plane import fake_plane
from tests.support.grpc_service import grpcio_server
from tests.support.http2_peer import (
    START,
    Frame,
    Peer,
    data_frame,
    grpc_message,
    headers_frame,
    request,
)

PING = frames.frame(frames.PING, 0, 0, bytes(8))


@contextlib.asynccontextmanager
async def connected(kind: str, **flags: int) -> AsyncIterator[Peer]:
    options = grpc_options(ServerOptions(**flags))
    service = GrpcService(fake_plane())
    server = (
        Http2Server(service, limits=Http2Limits(keepalive=options_from_flags(options)))
        if kind == "own"
        else grpcio_server(service, options)
    )
    port = await server.start("127.0.0.1", 0)
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
    try:
        peer.writer.write(START)
        yield peer
    finally:
        peer.writer.close()
        server.close()
        await server.wait_drained(5)


def goaway(found: Frame) -> tuple[int, bytes]:
    return int.from_bytes(found.payload[4:8], "big"), found.payload[8:]


both = pytest.mark.parametrize("kind", ["own", "grpcio"])


@both
async def test_a_peer_that_pings_too_often_is_told_to_calm_down(kind: str) -> None:
    async with connected(kind) as peer:
        peer.writer.write(headers_frame(1, request(path=STREAM_PATH)) + PING * 4)
        code, text = goaway(await peer.frame(frames.GOAWAY))
        assert (code, text) == (ErrorCode.ENHANCE_YOUR_CALM, b"too_many_pings")
        await peer.rest()


@both
async def test_pings_are_answered_where_strikes_are_off(kind: str) -> None:
    async with connected(kind, grpc_http2_max_ping_strikes=0) as peer:
        peer.writer.write(PING * 50)
        check = request(path=HEALTH_PATH)
        peer.writer.write(headers_frame(1, check) + data_frame(1, grpc_message(b""), end=True))
        assert (await peer.frame(frames.HEADERS)).stream_id == 1


@both
async def test_a_dead_peer_is_pinged_and_dropped(kind: str) -> None:
    times = {"grpc_keepalive_time": 100, "grpc_keepalive_timeout": 100}
    async with connected(kind, **times, grpc_keepalive_permit_without_calls=True) as peer:
        await peer.frame(frames.PING)
        await peer.rest()


@both
async def test_an_old_connection_ends_with_goaway(kind: str) -> None:
    times = {"grpc_max_connection_age": 100, "grpc_max_connection_age_grace": 100}
    async with connected(kind, **times) as peer:
        peer.writer.write(headers_frame(1, request(path=STREAM_PATH)))
        code, _ = goaway(await peer.frame(frames.GOAWAY))
        assert code == ErrorCode.NO_ERROR
        # The call does not end, but its grace does.
        await peer.rest()
