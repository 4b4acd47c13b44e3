# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests are framed as h11 frames them, which was written by others from the same RFCs.

Streams are made of the parts in which smuggled requests hide: lengths, codings, chunks, upgrades,
line ends and what stands behind them. Where both read a request, it is the same one. One that h11
refuses is refused here too, but for what `LENIENT` lists with its reason. What only h11 reads ends
the connection here, so nothing behind it is taken for a request.
"""

import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeVar

import h11
import pytest

from tests.unit.deployments.http.server.test_head import served, server_that_knows_nothing

T = TypeVar("T")

Request = tuple[bytes, bytes, bytes]
_REFUSAL: Final = re.compile(rb"HTTP/1\.[01] [45]\d\d ")

# What h11 refuses and is read here, by h11's reason: its first words, and why it does no harm.
LENIENT: Final = {
    "no request line received": "RFC 9112 section 2.2: a server ignores empty lines there, which"
    " clients have sent behind bodies",
    "Missing mandatory Host: header": "nothing here depends on a Host; Triton reads such requests",
    "Found multiple Host: headers": "nothing here depends on a Host; Triton reads such requests",
    "end of a connection of HTTP/1.0": "Connection: keep-alive of HTTP/1.0, which ab and old"
    " proxies send, is answered in kind; h11 leaves it out",
}
SEEDS: Final = range(40)
STREAMS_PER_SEED: Final = 150
# What of a request is not as usual, each with a chance of one in so many.
ODD: Final = 40

METHODS = (b"CONNECT", b"get", b"G:T", b"", b"PURGE2")
TARGETS = (b"*", b"host:80", b"http://x/y", b"/\x80", b"/ z", b"", b"/a#b")
VERSIONS = (*[b"HTTP/1.0"] * 3, b"HTTP/2.0", b"HTTP/1.2", b"http/1.1", b"HTTP/01.1", b"")
LENGTHS = (
    "+{n}", "-{n}", "0{n}", "{n}, {n}", "{n} {n}", " {n} ", "{n}\t", "0x{n:x}", "{n}\x0b", "",
    "{n}\r\n {n}", "18446744073709551616", "{n}.0", "{n},",
)  # fmt: skip
CODINGS = (
    b"Chunked", b"chunked, chunked", b"gzip, chunked", b"identity", b"xchunked", b"chunked;q=1",
    b'"chunked"', b"\x0bchunked", b"chunked\x00", b"chunked,", b"", b"chunked\r\n ",
)  # fmt: skip
NAMES = ("{} ", "{}\t", " {}", "\x00{}", "{}\x80", "\t{}", "{}_", "X-{}")
OTHERS = (
    b"Connection: close", b"Connection: keep-alive", b"Connection: Upgrade\r\nUpgrade: h2c",
    b"Connection: upgrade\r\nUpgrade: websocket", b"Upgrade: h2c", b"Expect: 100-continue",
    b"TE: trailers", b"Trailer: X", b"Proxy-Connection: close", b"X: y", b"X:", b"X: a\tb",
)  # fmt: skip
ODD_OTHERS = (
    b"X: \x80", b"X: a\x00b", b"X: a\rb", b"X: a\r\n b", b": x", b"X", b"Host: other", b"X\x7f: y",
)  # fmt: skip
SIZES = (
    "0{n:x}", " {n:x}", "{n:x} ", '{n:x};a="b;c"', "{n:x};", "{n:x}; a", "+{n:x}", "-{n:x}",
    "0x{n:x}", "{n:x}g", "{n:x}\t", "{n:x};\x80", "{n:x}\x00", "ffffffffffffffff{n:x}", "",
    "{n:x};a\nb", "{n:x};a\rb", "10000000000000000{n:x}",
)  # fmt: skip
ENDS = (b"\n", b"\r", b"\r\r\n", b"\n\r\n", b"")
TRAILERS = (b"X: y\r\n", b"Content-Length: 5\r\n", b"X : y\r\n", b"X\r\n", b"X: y\n", b"X: y")
BODIES = (b"", b"abc", b"0\r\n\r\n", b"GET /inner HTTP/1.1\r\nHost: x\r\n\r\n")
FRAMINGS = (*["none", "length", "chunked"] * 4, "both", "two lengths", "two codings")


class Draw(random.Random):
    """Chances of one seed."""

    def mostly(self, usual: T, odd: Sequence[T]) -> T:
        return usual if self.randrange(ODD) else self.choice(odd)


def _made(draw: Draw) -> bytes:
    """Return one request, well-formed more often than not."""
    body = draw.choice(BODIES)
    first = (
        draw.mostly(draw.choice((b"GET", b"POST", b"HEAD", b"PUT", b"OPTIONS")), METHODS),
        draw.mostly(draw.choice((b"/a", b"/b?c=d%20")), TARGETS),
        draw.mostly(b"HTTP/1.1", VERSIONS),
    )
    lines = [b"Host: x"] * draw.mostly(1, (0, 2))
    framing = draw.choice(FRAMINGS)
    if framing in ("length", "both", "two lengths"):
        for _ in range(1 + (framing == "two lengths")):
            size = len(body) + draw.mostly(0, (1, -1, 5))
            value = draw.mostly("{n}", LENGTHS).format(n=size).encode("latin-1")
            lines.append(_name(draw, "Content-Length") + b":" + draw.choice((b" ", b"")) + value)
    if framing in ("chunked", "both", "two codings"):
        for _ in range(1 + (framing == "two codings")):
            coding = draw.mostly(b"chunked", CODINGS)
            lines.append(_name(draw, "Transfer-Encoding") + b": " + coding)
        body = _chunked(draw, body)
    lines += draw.sample(OTHERS, draw.choice((0, 0, 1, 2)))
    lines += draw.mostly([], [[other] for other in ODD_OTHERS])
    draw.shuffle(lines)
    before = draw.mostly(b"", (b"\r\n", b"\n", b" ", b"\r\n\r\n"))
    head = b"".join(line + _end(draw) for line in (b" ".join(first), *lines, b""))
    return before + head + (b"" if framing == "none" else body)


def _end(draw: Draw) -> bytes:
    return draw.mostly(b"\r\n", (b"\r\n", b"\r\n", *ENDS))


def _name(draw: Draw, name: str) -> bytes:
    spelled = draw.choice((name, name.lower(), name.upper()))
    spelled = draw.mostly(spelled, (name.replace("-", "_"),))
    return draw.mostly("{}", NAMES).format(spelled).encode("latin-1")


def _chunked(draw: Draw, body: bytes) -> bytes:
    size = draw.choice((10, 20, 100))
    chunks = b""
    for at in range(0, len(body), size):
        part = body[at : at + size]
        usual = draw.choice(("{n:x}", "{n:X}", "{n:x};a=b"))
        written = draw.mostly(usual, SIZES).format(n=len(part) + draw.mostly(0, (1, -1)))
        chunks += written.encode("latin-1") + _end(draw) + part + _end(draw)
    last = draw.mostly(b"0", (b"00", b"0;a", b"-0", b"", b"0 "))
    return chunks + last + _end(draw) + draw.mostly(b"", TRAILERS) + _end(draw)


def _by_h11(stream: bytes) -> tuple[list[Request], str]:
    """Return the requests h11 reads, each answered with 404, and why it refuses the next."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(stream)
    found: list[Request] = []
    asked: h11.Request | None = None
    body = b""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as error:
            return found, str(error)
        if isinstance(event, h11.Request):
            asked, body = event, b""
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage) and asked is not None:
            found.append((asked.method, asked.target, body))
            connection.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is not h11.DONE:
                return found, f"end of a connection of HTTP/{asked.http_version.decode()}"
            connection.start_next_cycle()
        else:
            return found, ""


