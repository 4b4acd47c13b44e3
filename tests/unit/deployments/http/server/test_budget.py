# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Bodies and answers of all connections share one budget, and give back what they took."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.http.kserve.servers import make_http_server
from deployments.http.server.connection import HttpConnection
from deployments.http.server.exchange import TEXT, HttpExchange
from deployments.http.server.host import REQUEST_OVERHEAD_BYTES
from deployments.http.server.server import HttpServer
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.examples import examples
from tests.support.http_plane import FakePlane, request, running
from tests.support.lane_rig import until

INFER = "/v2/models/id_fp32/infer"
LIVE = request("GET", "/v2/health/live")
BODY_BYTES = 400_000


def infer(size: int, headers: tuple[str, ...] = ()) -> bytes:
    return request("POST", INFER, b"x" * size, ("Inference-Header-Content-Length: 2", *headers))


async def test_body_for_which_no_memory_is_left_is_unavailable_and_the_connection_closes() -> None:
    budget = MemoryBudget(500_000)
    async with running(budget=budget) as here:
        first = await here.connect()
        await first.send(infer(BODY_BYTES)[:-1])
        await until(lambda: budget.used_bytes > 0)
        second = await here.connect()
        await second.send(infer(BODY_BYTES))
        answer = await second.answer()
        assert (answer.status, answer.headers["connection"]) == (503, "close")
        assert answer.error == (
            "the server has no memory left for a request body of 400000 bytes: 100000 of 500000 "
            "bytes for requests and answers are free; try again later"
        )
        assert await second.rest() == b""
        # Small requests go on.
        assert (await (await here.connect()).call(LIVE)).status == 200
        await first.send(b"x")
        await first.answer()
        assert budget.used_bytes == 0


async def test_chunked_body_takes_from_the_budget_as_it_grows() -> None:
    budget = MemoryBudget(150_000)
    async with running(budget=budget) as here:
        client = await here.connect()
        head = request("POST", INFER, headers=("Transfer-Encoding: chunked",))
        chunk = b"%x\r\n%s\r\n" % (50_000, b"x" * 50_000)
        await client.send(head + 4 * chunk + b"0\r\n\r\n")
        assert (await client.answer()).status == 503
        assert await client.rest() == b""
        assert budget.used_bytes == 0
        assert budget.peak_bytes <= 150_000


async def test_body_of_a_peer_that_goes_is_given_back() -> None:
    budget = MemoryBudget(1 << 20)
    async with running(budget=budget) as here:
        client = await here.connect()
        await client.send(infer(BODY_BYTES)[:-1])
        await until(lambda: budget.used_bytes > 0)
        await client.close()
        await until(lambda: not here.server.connection_count)
        assert budget.used_bytes == 0


class LateApplication:
    """Keeps requests until the test answers them."""

    def __init__(self) -> None:
        self.waiting: list[HttpExchange] = []

    def dispatch(self, exchange: HttpExchange) -> None:
        self.waiting.append(exchange)

    def refuse(self, exchange: HttpExchange, body_bytes: int) -> str:
        return "too large" if body_bytes > 300_000 else ""

    def allocate(self, size_bytes: int, align_at: int) -> memoryview | None:
        return None


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_small_bodies_count_until_they_are_answered(*, is_chunked: bool) -> None:
    cost = 400 + REQUEST_OVERHEAD_BYTES
    budget = MemoryBudget(2 * cost + 100)
    async with running(budget=budget) as here:
        application = here.server.application = LateApplication()
        client, other = await here.connect(), await here.connect()
        asked = infer(400)
        if is_chunked:
            chunks = b"190\r\n%s\r\n0\r\n\r\n" % (b"x" * 400)
            asked = request("POST", INFER, headers=("Transfer-Encoding: chunked",)) + chunks
        await client.send(2 * asked)
        await until(lambda: len(application.waiting) == 2)
        assert budget.used_bytes == 2 * cost
        # A small body that is refused has been read: its connection goes on.
        for _ in range(4):
            answer = await other.call(infer(400))
            assert (answer.status, answer.headers.get("connection")) == (503, None)
            assert answer.error.startswith(
                "the server has no memory left for a request body of 400"
            )
        application.waiting.pop(0).reply(200, TEXT)
        assert (await client.answer()).status == 200
        assert budget.used_bytes == cost
        await other.send(infer(400))
        await until(lambda: len(application.waiting) == 2)
        await client.close()
        await until(lambda: budget.used_bytes == cost)
        for exchange in application.waiting:
            exchange.reply(200, TEXT)
        assert (await other.answer()).status == 200
        assert budget.used_bytes == 0


async def test_pipelined_small_bodies_are_bounded_by_the_budget() -> None:
    budget = MemoryBudget(1 << 20)
    async with running(budget=budget) as here:
        application = here.server.application = LateApplication()
        clients = [await here.connect() for _ in range(4)]
        for client in clients:
            await client.send(32 * infer(60_000))
        fit = budget.limit_bytes // (60_000 + REQUEST_OVERHEAD_BYTES)
        await until(lambda: budget.refused_count == 4 * 32 - fit)
        assert len(application.waiting) == fit
        assert budget.peak_bytes <= budget.limit_bytes + 60_000
        for exchange in application.waiting:
            exchange.reply(200, TEXT)
        statuses = [(await client.answer()).status for client in clients for _ in range(32)]
        assert statuses.count(200) == len(application.waiting)
        assert statuses.count(503) == budget.refused_count
        assert budget.used_bytes == 0


