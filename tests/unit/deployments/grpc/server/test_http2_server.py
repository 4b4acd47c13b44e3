# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The server on loopback with stock clients."""

import asyncio
from collections.abc import AsyncIterator, Callable

import grpc
import grpc.aio
import pytest

from deployments.grpc.server.http2_server import Http2Server
from deployments.http2.limits import NS_PER_S, Http2Limits
from tests.support.http2_peer import (
    START,
    RecordingService,
    call,
)

TRITON = b"/inference.GRPCInferenceService/"
UNLIMITED = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]


# The transport itself, on the test's own loop.


@pytest.fixture
async def server() -> AsyncIterator[Http2Server]:
    started = Http2Server(RecordingService(), limits=Http2Limits(max_connections=2))
    yield started
    started.close()
    assert await started.wait_drained(5)


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(20):
        return await reader.read()


async def test_draining_finishes_the_calls_and_then_the_connections(server: Http2Server) -> None:
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", UNLIMITED) as channel:
        echo = channel.unary_unary("/test.Service/Echo")
        await echo(b"")
        stream = channel.stream_stream("/test.Service/Bidi")()
        await stream.write(b"before")
        assert await stream.read() == b"before"
        assert (server.connection_count, server.inflight_count) == (1, 1)
        server.begin_drain()
        assert not await server.wait_drained(0)
        await stream.write(b"after")
        assert await stream.read() == b"after"
        await stream.done_writing()
        assert await stream.code() is grpc.StatusCode.OK
        assert await server.wait_drained(20)
        assert (server.connection_count, server.inflight_count) == (0, 0)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await echo(b"")
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_closing_cancels_the_calls(server: Http2Server) -> None:
    service = server.service
    assert isinstance(service, RecordingService)
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", UNLIMITED) as channel:
        stream = channel.stream_stream("/test.Service/Bidi")()
        await stream.write(b"x")
        await stream.read()
        server.close()
        assert await stream.code() is grpc.StatusCode.UNAVAILABLE
    assert [rpc.cancelled_count for rpc in service.calls] == [1]


async def test_a_client_of_another_protocol_is_told_and_dropped(server: Http2Server) -> None:
    port = await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert b"this port speaks gRPC" in await _read_all(reader)
    writer.close()


async def test_a_reader_that_stops_is_not_read_from(server: Http2Server) -> None:
    service = server.service
    assert isinstance(service, RecordingService)
    port = await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
    wide = b"".join((START, b"\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff"))
    writer.write(wide + b"\0\0\x04\x08\0\0\0\0\0\x7f\x00\x00\x00")
    await _until(lambda: server.connection_count)
    [connection] = server._listener.connections
    sent = 0
    out = connection.grpc.h2.out
    while not out.blocked:
        sent += 1
        writer.write(call(2 * sent - 1, bytes(500_000)))
        await _until(lambda expected=sent: len(service.calls) == expected or out.blocked)
    writer.write(b"".join(call(2 * (sent + n) - 1, b"x") for n in range(1, 50)))
    for _ in range(50):
        await asyncio.sleep(0)
    assert out.blocked
    assert len(service.calls) < sent + 49
    # What waits in the transport counts as much as what waits in the streams.
    assert server.budget.used_bytes >= out.queued_bytes + server.limits.write_burst_bytes - (
        64 << 10
    )
    while len(service.calls) < sent + 49:
        await reader.read(1 << 20)
    writer.close()
    await _until(lambda: not server.connection_count)
    assert server.budget.used_bytes == 0


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        # The server has nothing of its own to wait for here.
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_two_servers_share_a_port(server: Http2Server) -> None:
    other = Http2Server(RecordingService())
    port = await server.start("127.0.0.1", 0, reuse_port=True)
    assert await other.start("127.0.0.1", port, reuse_port=True) == port
    other.close()


def test_timeouts_are_swept_and_deadlines_are_timed_in_virtual_time() -> None:
    from tests.support import virtual_time

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = Http2Server(RecordingService(), clock_ns=lambda: int(loop.time() * NS_PER_S))
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert b"no preface" in await reader.read()
        assert loop.time() >= 10
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        headers = (
            (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/test.Service/Wait"),
            (b"content-type", b"application/grpc"), (b"grpc-timeout", b"7S"),
        )  # fmt: skip
        before = loop.time()
        writer.write(START + call(1, b"", headers))
        received = b""
        while b"Deadline Exceeded" not in received:
            received += await reader.read(1000)
        assert 7 <= loop.time() - before < 8
        writer.close()
        assert await server.wait_drained(5)
        server.close()

    virtual_time.run(main())
