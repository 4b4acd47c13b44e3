# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What hostile peers send, over HTTP/2 and over HTTP/1.1, as bytes."""

import select
import socket
from collections.abc import Callable
from typing import Final

import hpack

from deployments.http2 import frames
from deployments.http2.errors import ErrorCode
from tests.support.grpc_messages import INFER_PATH, add_sub_request, framed

START: Final = frames.PREFACE + frames.settings({})
# Lets the server send as much as it likes.
START_WIDE: Final = (
    frames.PREFACE
    + frames.settings({frames.INITIAL_WINDOW_SIZE: frames.MAX_WINDOW_BYTES})
    + frames.window_update(0, frames.MAX_WINDOW_BYTES - frames.DEFAULT_WINDOW_BYTES)
)
CALM: Final = ErrorCode.ENHANCE_YOUR_CALM
PROTOCOL: Final = ErrorCode.PROTOCOL_ERROR
FLOW: Final = ErrorCode.FLOW_CONTROL_ERROR
SIZE: Final = ErrorCode.FRAME_SIZE_ERROR
CLOSED: Final = ErrorCode.STREAM_CLOSED
GRPC_HEADERS: Final = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", INFER_PATH.encode()),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
)


def _block(*extra: tuple[bytes, bytes]) -> bytes:
    """A header block that uses no table."""
    headers = [(name, value, True) for name, value in (*GRPC_HEADERS, *extra)]
    return bytes(hpack.Encoder().encode(headers, huffman=False))


BLOCK: Final = _block()


def head(stream_id: int, block: bytes = BLOCK, *, end: bool = False) -> bytes:
    """A HEADERS frame of ModelInfer."""
    flags = frames.END_HEADERS | (frames.END_STREAM if end else 0)
    return frames.frame(frames.HEADERS, flags, stream_id, block)


def data(stream_id: int, payload: bytes, flags: int = 0) -> bytes:
    """A DATA frame."""
    return frames.frame(frames.DATA, flags, stream_id, payload)


def call(stream_id: int, message: bytes, block: bytes = BLOCK) -> bytes:
    """A whole unary call; the message has to fit one frame."""
    return head(stream_id, block) + data(stream_id, framed(message), frames.END_STREAM)


_REQUEST: Final = add_sub_request().SerializeToString()
_GROWING_TABLE: Final = b"\x40\x01a\x7f\x81\x1e" + b"x" * 4000

