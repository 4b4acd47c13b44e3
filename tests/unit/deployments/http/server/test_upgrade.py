# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that ask for another protocol are requests like others: their bodies are read.

Java's HttpClient, Spring and curl ask for h2c with whatever they send first (RFC 9110 section 7.8).
"""

from itertools import pairwise, product

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.http.server.host import HttpLimits
from deployments.http.server.request_state import LARGE_BODY_BYTES
from deployments.http.server.server import HttpServer
from tests.support.examples import examples
from tests.support.http_plane import request
from tests.unit.deployments.http.server.test_head import (
    Application,
    served,
    server_that_knows_nothing,
)

UPGRADES = {
    "nothing": (),
    "h2c": ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"),
    "websocket": ("Connection: Upgrade", "Upgrade: websocket"),
    "no upgrade": ("Upgrade: h2c",),
}
BODY = b"\r\n\r\nGET /body HTTP/1.1\r\n\r\n"
LARGE = b"l" * (LARGE_BODY_BYTES + 1)
BEHIND = {
    "alone": b"",
    "pipelined": request("POST", "/behind", b"behind"),
    "h2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


def _chunked(body: bytes, size: int, trailer: bytes = b"") -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x;note=1\r\n%b\r\n" % (len(part), part) for part in parts)
    return chunks + b"0\r\n" + trailer + b"\r\n"


def _framed(framing: str, headers: tuple[str, ...]) -> bytes:
    """A request with a body in one of the ways there are to frame it."""
    if framing == "none":
        return request("GET", "/asked", headers=headers)
    if framing == "length":
        return request("POST", "/asked", BODY, headers)
    if framing == "large length":
        return request("POST", "/asked", LARGE, headers)
    chunked = (*headers, "Transfer-Encoding: chunked")
    body, size, trailer = {
        "chunked": (BODY, 7, b""),
        "chunked with trailer": (BODY, 100, b"Upgrade: h2c\r\nConnection: upgrade\r\n"),
        "chunked and large": (LARGE, 30_000, b""),
        "chunked and empty": (b"", 1, b""),
        "chunked with length": (BODY, 5, b""),
    }[framing]
    if framing == "chunked with length":
        chunked = ("Content-Length: 3", *chunked)
    return request("POST", "/asked", headers=chunked) + _chunked(body, size, trailer)


FRAMINGS = (
    "none",
    "length",
    "large length",
    "chunked",
    "chunked with trailer",
    "chunked and large",
    "chunked and empty",
)


def _first_of_h11(stream: bytes) -> tuple[bytes, bytes, bytes]:
    """Method, target and body of the first request, as h11 reads them."""
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    reader.receive_data(stream)
    asked = reader.next_event()
    assert isinstance(asked, h11.Request)
    body = b""
    while not isinstance(event := reader.next_event(), h11.EndOfMessage):
        assert isinstance(event, h11.Data)
        body += bytes(event.data)
    return asked.method, asked.target, body


def _first(pieces: list[bytes]) -> tuple[object, object, object]:
    seen, written, _ = served(pieces, server_that_knows_nothing())
    assert written.startswith(b"HTTP/1.1 200 ")
    method, url, _, _, body = seen[0]
    return method, url, body


@pytest.mark.parametrize(
    ("framing", "upgrade", "behind"), list(product(FRAMINGS, UPGRADES, BEHIND))
)
def test_body_is_read_whatever_upgrade_says(framing: str, upgrade: str, behind: str) -> None:
    asked = _framed(framing, UPGRADES[upgrade])
    stream = asked + BEHIND[behind]
    head_bytes = asked.index(b"\r\n\r\n") + 4
    expected = _first_of_h11(stream)
    for cuts in ((), (head_bytes,), (head_bytes - 1, len(asked) // 2), (len(asked),)):
        pieces = [stream[a:b] for a, b in pairwise(sorted({0, *cuts, len(stream)}))]
        assert _first(pieces) == expected, cuts


@settings(max_examples=examples(100))
@given(
    st.sampled_from(FRAMINGS),
    st.sampled_from(sorted(UPGRADES)),
    st.sampled_from(sorted(BEHIND)),
    st.lists(st.integers(1, 400) | st.integers(1, 70_000), max_size=12),
)
def test_body_behind_upgrade_may_come_in_any_pieces(
    framing: str, upgrade: str, behind: str, cuts: list[int]
) -> None:
    stream = _framed(framing, UPGRADES[upgrade]) + BEHIND[behind]
    bounds = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    assert _first([stream[a:b] for a, b in pairwise(bounds)]) == _first_of_h11(stream)


def test_every_byte_of_a_chunked_body_behind_upgrade_may_come_alone() -> None:
    stream = _framed("chunked with trailer", UPGRADES["h2c"])
    assert _first([stream[at : at + 1] for at in range(len(stream))]) == (b"POST", b"/asked", BODY)


def test_chunked_counts_beside_a_length_behind_upgrade() -> None:
    assert _first([_framed("chunked with length", UPGRADES["h2c"])]) == (b"POST", b"/asked", BODY)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_connection_ends_behind_a_request_that_asks_for_an_upgrade(framing: str) -> None:
    stream = _framed(framing, UPGRADES["h2c"]) + BEHIND["pipelined"]
    seen, written, is_closed = served([stream], server_that_knows_nothing())
    assert len(seen) == 1
    assert b"Connection: close" in written
    assert is_closed


def test_broken_chunk_behind_upgrade_is_refused() -> None:
    head = request("POST", "/asked", headers=(*UPGRADES["h2c"], "Transfer-Encoding: chunked"))
    for pieces in ([head + b"zz\r\n"], [head, b"zz\r\n"], [head + b"3\r\nabc\r\n", b"zz\r\n"]):
        seen, written, _ = served(pieces, server_that_knows_nothing())
        assert seen == []
        assert written.startswith(b"HTTP/1.1 400 ")


def test_chunks_behind_upgrade_are_bounded() -> None:
    head = request("POST", "/asked", headers=(*UPGRADES["h2c"], "Transfer-Encoding: chunked"))
    server = HttpServer(Application(), HttpLimits(chunk_count=10))
    seen, written, _ = served([head + b"1\r\nx\r\n" * 11], server)
    assert seen == []
    assert b"maximum of 10 non-empty chunks" in written
