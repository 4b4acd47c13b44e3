# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""At the limit of connections the one that has been idle longest makes room."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from deployments.grpc.server.http2_server import Http2Server
from deployments.http2 import frames
from deployments.http2.limits import NS_PER_S, Http2Limits
from tests.support.http2_peer import START, Peer, RecordingService, call, connected, headers_frame

PING_ACK = 0x1


async def _serving(peer: Peer) -> None:
    peer.writer.write(START + call(1, b"hello"))
    await peer.frame(frames.DATA)


class _Clock:
    now_ns = 1_000 * NS_PER_S

    def __call__(self) -> int:
        self.now_ns += 1
        return self.now_ns


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
async def server(clock: _Clock) -> AsyncIterator[Http2Server]:
    made = Http2Server(RecordingService(), limits=Http2Limits(max_connections=16), clock_ns=clock)
    yield made
    made.close()
    assert await made.wait_drained(5)


async def test_the_longest_idle_connection_makes_room_for_a_new_one(server: Http2Server) -> None:
    port = await server.start("127.0.0.1", 0)
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(connected(port)) for _ in range(16)]
        for peer in peers:
            await _serving(peer)
        # The first has been heard of again, so the second is idle longest.
        peers[0].writer.write(call(3, b"again"))
        await peers[0].frame(frames.DATA)
        newcomer = await stack.enter_async_context(connected(port))
        await _serving(newcomer)
        goaway = await peers[1].frame(frames.GOAWAY)
        assert b"idle" in goaway.payload
        ping = await peers[1].frame(frames.PING)
        peers[1].writer.write(frames.frame(frames.PING, frames.ACK, 0, ping.payload))
        assert (await peers[1].frame(frames.GOAWAY)).payload[:4] == (1).to_bytes(4, "big")
        assert await peers[1].rest() == b""
        for peer in (peers[0], *peers[2:]):
            peer.writer.write(call(5, b"still here"))
            await peer.frame(frames.DATA)


async def test_connections_with_calls_are_left_alone_and_refusals_logged_once_a_second(
    server: Http2Server, clock: _Clock, caplog: pytest.LogCaptureFixture
) -> None:
    port = await server.start("127.0.0.1", 0)
    waiting = headers_frame(
        1,
        [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", b"/test.Service/Wait"),
            (b"content-type", b"application/grpc"),
        ],
    )
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        for _ in range(16):
            peer = await stack.enter_async_context(connected(port))
            peer.writer.write(START + waiting)
            await peer.frame(frames.SETTINGS)
        service = server.service
        assert isinstance(service, RecordingService)
        while len(service.calls) < 16:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0)
        for _ in range(5):
            refused = await stack.enter_async_context(connected(port))
            assert await refused.rest() == b""
        assert caplog.text.count("gRPC connections are refused: 16 are open") == 1
        clock.now_ns += NS_PER_S
        refused = await stack.enter_async_context(connected(port))
        assert await refused.rest() == b""
        assert caplog.text.count("gRPC connections are refused: 16 are open") == 2
        assert server.inflight_count == 16


async def test_broken_connections_are_logged_once_a_second(
    server: Http2Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    port = await server.start("127.0.0.1", 0)
    async with asyncio.timeout(20):
        for _ in range(5):
            async with connected(port) as peer:
                peer.writer.write(b"GET / HTTP/1.1\r\n\r\n" + bytes(24))
                await peer.rest()
    assert caplog.text.count("a gRPC connection is closed: PROTOCOL_ERROR") == 1


async def test_a_peer_at_its_limit_gets_no_further_connection() -> None:
    limits = Http2Limits(max_connections_per_peer=1)
    server = Http2Server(RecordingService(), limits=limits)
    port = await server.start("127.0.0.1", 0)
    async with asyncio.timeout(20), connected(port) as first:
        await _serving(first)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        assert server.connection_count == 1
    server.close()
    assert await server.wait_drained(5)
