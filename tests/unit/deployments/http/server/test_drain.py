# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server that stops answers everything it was sent."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from deployments.http.kserve.servers import make_http_server
from deployments.http.server.host import HttpLimits
from tests.support import virtual_time
from tests.support.http_plane import Client, FakePlane, post, request, running, simple_body
from tests.support.lane_rig import until

INFER = "/v2/models/simple/infer"
LIVE = request("GET", "/v2/health/live")


async def test_busy_connections_end_with_an_answer_that_says_so() -> None:
    async with running() as here:
        here.plane.is_holding = True
        busy = await here.connect()
        await busy.send(post(INFER, simple_body(id="0")) + post(INFER, simple_body(id="1")))
        await here.plane.wait_pending(2)
        here.server.begin_drain()
        for pending in here.plane.pending:
            pending.finish()
        first, last = await busy.answer(), await busy.answer()
        assert "connection" not in first.headers
        assert last.headers["connection"] == "close"
        assert await busy.rest() == b""
        await busy.close()
        assert await here.server.wait_drained(5)


async def test_draining_server_still_accepts_and_serves() -> None:
    async with running() as here:
        here.server.begin_drain()
        for _ in range(3):
            client = await here.connect()
            answer = await client.call(post(INFER, simple_body()))
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert await client.rest() == b""


async def test_request_on_an_idle_connection_is_answered_after_a_drain_began() -> None:
    async with running() as here:
        client = await here.connect()
        assert (await client.call(LIVE)).status == 200
        here.server.begin_drain()
        answer = await client.call(post(INFER, simple_body()))
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await client.rest() == b""


def test_idle_connection_is_closed_after_its_grace_and_not_before() -> None:
    async def scenario() -> None:
        async with running() as here:
            client = await here.connect()
            assert (await client.call(LIVE)).status == 200
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            here.server.begin_drain(idle_grace_s=1.0)
            assert await client.rest() == b""
            assert 1.0 <= loop.time() - began_s < 2.0

    virtual_time.run(scenario())


def test_connection_opened_during_a_drain_has_its_grace_too() -> None:
    async def scenario() -> None:
        async with running() as here:
            loop = asyncio.get_running_loop()
            here.server.begin_drain(idle_grace_s=1.0)
            await asyncio.sleep(0.9)
            client = await here.connect()
            opened_s = loop.time()
            await asyncio.sleep(0.9)
            answer = await client.call(LIVE)
            assert answer.headers["connection"] == "close"
            silent = await here.connect()
            assert await silent.rest() == b""
            assert loop.time() - opened_s >= 1.0

    virtual_time.run(scenario())


def test_answer_made_before_a_drain_does_not_end_its_connection_at_once() -> None:
    async def scenario() -> None:
        async with running() as here:
            here.plane.is_holding = True
            client = await here.connect()
            await client.send(post(INFER, simple_body(id="0")) + post(INFER, simple_body(id="1")))
            await here.plane.wait_pending(2)
            here.plane.pending[1].finish()  # waits for the first, and says nothing of an end
            here.server.begin_drain()
            here.plane.pending[0].finish()
            assert "connection" not in (await client.answer()).headers
            assert "connection" not in (await client.answer()).headers
            assert (await client.call(LIVE)).headers["connection"] == "close"

    virtual_time.run(scenario())


async def test_drain_lets_a_request_that_is_being_received_finish() -> None:
    async with running() as here:
        client = await here.connect()
        message = post(INFER, simple_body())
        await client.send(message[:-5])
        other = await here.connect()
        while not here.server.inflight_count:
            await other.call(LIVE)
        await other.close()
        here.server.begin_drain()
        answer = await client.call(message[-5:])
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        await client.close()
        assert await here.server.wait_drained(5)


async def test_answer_survives_bytes_that_come_behind_the_last_request() -> None:
    async with running() as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(post(INFER, simple_body()))
        await here.plane.wait_pending(1)
        here.server.begin_drain()
        here.plane.pending[0].finish()
        # On the wire before the client has seen the answer: closing now would reset the connection.
        await client.send(b"x" * 200_000)
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await client.reader.read() == b""


def test_peer_that_does_not_close_is_closed_after_a_while() -> None:
    async def scenario() -> None:
        async with running(HttpLimits(linger_s=2)) as here:
            client = await here.connect()
            here.server.begin_drain()
            assert (await client.call(LIVE)).status == 200
            here.server.stop_accepting()
            assert here.server.connection_count == 1
            assert await here.server.wait_drained(10)

    virtual_time.run(scenario())


