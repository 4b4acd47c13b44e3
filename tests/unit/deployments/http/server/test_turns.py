# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How much of what a peer has sent a connection takes in one turn of the loop."""

import asyncio
import json
import socket

import pytest

from deployments.http.server.exchange import HttpExchange
from deployments.http.server.host import HttpLimits
from tests.support.http_plane import (
    INFER,
    LIVE,
    Client,
    Running,
    chunked,
    post,
    request,
    running,
    simple_body,
)
from tests.support.lane_rig import until

MANY = 300
CONFIG = "/v2/models/simple/config"
# A head of its own for each, which only the parser can read.
DISTINCT = b"".join(request("GET", CONFIG, headers=(f"X-Number: {i}",)) for i in range(MANY))
KNOWN = request("GET", CONFIG) * MANY
POSTS = b"".join(post(INFER, simple_body(id=str(i))) for i in range(MANY))
CHUNKED = b"".join(chunked(json.dumps(simple_body(id=str(i))).encode(), 40) for i in range(MANY))
KINDS = pytest.mark.parametrize(
    "data", [KNOWN, DISTINCT, POSTS, CHUNKED], ids=["known", "distinct", "posts", "chunked"]
)


class Turns:
    """Counts the requests of each turn of the loop; implements `HttpApplication`."""

    def __init__(self, here: Running) -> None:
        self.most = 0
        self.total = 0
        self._count = 0
        self._counted = counted = here.server.application
        self.refuse, self.allocate = counted.refuse, counted.allocate
        here.server.application = self

    def dispatch(self, exchange: HttpExchange) -> None:
        if not self._count:
            asyncio.get_running_loop().call_soon(self._end)
        self._count += 1
        self._counted.dispatch(exchange)

    def _end(self) -> None:
        self.total += self._count
        self.most = max(self.most, self._count)
        self._count = 0


async def unread(here: Running, data: bytes) -> Client:
    """Send on a connection whose answers hardly find room, and read none of them."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", here.port))
    client = Client(*await asyncio.open_connection(sock=sock, limit=1 << 12))
    here.clients.append(client)
    client.writer.write(data)
    return client


@KINDS
async def test_requests_of_one_read_are_all_answered_in_order(data: bytes) -> None:
    async with running() as here:
        client = await here.connect()
        client.writer.write(data + LIVE)
        for at in range(MANY):
            answer = await client.answer()
            assert answer.status == 200
            if data in {POSTS, CHUNKED}:
                assert answer.json["id"] == str(at)
        assert (await client.answer()).body == b""
        assert here.server.budget.used_bytes == 0


@KINDS
async def test_one_read_of_many_requests_is_taken_in_many_turns(data: bytes) -> None:
    async with running() as here:
        turns = Turns(here)
        client = await here.connect()
        client.writer.write(data)
        for _ in range(MANY):
            await client.answer()
        # What the parser is given may hold some more than a turn begins.
        assert 0 < turns.most < 32 + 1024 // 40


async def test_others_are_served_between_the_turns_of_a_long_read() -> None:
    async with running() as here:
        turns = Turns(here)
        client, other = await here.connect(), await here.connect()
        client.writer.write(KNOWN * 10)
        await until(lambda: turns.total > 0)
        assert (await other.call(LIVE)).status == 200
        assert turns.total < MANY * 10


@KINDS
async def test_nothing_is_begun_for_a_peer_that_reads_no_answers(data: bytes) -> None:
    async with running() as here:
        turns = Turns(here)
        here.plane.model_config_json = lambda name, version="": b" " * 100_000  # type: ignore[method-assign]
        here.plane.models["simple"].run = lambda _: []
        here.plane.server_metadata = lambda: {"name": "x" * 100_000}  # type: ignore[method-assign]
        sent = request("GET", "/v2") * 100 + data
        client = await unread(here, sent)
        other = await here.connect()
        for _ in range(100):
            assert (await other.call(LIVE)).status == 200
        # Each of the first hundred answers has 100 KB, of which sockets take a few MB at most.
        assert turns.total < 100 + 100
        assert here.server.budget.used_bytes > 0
        client.writer.transport.abort()
        await until(lambda: here.server.connection_count == 1)
        assert here.server.budget.used_bytes == 0


async def test_what_waits_is_taken_once_the_peer_reads_again() -> None:
    async with running() as here:
        here.plane.server_metadata = lambda: {"name": "x" * 100_000}  # type: ignore[method-assign]
        client = await unread(here, request("GET", "/v2") * 100 + POSTS)
        other = await here.connect()
        for _ in range(20):
            assert (await other.call(LIVE)).status == 200
        answers = [await client.answer() for _ in range(100 + MANY)]
        assert [each.json["id"] for each in answers[100:]] == list(map(str, range(MANY)))


@pytest.mark.parametrize("depth", [1, 2, 32])
async def test_a_full_pipeline_begins_no_further_request_of_the_same_read(depth: int) -> None:
    async with running(HttpLimits(pipeline_depth=depth)) as here:
        here.plane.is_holding = True
        client, other = await here.connect(), await here.connect()
        client.writer.write(POSTS)
        await here.plane.wait_pending(depth)
        for _ in range(20):
            assert (await other.call(LIVE)).status == 200
        assert depth <= len(here.plane.pending) <= depth + 1024 // 200
        here.plane.is_holding = False
        for pending in list(here.plane.pending):
            pending.finish()
        assert [(await client.answer()).json["id"] for _ in range(MANY)] == list(
            map(str, range(MANY))
        )


async def test_a_body_whose_request_fills_the_pipeline_is_received_to_its_end() -> None:
    async with running(HttpLimits(pipeline_depth=1)) as here:
        client = await here.connect()
        whole = post(INFER, simple_body(id="a"))
        await client.send(whole, 50)
        assert (await client.answer()).json["id"] == "a"
        large = post(INFER, simple_body(id="b", parameters={"x": "y" * 200_000}))
        await client.send(whole + large)
        assert (await client.answer()).json["id"] == "a"
        assert (await client.answer()).json["id"] == "b"


async def test_a_peer_is_not_slow_while_the_server_does_not_read() -> None:
    limits = HttpLimits(pipeline_depth=1, head_timeout_s=3, body_idle_timeout_s=3)
    async with running(limits) as here:
        here.plane.is_holding = True
        client = await here.connect()
        second = post(INFER, simple_body(id="b"))
        await client.send(post(INFER, simple_body(id="a")) + second[:20])
        await here.plane.wait_pending(1)
        for _ in range(10):
            here.server.sweep()
        here.plane.is_holding = False
        here.plane.pending[0].finish()
        await client.send(second[20:])
        assert [(await client.answer()).json["id"] for _ in range(2)] == ["a", "b"]


async def test_what_waits_for_its_turn_is_answered_in_a_drain() -> None:
    async with running(HttpLimits(pipeline_depth=1)) as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(b"".join(post(INFER, simple_body(id=each)) for each in "abcdef"))
        await here.plane.wait_pending(1)
        here.server.begin_drain()
        for at in range(6):
            await here.plane.wait_pending(at + 1)
            here.plane.pending[at].finish()
        answers = [await client.answer() for _ in range(6)]
        assert [each.json["id"] for each in answers] == list("abcdef")
        assert answers[-1].headers["connection"] == "close"