# name -> (bytes, the code of the GOAWAY that has to answer them)
HTTP2_CUT_OFF: Final[dict[str, tuple[bytes, ErrorCode]]] = {
    "rapid reset": (
        b"".join(head(at) + frames.rst_stream(at, 8) for at in range(1, 10_001, 2)), CALM,
    ),
    "resets that we are made to send": (
        b"".join(head(at) + frames.window_update(at, 0) for at in range(1, 10_001, 2)), CALM,
    ),
    "malformed requests": (
        b"".join(head(at, b"\x83") for at in range(1, 10_001, 2)), CALM,
    ),
    "too many open streams": (b"".join(head(at) for at in range(1, 10_001, 2)), CALM),
    "CONTINUATION flood": (
        frames.frame(frames.HEADERS, 0, 1, BLOCK) + frames.frame(frames.CONTINUATION, 0, 1) * 9999,
        CALM,
    ),
    "endless header block": (
        frames.frame(frames.HEADERS, 0, 1, b"\0\x7f\xff\xff\x7f")
        + frames.frame(frames.CONTINUATION, 0, 1, bytes(16_000)) * 64,
        CALM,
    ),
    "SETTINGS flood": (frames.settings({frames.INITIAL_WINDOW_SIZE: 9}) * 9999, CALM),
    "SETTINGS with many entries": (frames.settings(dict.fromkeys(range(7, 999), 1)), CALM),
    "SETTINGS ACK flood": (frames.frame(frames.SETTINGS, frames.ACK, 0) * 9999, CALM),
    "PING flood": (frames.frame(frames.PING, 0, 0, bytes(8)) * 99_999, CALM),
    "PRIORITY flood": (frames.frame(frames.PRIORITY, 0, 5, bytes(5)) * 9999, CALM),
    "PRIORITY on itself": (
        head(1) + frames.frame(frames.PRIORITY, 0, 1, b"\0\0\0\1\x0f") * 9999, CALM,
    ),
    "GOAWAY flood": (frames.goaway(0, 0) * 9999, CALM),
    "unknown frames": (frames.frame(0xBE, 0xFF, 7, b"unknown") * 9999, CALM),
    "WINDOW_UPDATE flood": (head(1) + frames.window_update(1, 1) * 9999, CALM),
    "empty DATA flood": (head(1) + data(1, b"") * 9999, CALM),
    "padding only": (head(1) + data(1, b"\xff" + bytes(255), frames.PADDED) * 9999, CALM),
    "tiny DATA flood": (head(1) + data(1, b"\0") * 9999, CALM),
    "late DATA": (call(1, _REQUEST) + data(1, bytes(100)) * 9999, CALM),
    "HPACK bomb": (head(1, _GROWING_TABLE + b"\xbe" * 8000), CALM),
    "HPACK garbage": (head(1, b"\xff" * 30), ErrorCode.COMPRESSION_ERROR),
    "HPACK table over its size": (head(1, b"\x3f\xff\xff\x7f"), ErrorCode.COMPRESSION_ERROR),
    "connection window overflow": (frames.window_update(0, (1 << 31) - 1), FLOW),
    "initial window overflow": (frames.settings({frames.INITIAL_WINDOW_SIZE: 1 << 31}), FLOW),
    "windows overflow by SETTINGS": (
        head(1) + frames.window_update(1, (1 << 31) - 1 - 65_535)
        + frames.settings({frames.INITIAL_WINDOW_SIZE: 1 << 17}), FLOW,
    ),
    "WINDOW_UPDATE of 0": (frames.window_update(0, 0), PROTOCOL),
    "even stream id": (head(2), PROTOCOL),
    "stream 0": (head(0), PROTOCOL),
    "stream ids going back": (call(9, _REQUEST) + head(7), CLOSED),
    "DATA on an idle stream": (data(99, b"x"), PROTOCOL),
    "RST_STREAM on an idle stream": (frames.rst_stream(99, 8), PROTOCOL),
    "interleaved header blocks": (frames.frame(frames.HEADERS, 0, 1, BLOCK) + head(3), PROTOCOL),
    "padding over the payload": (head(1) + data(1, b"\xff", frames.PADDED), PROTOCOL),
    "PUSH_PROMISE": (frames.frame(frames.PUSH_PROMISE, 4, 1, bytes(4)), PROTOCOL),
    "DATA over the frame size": (
        head(1) + frames.HEADER.pack((1 << 24) - 1 << 8 | frames.DATA, 0, 1), SIZE,
    ),
    "HEADERS over the frame size": (
        frames.HEADER.pack((1 << 24) - 1 << 8 | frames.HEADERS, 0, 1), SIZE,
    ),
    "other frame over the frame size": (frames.HEADER.pack((1 << 24) - 1 << 8 | 0xEE, 0, 0), SIZE),
}  # fmt: skip

_LATE_PADDING: Final = data(1, b"\x09" + framed(_REQUEST) + bytes(9), 9)
# What has to be served, or refused call by call, on a connection that goes on.
HTTP2_BORNE: Final[dict[str, bytes]] = {
    "calls cancelled at once": b"".join(
        call(at, _REQUEST) + frames.rst_stream(at, 8) for at in range(1, 1001, 2)
    ),
    "large header lists": b"".join(
        call(at, _REQUEST, _block((b"big", b"x" * 20_000))) for at in range(1, 101, 2)
    ),
    "windows of 0 and never opened": frames.settings({frames.INITIAL_WINDOW_SIZE: 0})
    + b"".join(call(at, _REQUEST) for at in range(1, 1001, 2)),
    "bodies never ended": b"".join(
        head(at) + data(at, b"\0\x7f\xff\xff\xff" + bytes(1000)) for at in range(1, 1001, 2)
    ),
    "messages over 2 GiB": b"".join(
        head(at) + data(at, b"\0\xff\xff\xff\xff" + bytes(100)) for at in range(1, 1001, 2)
    ),
    "decompression of garbage": b"".join(
        head(at, _block((b"grpc-encoding", b"gzip"))) + data(at, b"\1\0\0\0\4abcd", 1)
        for at in range(1, 1001, 2)
    ),
    "messages of garbage": b"".join(call(at, b"\xff" * 500) for at in range(1, 1001, 2)),
    "stream ids again": b"".join(call(at, _REQUEST) * 2 for at in range(1, 1001, 2)),
    "padded calls": head(1) + _LATE_PADDING,
    "foreign requests": b"".join(
        head(at, b"\x82\x86\x84", end=True) for at in range(1, 1001, 2)
    ),
    "no such method": b"".join(
        head(at, b"\x83\x86\x04\x02/x\x0f\x10\x10application/grpc", end=True)
        for at in range(1, 1001, 2)
    ),
}  # fmt: skip

