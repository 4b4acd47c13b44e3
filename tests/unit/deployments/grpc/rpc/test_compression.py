# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Compressed response messages: the choice, the messages and their frames."""

import zlib

import numpy as np
import pytest

from deployments.grpc.rpc.compression import LEVELS, MessageCoding, ResponseCompression
from deployments.grpc.rpc.inflation import DECOMPRESSORS
from deployments.http2 import frames
from tests.support.http2_peer import Client, call, grpc_message, headers_frame, request

ECHO = b"/test.Service/Echo"
BIDI = b"/test.Service/Bidi"
ALL = frozenset((ECHO, BIDI))
PLENTY = b"tensor" * 100_000


def client_of(level: str = "low") -> Client:
    client = Client(compression=ResponseCompression(level, ALL))
    # Windows that let every answer out.
    client.send(frames.settings({frames.INITIAL_WINDOW_SIZE: 1 << 30}))
    client.send(frames.window_update(0, 1 << 30))
    client.received()
    return client


def accepting(encodings: bytes, path: bytes = ECHO) -> list[tuple[bytes, bytes]]:
    return request(path=path, grpc_accept_encoding=encodings)


def decoded(body: bytes, encoding: bytes) -> list[tuple[bool, bytes]]:
    """Flag and content of each message."""
    found = []
    while body:
        size = int.from_bytes(body[1:5], "big")
        flag, message, body = body[0], body[5 : 5 + size], body[5 + size :]
        plain = zlib.decompress(message, DECOMPRESSORS[encoding]) if flag else message
        found.append((bool(flag), plain))
    return found


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (b"identity, deflate, gzip", {"low": b"gzip", "medium": b"deflate", "high": b"deflate"}),
        (b"gzip", dict.fromkeys(LEVELS, b"gzip")),
        (b"identity,deflate", dict.fromkeys(LEVELS, b"deflate")),
        (b"identity", {}),
        (b"br", {}),
        (b"", {}),
    ],
)
def test_the_level_chooses_among_what_the_client_accepts_as_grpc_does(
    accepted: bytes, expected: dict[str, bytes]
) -> None:
    for level in LEVELS:
        client = client_of(level)
        client.send(call(1, PLENTY, accepting(accepted)))
        headers, body = client.answer(1)
        assert headers[b"grpc-status"] == b"0"
        encoding = headers.get(b"grpc-encoding", b"")
        assert encoding == expected.get(level, b"")
        assert decoded(body, encoding) == [(bool(encoding), PLENTY)]
        assert not encoding or len(body) < len(PLENTY) // 50


def test_only_the_methods_given_are_compressed() -> None:
    client = client_of()
    client.send(call(1, PLENTY, accepting(b"gzip", b"/other.Service/Echo")))
    headers, body = client.answer(1)
    assert b"grpc-encoding" not in headers
    assert body == grpc_message(PLENTY)


@pytest.mark.parametrize("message", [b"", b"x", bytes(range(256))])
def test_a_message_that_would_not_shrink_is_sent_as_it_is(message: bytes) -> None:
    client = client_of()
    client.send(call(1, message, accepting(b"gzip")))
    _, body = client.answer(1)
    assert body == grpc_message(message)


def test_each_message_of_a_stream_is_compressed_by_itself() -> None:
    client = client_of()
    client.send(headers_frame(1, accepting(b"deflate", BIDI)))
    reply = client.service.calls[0].reply
    reply.send([b"a" * 1000, memoryview(b"b" * 1000)])
    reply.send(b"x")
    reply.send(PLENTY)
    reply.finish()
    headers, body = client.answer(1)
    assert headers[b"grpc-encoding"] == b"deflate"
    assert decoded(body, b"deflate") == [
        (True, b"a" * 1000 + b"b" * 1000),
        (False, b"x"),
        (True, PLENTY),
    ]


def test_a_compressed_answer_waits_for_the_window_like_any_other() -> None:
    client = Client(compression=ResponseCompression("low", ALL))
    # Four bits of eight.
    noise = np.random.default_rng(1).integers(0, 16, 900_000, np.uint8).tobytes()
    client.send(call(1, noise, accepting(b"gzip")))
    body = b"".join(f.payload for f in client.received() if f.kind == frames.DATA)
    assert len(body) == frames.DEFAULT_WINDOW_BYTES
    client.send(frames.window_update(1, 1 << 20) + frames.window_update(0, 1 << 20))
    body += b"".join(f.payload for f in client.received() if f.kind == frames.DATA)
    assert decoded(body, b"gzip") == [(True, noise)]


def test_an_error_has_no_encoding() -> None:
    client = client_of()
    client.send(headers_frame(1, accepting(b"gzip")))
    client.service.calls[0].reply.finish(5, "no such model")
    headers, _ = client.answer(1)
    assert headers[b"grpc-status"] == b"5"
    assert b"grpc-encoding" not in headers


@pytest.mark.parametrize("name", DECOMPRESSORS)
def test_memory_of_any_kind_is_compressed(name: bytes) -> None:
    coded = MessageCoding(name, 1).encode([b"a" * 99, bytearray(99), memoryview(b"b" * 99)], 297)
    assert coded is not None
    plain = zlib.decompress(b"".join(coded), DECOMPRESSORS[name])
    assert plain == b"a" * 99 + bytes(99) + b"b" * 99