def _read_here(stream: bytes, cuts: list[int]) -> tuple[list[Request], bool]:
    """Return the requests read here, and whether nothing more is read behind them."""
    pieces = [stream[a:b] for a, b in pairwise(sorted({0, *cuts, len(stream)}))]
    seen, written, is_closed = served(pieces, server_that_knows_nothing())
    has_ended = is_closed or _REFUSAL.search(written) is not None
    return [(method, url, body) for method, url, _, _, body in seen], has_ended  # type: ignore[misc]


def _streams(seed: int) -> Iterator[tuple[bytes, list[int]]]:
    """Return streams of requests, and where they are cut into reads."""
    draw = Draw(seed)
    for _ in range(STREAMS_PER_SEED):
        stream = b"".join(_made(draw) for _ in range(draw.choice((1, 1, 2, 3))))
        yield stream, [draw.randrange(len(stream)) for _ in range(draw.choice((0, 1, 3)))]


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_are_those_that_h11_reads(seed: int) -> None:
    for stream, cuts in _streams(seed):
        expected, reason = _by_h11(stream)
        found, has_ended = _read_here(stream, cuts)
        both = min(len(found), len(expected))
        assert found[:both] == expected[:both], (stream, cuts)
        if len(found) > len(expected):
            assert reason in LENIENT, (stream, cuts, reason)
        elif len(found) < len(expected):
            assert has_ended, (stream, cuts)


def test_each_difference_from_h11_that_is_listed_occurs() -> None:
    reasons = set()
    for seed in SEEDS:
        for stream, cuts in _streams(seed):
            expected, reason = _by_h11(stream)
            if len(_read_here(stream, cuts)[0]) > len(expected):
                reasons.add(reason)
    assert reasons == LENIENT.keys()


def test_the_streams_hold_requests_of_all_kinds() -> None:
    streams = [stream for seed in SEEDS for stream, _ in _streams(seed)]
    read = [_by_h11(stream)[0] for stream in streams]
    assert sum(map(len, read)) > len(streams) * 3 // 4
    assert sum(bool(body) for requests in read for _, _, body in requests) > len(streams) // 4
