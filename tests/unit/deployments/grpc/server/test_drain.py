# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Draining loses no call: stock clients in a loop, and frame by frame."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from deployments.grpc.server.http2_server import Http2Server
from deployments.http2 import frames
from deployments.http2.limits import NS_PER_S, Http2Limits
from deployments.security.tls import TlsFiles
from tests.support import virtual_time
from tests.support.certificates import make_certificates
from tests.support.http2_peer import START, RecordingService, call, connected

CALLERS = 16
LAST_ID = frames.MAX_STREAM_ID.to_bytes(4, "big")


@pytest.fixture
async def server() -> AsyncIterator[Http2Server]:
    made = Http2Server(RecordingService())
    yield made
    made.close()
    assert await made.wait_drained(5)


class _Callers:
    """Clients with a connection each that call without a pause."""

    def __init__(self, port: int, credentials: grpc.ChannelCredentials | None = None) -> None:
        self._target = f"127.0.0.1:{port}"
        self._credentials = credentials
        self.answered = 0
        self.errors: list[grpc.aio.AioRpcError] = []
        self.progress = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "_Callers":
        self._tasks = [asyncio.create_task(self._call(number)) for number in range(CALLERS)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _call(self, number: int) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        channel = (
            grpc.aio.insecure_channel(self._target, options)
            if self._credentials is None
            else grpc.aio.secure_channel(self._target, self._credentials, options)
        )
        async with channel:
            echo = channel.unary_unary("/test.Service/Echo")
            payload = b"%d" % number * 1000
            while not self.errors:
                try:
                    assert await echo(payload) == payload
                except grpc.aio.AioRpcError as error:
                    self.errors.append(error)
                self.answered += 1
                async with self.progress:
                    self.progress.notify_all()

    async def more(self, count: int) -> None:
        """Wait until so many further calls have ended."""
        goal = self.answered + count
        async with self.progress:
            await self.progress.wait_for(lambda: self.answered >= goal or self.errors)


async def _hand_over(
    old: Http2Server, new: Http2Server, credentials: grpc.ChannelCredentials | None = None
) -> None:
    port = await old.start("127.0.0.1", 0)
    async with asyncio.timeout(60), _Callers(port, credentials) as callers:
        await callers.more(500)
        shared = old.listening_socket()
        assert shared is not None
        await new.start("127.0.0.1", 0, sock=shared.dup())
        old.begin_drain()
        await callers.more(200)
        old.release_listener()
        assert await old.wait_drained(30)
        await callers.more(500)
        assert callers.errors == []
    old.close()


async def test_a_successor_with_the_same_socket_takes_over_without_a_failed_call(
    server: Http2Server,
) -> None:
    await _hand_over(Http2Server(RecordingService()), server)


@pytest.mark.slow
async def test_a_successor_takes_over_under_tls(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    certificate, key = map(str, made.server)
    tls = TlsFiles("grpc", certificate, key)
    old, new = (Http2Server(RecordingService(), tls=tls) for _ in range(2))
    await _hand_over(old, new, grpc.ssl_channel_credentials(made.root.read_bytes()))
    new.close()
    assert await new.wait_drained(5)


async def test_no_call_that_reached_the_server_fails(server: Http2Server) -> None:
    port = await server.start("127.0.0.1", 0)
    async with asyncio.timeout(60), _Callers(port) as callers:
        await callers.more(500)
        server.begin_drain()
        # Still accepting: clients that reconnect are served.
        await callers.more(500)
        assert callers.errors == []
        server.stop_accepting()
        assert await server.wait_drained(30)
        await callers.more(1)
        # Without a successor nobody listens; that is all that a call may fail of.
        for error in callers.errors:
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            assert "failed to connect" in str(error.details()).lower()
        service = server.service
        assert isinstance(service, RecordingService)
        assert all(each.cancelled_count == 0 for each in service.calls)


async def test_a_connection_gets_goaway_twice_and_serves_what_comes_in_between(
    server: Http2Server,
) -> None:
    port = await server.start("127.0.0.1", 0)
    async with asyncio.timeout(20), connected(port) as peer:
        peer.writer.write(START + call(1, b"before"))
        await peer.frame(frames.DATA)
        server.begin_drain()
        first = await peer.frame(frames.GOAWAY)
        assert first.payload[:8] == LAST_ID + bytes(4)
        ping = await peer.frame(frames.PING)
        # On the wire before the client has seen the GOAWAY.
        peer.writer.write(call(3, b"in between"))
        assert (await peer.frame(frames.DATA)).payload[5:] == b"in between"
        peer.writer.write(frames.frame(frames.PING, frames.ACK, 0, ping.payload))
        second = await peer.frame(frames.GOAWAY)
        assert second.payload[:8] == (3).to_bytes(4, "big") + bytes(4)
        assert await peer.rest() == b""


async def test_a_connection_of_the_drain_gets_goaway_with_its_first_answer(
    server: Http2Server,
) -> None:
    port = await server.start("127.0.0.1", 0)
    server.begin_drain()
    async with asyncio.timeout(20), connected(port) as peer:
        peer.writer.write(START)
        # The server's preface is not followed by a GOAWAY.
        await peer.frame(frames.SETTINGS)
        peer.writer.write(call(1, b"first"))
        assert (await peer.frame(frames.DATA)).payload[5:] == b"first"
        assert (await peer.frame(frames.GOAWAY)).payload[:4] == LAST_ID


def test_an_idle_connection_of_the_drain_gets_goaway_after_a_grace() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = Http2Server(
            RecordingService(),
            limits=Http2Limits(drain_grace_ns=2 * NS_PER_S),
            clock_ns=lambda: int(loop.time() * NS_PER_S),
        )
        port = await server.start("127.0.0.1", 0)
        server.begin_drain()
        begun_s = loop.time()
        async with connected(port) as peer:
            peer.writer.write(START)
            assert (await peer.frame(frames.GOAWAY)).payload[:4] == LAST_ID
            assert 2 <= loop.time() - begun_s <= 4
            # The PING is not answered; the second GOAWAY does not wait for it for ever.
            assert (await peer.frame(frames.GOAWAY)).payload[:4] == bytes(4)
            assert await peer.rest() == b""
        assert await server.wait_drained(5)
        server.close()

    virtual_time.run(main())


async def test_what_waits_in_the_accept_queue_is_served(server: Http2Server) -> None:
    port = await server.start("127.0.0.1", 0)
    async with asyncio.timeout(20):
        async with connected(port) as early:
            # Connected by the kernel; the server's loop has had no turn since.
            server.stop_accepting()
            early.writer.write(START + call(1, b"early"))
            assert (await early.frame(frames.DATA)).payload[5:] == b"early"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_late_frames_do_not_reset_a_connection_that_ends(server: Http2Server) -> None:
    port = await server.start("127.0.0.1", 0)
    async with asyncio.timeout(20), connected(port) as peer:
        peer.writer.write(START + call(1, b"x"))
        server.begin_drain()
        await peer.frame(frames.PING)
        peer.writer.write(frames.frame(frames.PING, frames.ACK, 0, b"draining"))
        await peer.frame(frames.GOAWAY)
        for _ in range(10):
            peer.writer.write(frames.window_update(0, 1000))
            await asyncio.sleep(0)
        assert await peer.rest() == b""
        # Half closed: a reset would have come by now.
        peer.writer.write(frames.window_update(0, 1000))
        await peer.writer.drain()