_INFER: Final = b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: x\r\n"
_SMUGGLED: Final = b"GET /v2/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
# Each is malformed or over a limit: the connection closes, and what is behind is not a request.
HTTP1_CUT_OFF: Final[dict[str, bytes]] = {
    "endless head": b"GET /v2 HTTP/1.1\r\n" + b"a: b\r\n" * 100_000,
    "endless header": b"GET /v2 HTTP/1.1\r\na: " + b"b" * 1_000_000,
    "endless header name": b"GET /v2 HTTP/1.1\r\n" + b"b" * 1_000_000,
    "endless URL": b"GET /" + b"x" * 1_000_000,
    "endless method": b"X" * 1_000_000,
    "endless chunk extension": _INFER
    + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 1_000_000,
    "endless chunk size": _INFER + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 1_000_000,
    "endless trailers": _INFER
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 100_000,
    "chunk size overflow": _INFER + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    "chunk size with a sign": _INFER + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + _SMUGGLED,
    "length and chunks": _INFER
    + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _SMUGGLED,
    "chunks and length": _INFER
    + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" + _SMUGGLED,
    "two lengths": _INFER + b"Content-Length: 0\r\nContent-Length: 41\r\n\r\n" + _SMUGGLED,
    "list of lengths": _INFER + b"Content-Length: 0, 41\r\n\r\n" + _SMUGGLED,
    "length with a sign": _INFER + b"Content-Length: +0\r\n\r\n" + _SMUGGLED,
    "length in hex": _INFER + b"Content-Length: 0x0\r\n\r\n" + _SMUGGLED,
    "length overflow": _INFER + b"Content-Length: 18446744073709551616\r\n\r\n" + _SMUGGLED,
    "unknown coding behind chunked": _INFER
    + b"Transfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n" + _SMUGGLED,
    "chunked by another name": _INFER
    + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + _SMUGGLED,
    "space before the colon": _INFER + b"Content-Length : 0\r\n\r\n" + _SMUGGLED,
    "folded header": _INFER + b"Content-Length:\r\n 41\r\nX: y\r\n\r\n" + _SMUGGLED,
    "NUL in a header": _INFER + b"Content-Length: 0\r\nX: \0\r\n\r\n" + _SMUGGLED,
    "bare CR in a header": _INFER + b"X: a\rContent-Length: 41\r\n\r\n" + _SMUGGLED,
    "HTTP/2 on the HTTP port": START,
    "TLS on the HTTP port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
}  # fmt: skip

# What stays open and silent.
HALF_OPEN_HTTP2: Final[tuple[bytes, ...]] = (
    b"",
    frames.PREFACE[:7],
    frames.PREFACE,
    START + head(1),
    START + head(1) + data(1, b"\0\x1f\xff\xff\xff" + bytes(9000)),
    START + frames.frame(frames.HEADERS, 0, 1, BLOCK),
)
HALF_OPEN_HTTP1: Final[tuple[bytes, ...]] = (
    b"",
    b"GE",
    b"GET /v2 HTTP/1.1\r\nHost: x\r\nX-Slow:",
    _INFER + b"Content-Length: 1000000000\r\n\r\nx",
    _INFER + b"Transfer-Encoding: chunked\r\n\r\nfff\r\nx",
)


def connect(address: str) -> socket.socket:
    """Open a connection to host:port."""
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def throw(address: str, sent: bytes, *, until: Callable[[bytes], bool] = lambda _: False) -> bytes:
    """Send bytes while reading, as far as the server takes them; return what it answered.

    Args:
        address: host:port.
        sent: The bytes.
        until: Tells from all bytes received so far that no more need be waited for. Without it
            this waits for the server to close the connection, which it does at the end of input.
    """
    received = bytearray()
    rest = memoryview(sent)
    with connect(address) as peer:
        peer.setblocking(False)
        while not until(bytes(received)):
            readable, writable, _ = select.select([peer], [peer] if rest else [], [], 30)
            assert readable or writable, f"the server neither reads nor closes: {received[-200:]!r}"
            try:
                if readable:
                    more = peer.recv(1 << 16)
                    if not more:
                        break
                    received += more
                if writable:
                    rest = rest[peer.send(rest) :]
            except ConnectionError:
                break
    return bytes(received)


def goaway_code(received: bytes) -> int | None:
    """The code of the last GOAWAY in a server's bytes, or None."""
    code = None
    position = 0
    while position + frames.HEADER_BYTES <= len(received):
        word, _, _ = frames.HEADER.unpack_from(received, position)
        position += frames.HEADER_BYTES + (word >> 8)
        if word & 0xFF == frames.GOAWAY and position <= len(received):
            code = int.from_bytes(received[position - (word >> 8) + 4 :][:4], "big")
    return code
