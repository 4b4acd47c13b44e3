# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The heads that are known by their bytes: requests mean the same with and without them."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.http.server.connection import HttpConnection
from deployments.http.server.exchange import TEXT, HttpExchange
from deployments.http.server.head import KnownHeads
from deployments.http.server.host import HttpLimits
from deployments.http.server.request_state import LARGE_BODY_BYTES
from deployments.http.server.server import HttpServer
from tests.support.examples import examples
from tests.support.http_plane import request

INFER = request("POST", "/v2/models/simple/infer", b"x" * 40, ("Accept: */*",))
HEAD = INFER[: INFER.index(b"\r\n\r\n") + 4]
# Requests that begin alike, that are and are not worth remembering, and that end a connection.
MESSAGES = (
    INFER,
    request("POST", "/v2/models/simple/infer", b"y" * 40, ("Accept: */*",)),
    request("POST", "/v2/models/simple/infer", b"\r\n\r\nGET / HTTP/1.1", ("Accept: */*",)),
    request("GET", "/v2/health/live"),
    request(
        "POST", "/large", b"z" * (LARGE_BODY_BYTES + 1), ("Inference-Header-Content-Length: 9",)
    ),
    request("POST", "/chunked", headers=("Transfer-Encoding: chunked",)) + b"3\r\nabc\r\n0\r\n\r\n",
    request("GET", "/old", version="1.0", headers=("Connection: keep-alive",)),
    b"\r\n" + INFER,
    request("GET", "/close", headers=("Connection: close",)),
    request("POST", "/upgrade", b"body", ("Connection: Upgrade", "Upgrade: h2c")),
    b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
)


class Application:
    """Notes requests and answers them with what it got."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def dispatch(self, exchange: HttpExchange) -> None:
        head, body = exchange.head, bytes(exchange.body)
        self.seen.append((head.method, head.url, head.headers, exchange.keep_alive, body))
        exchange.reply(200, TEXT, (body,), len(body))

    def refuse(self, exchange: HttpExchange, body_bytes: int) -> str:
        return ""

    def allocate(self, size_bytes: int, align_at: int) -> memoryview | None:
        if size_bytes > 1 << 20:
            return None
        return memoryview(bytearray(size_bytes + align_at))[align_at:]


class Transport:
    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes | memoryview) -> None:
        self.written += data

    def writelines(self, parts: list[bytes | memoryview]) -> None:
        self.written += b"".join(parts)

    def is_reading(self) -> bool:
        return True

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.is_closed = True

    abort = close


def served(pieces: list[bytes], server: HttpServer) -> tuple[list[tuple[object, ...]], bytes, bool]:
    """Return the requests, the answers and whether the connection was closed."""
    application = server.application = Application()
    transport = Transport()
    connection = HttpConnection(server)
    connection.connection_made(transport)  # type: ignore[arg-type]
    for piece in pieces:
        rest = memoryview(piece)
        while rest and not transport.is_closed:
            buffer = connection.get_buffer(len(rest))
            size = min(len(rest), len(buffer))
            buffer[:size] = rest[:size]
            connection.buffer_updated(size)
            rest = rest[size:]
    connection.connection_lost(None)
    return application.seen, transport.written, transport.is_closed


def server_that_knows(*messages: bytes) -> HttpServer:
    server = HttpServer(Application())
    for message in messages:
        served([message] * 3, server)
    return server


def server_that_knows_nothing() -> HttpServer:
    server = HttpServer(Application())
    server.heads.limit_bytes = 0
    return server


@settings(max_examples=examples(150))
@given(
    st.lists(st.sampled_from(MESSAGES), max_size=8),
    st.lists(st.integers(0, 2000) | st.integers(0, 200_000), max_size=12),
)
def test_requests_are_the_same_with_known_heads_however_they_are_cut(
    messages: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(messages)
    bounds = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(bounds)]
    assert served(pieces, server_that_knows(*MESSAGES)) == served(
        pieces, server_that_knows_nothing()
    )


@pytest.mark.parametrize("cut", range(1, len(INFER)))
def test_a_known_request_may_be_cut_anywhere(cut: int) -> None:
    server = server_that_knows(INFER)
    assert len(served([INFER[:cut], INFER[cut:], INFER], server)[0]) == 2


def is_remembered(raw: bytes, max_bytes: int = 8192) -> bool:
    heads = KnownHeads(max_bytes)
    heads.note(raw)
    assert heads.find(raw) == (None, len(raw))
    heads.note(raw)
    return heads.find(raw + b"body")[0] is not None


def test_a_head_is_remembered_when_it_comes_again() -> None:
    assert is_remembered(HEAD)


@pytest.mark.parametrize(
    "raw",
    [
        request("POST", "/", headers=("Transfer-Encoding: chunked",)),
        request("POST", "/", headers=("Content-Length: 3", "Expect: 100-continue")),
        request("GET", "/", headers=("Connection: close",)),
        request("GET", "/", version="1.0", headers=("Connection: keep-alive",)),
        request("GET", "/", headers=("Connection: Upgrade", "Upgrade: websocket")),
        request("POST", "/", headers=("Content-Length: 3", "Connection: Upgrade", "Upgrade: h2c")),
        request("CONNECT", "host:80"),
        request("POST", "/", headers=("Content-Length: x",)),
        b"\r\n\r\n",
        b"body" + HEAD,
        HEAD + HEAD,
    ],
)
def test_a_head_that_is_not_ordinary_is_not_remembered(raw: bytes) -> None:
    heads = KnownHeads(8192)
    for _ in range(4):
        heads.note(raw)
    assert heads.find(raw)[0] is None


def test_a_head_over_the_servers_limit_is_refused_however_often_it_comes() -> None:
    server = HttpServer(Application(), HttpLimits(head_bytes=64))
    for _ in range(4):
        seen, written, _ = served([INFER], server)
        assert seen == []
        assert written.startswith(b"HTTP/1.1 431 ")


def test_heads_that_never_come_again_do_not_pile_up() -> None:
    heads = KnownHeads(8192)
    for number in range(3000):
        raw = request("GET", f"/{number}")
        heads.note(raw)
        heads.note(raw)
        heads.note(request("GET", f"/{number}/once"))
    assert len(heads._heads) + len(heads._seen) <= 1024