async def test_wait_drained_gives_up_after_its_timeout() -> None:
    async with running() as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(post(INFER, simple_body()))
        await here.plane.wait_pending(1)
        here.server.begin_drain()
        assert not await here.server.wait_drained(0)
        assert here.server.connection_count == 1


async def test_every_request_of_sixteen_busy_clients_is_answered() -> None:
    answered = 0
    is_over = asyncio.Event()

    async def work(connect: Callable[[], Coroutine[Any, Any, Client]]) -> None:
        nonlocal answered
        client = await connect()
        while not is_over.is_set():
            answer = await client.call(post(INFER, simple_body()))
            assert answer.status == 200
            answered += 1
            if answer.headers.get("connection") == "close":
                assert await client.rest() == b""
                await client.close()
                try:
                    client = await connect()
                except OSError:
                    return  # the port is closed, which is no lost request
            await asyncio.sleep(0)

    async with running() as here:
        workers = [asyncio.ensure_future(work(here.connect)) for _ in range(16)]
        await until(lambda: answered >= 200)
        here.server.begin_drain()
        await until(lambda: answered >= 400)
        is_over.set()
        here.server.stop_accepting()
        await asyncio.gather(*workers)
        for client in here.clients:
            await client.close()
        assert await here.server.wait_drained(5)
        assert here.server.budget.used_bytes == 0


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_waits_in_the_backlog_is_served_when_accepting_stops(loop_factory: Any) -> None:
    async def scenario() -> None:
        server = make_http_server(FakePlane())
        port = await server.start("127.0.0.1", 0)
        # Connected and sent without a turn of the loop: the server has accepted none of them.
        peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        for peer in peers:
            peer.sendall(LIVE)
        server.begin_drain()
        server.stop_accepting()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        for peer in peers:
            answer = await asyncio.to_thread(_read_all, peer)
            assert answer.startswith(b"HTTP/1.1 200 OK")
            assert b"Connection: close" in answer
        assert await server.wait_drained(5)
        server.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())


def _read_all(peer: socket.socket) -> bytes:
    received = b""
    with peer:
        while more := peer.recv(1 << 16):
            received += more
    return received


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_successor_takes_over_the_listening_socket_with_its_backlog(loop_factory: Any) -> None:
    async def scenario() -> None:
        old, new = (make_http_server(FakePlane()) for _ in range(2))
        port = await old.start("127.0.0.1", 0)
        listening = old.listening_socket()
        assert listening is not None
        handed_on = listening.dup()
        peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
        for peer in peers:
            peer.sendall(request("GET", "/v2/health/live", headers=("Connection: close",)))
        old.release_listener()
        assert await new.start("127.0.0.1", 0, sock=handed_on) == port
        peers.append(socket.create_connection(("127.0.0.1", port)))
        peers[-1].sendall(request("GET", "/v2/health/live", headers=("Connection: close",)))
        for peer in peers:
            assert (await asyncio.to_thread(_read_all, peer)).startswith(b"HTTP/1.1 200 OK")
        assert old.connection_count == 0
        assert old.listening_socket() is None
        old.close()
        new.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())


async def test_stop_accepting_begins_a_drain() -> None:
    async with running() as here:
        client = await here.connect()
        assert "connection" not in (await client.call(LIVE)).headers
        here.server.stop_accepting()
        with pytest.raises(OSError, match=r"."):
            await here.connect()
        answer = await client.call(LIVE)
        assert (answer.status, answer.headers["connection"]) == (200, "close")


async def test_releasing_the_listener_begins_a_drain() -> None:
    async with running() as here:
        client = await here.connect()
        assert "connection" not in (await client.call(LIVE)).headers
        here.server.release_listener()
        answer = await client.call(LIVE)
        assert (answer.status, answer.headers["connection"]) == (200, "close")


def test_waiting_for_the_end_of_a_drain_accepts_no_more() -> None:
    async def scenario() -> None:
        async with running() as here:
            await here.connect()
            assert await here.server.wait_drained(5)
            with pytest.raises(OSError, match=r"."):
                await here.connect()

    virtual_time.run(scenario())


# The transports of the two loops differ in what a protocol may do when.
@pytest.mark.parametrize(
    "scenario",
    [
        test_busy_connections_end_with_an_answer_that_says_so,
        test_draining_server_still_accepts_and_serves,
        test_request_on_an_idle_connection_is_answered_after_a_drain_began,
        test_drain_lets_a_request_that_is_being_received_finish,
        test_answer_survives_bytes_that_come_behind_the_last_request,
        test_every_request_of_sixteen_busy_clients_is_answered,
    ],
)
def test_uvloop_behaves_like_asyncio(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