class StuckTransport(asyncio.Transport):
    """Holds what is written until the test takes it."""

    def __init__(self, protocol: HttpConnection) -> None:
        super().__init__()
        self.protocol = protocol
        self.waiting_bytes = 0
        self.is_gone = False
        self.is_full = False

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.waiting_bytes += len(data)
        if self.waiting_bytes > 64 << 10 and not self.is_full:
            self.is_full = True
            self.protocol.pause_writing()

    def drain(self) -> None:
        self.waiting_bytes = 0
        if self.is_full:
            self.is_full = False
            self.protocol.resume_writing()

    def writelines(self, parts: object) -> None:
        self.write(b"".join(parts))  # type: ignore[call-overload]

    def is_reading(self) -> bool:
        return True

    def pause_reading(self) -> None:
        """Nothing is sent but by the test."""

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.is_gone = True

    abort = close


CHUNK = b"%x\r\n%s\r\n" % (70_000, b"c" * 70_000)
MESSAGES = (
    LIVE,
    infer(70_000),
    infer(200_000),
    infer(350_000),
    infer(100),
    request("POST", INFER, headers=("Transfer-Encoding: chunked",)) + 3 * CHUNK + b"0\r\n\r\n",
    request("POST", INFER, headers=("Transfer-Encoding: chunked",)) + CHUNK + b"zz",
    b"garbage\r\n\r\n",
)
STEPS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(MESSAGES), st.floats(0.1, 1)),
    st.tuples(st.just("reply"), st.integers(0, 9), st.sampled_from((10, 100_000, 700_000))),
    st.tuples(st.just("stream"), st.integers(0, 9), st.sampled_from((10, 100_000))),
    st.tuples(st.just("drain"), st.none(), st.none()),
)


@settings(max_examples=examples(200))
@given(st.lists(STEPS, max_size=25))
def test_budget_is_given_back_on_every_path(steps: list[tuple[str, object, object]]) -> None:
    application = LateApplication()
    budget = MemoryBudget(600_000)
    server = HttpServer(application, budget=budget)
    connection = HttpConnection(server)
    transport = StuckTransport(connection)
    connection.connection_made(transport)
    for step, what, how in steps:
        if transport.is_gone:
            break
        if step == "send":
            assert isinstance(what, bytes)
            assert isinstance(how, float)
            _receive(connection, transport, what[: int(len(what) * how)])
        elif step == "drain":
            transport.drain()
        elif application.waiting:
            assert isinstance(what, int)
            assert isinstance(how, int)
            exchange = application.waiting[what % len(application.waiting)]
            if step == "reply":
                application.waiting.remove(exchange)
                exchange.end_stream()
                exchange.reply(200, TEXT, (b"a" * how,), how)
            else:
                exchange.begin_stream(200, TEXT)
                exchange.write(b"s" * how)
    connection.connection_lost(None)
    assert budget.used_bytes == 0
    for exchange in application.waiting:
        exchange.reply(200, TEXT)
    assert budget.used_bytes == 0


def _receive(connection: HttpConnection, transport: StuckTransport, data: bytes) -> None:
    rest = memoryview(data)
    while rest and not transport.is_gone:
        buffer = connection.get_buffer(len(rest))
        size = min(len(rest), len(buffer))
        buffer[:size] = rest[:size]
        connection.buffer_updated(size)
        rest = rest[size:]


def test_answer_of_a_peer_that_does_not_read_counts() -> None:
    application = LateApplication()
    server = HttpServer(application)
    connection = HttpConnection(server)
    transport = StuckTransport(connection)
    connection.connection_made(transport)
    _receive(connection, transport, LIVE + LIVE)
    application.waiting[0].reply(200, TEXT, (b"a" * 100_000,), 100_000)
    assert server.budget.used_bytes >= 100_000
    application.waiting[1].reply(200, TEXT, (b"a" * 100_000,), 100_000)
    assert server.budget.used_bytes >= 200_000
    transport.drain()
    assert server.budget.used_bytes == 0


def test_answer_that_waits_for_an_earlier_one_counts() -> None:
    application = LateApplication()
    server = HttpServer(application)
    connection = HttpConnection(server)
    transport = StuckTransport(connection)
    connection.connection_made(transport)
    _receive(connection, transport, LIVE + LIVE)
    application.waiting[1].reply(200, TEXT, (b"a" * 100_000,), 100_000)
    assert server.budget.used_bytes >= 100_000
    application.waiting[0].reply(200, TEXT)
    transport.drain()
    assert server.budget.used_bytes == 0


async def test_servers_can_share_a_budget() -> None:
    budget = MemoryBudget(1)
    servers = [make_http_server(FakePlane(), budget=budget) for _ in range(2)]
    assert all(server.budget is budget for server in servers)
