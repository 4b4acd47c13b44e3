# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import gzip
import random
import tracemalloc
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.grpc.rpc.inflation import MessageError
from deployments.grpc.rpc.messages import MessageAssembler
from deployments.grpc.rpc.status import INTERNAL, RESOURCE_EXHAUSTED
from deployments.http2.limits import Http2Limits
from tests.support.http2_peer import grpc_message


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(0, 400)), st.booleans())
def test_messages_are_the_same_however_the_body_is_cut(
    messages: list[bytes], cuts: list[int], views: bool
) -> None:
    body = b"".join(map(grpc_message, messages))
    bounds = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    assembler = MessageAssembler(Http2Limits(), None)
    found: list[bytes] = []
    for start, end in pairwise(bounds):
        part = body[start:end]
        found += assembler.feed(memoryview(part) if views else part)
    assert found == messages
    assert not assembler.is_partial
    assert assembler.held_bytes == 0


@pytest.mark.parametrize("part_bytes", [1, 999, 5000, 70_000])
def test_a_large_message_comes_together(part_bytes: int) -> None:
    message = bytes(range(256)) * 512
    body = grpc_message(message)
    assembler = MessageAssembler(Http2Limits(), None)
    parts = [body[at : at + part_bytes] for at in range(0, len(body), part_bytes)]
    assert [m for part in parts for m in assembler.feed(memoryview(part))] == [message]


def test_an_announced_length_costs_no_memory_before_the_bytes_arrive() -> None:
    tracemalloc.start()
    assembler = MessageAssembler(Http2Limits(), None)
    assembler.feed(b"\0\x7f\xff\xff\xffx")
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()
    assert assembler.is_partial


def test_small_parts_do_not_keep_the_reads_they_came_in() -> None:
    assembler = MessageAssembler(Http2Limits(), None)
    assembler.feed(grpc_message(b"x" * 100_000)[:5])
    tracemalloc.start()
    for _ in range(15):
        assembler.feed(memoryview(bytes(1 << 20))[:5000])
        assembler.feed(memoryview(bytes(1 << 20))[:1])
    assert tracemalloc.get_traced_memory()[0] < 2_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("encoding", "compress"), [(b"gzip", gzip.compress), (b"deflate", zlib.compress)]
)
def test_a_compressed_message_is_decompressed(encoding: bytes, compress) -> None:
    message = b"text " * 1000
    body = grpc_message(compress(message), compressed=True) + grpc_message(b"plain")
    assert MessageAssembler(Http2Limits(), encoding).feed(body) == [message, b"plain"]


@pytest.mark.parametrize("limit", ["max_receive_message_bytes", "max_decompressed_message_bytes"])
def test_a_decompression_bomb_stops_at_the_limit(limit: str) -> None:
    body = grpc_message(gzip.compress(bytes(50_000_000)), compressed=True)
    assembler = MessageAssembler(Http2Limits(**{limit: 100_000}), b"gzip")
    tracemalloc.start()
    with pytest.raises(MessageError) as caught:
        assembler.feed(body)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    assert caught.value.status == RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"garbage",
        gzip.compress(b"x" * 99, mtime=0)[:-4],
        gzip.compress(b"x", mtime=0) + b"y",
    ],
)
def test_a_broken_compressed_message_is_an_internal_error(payload: bytes) -> None:
    with pytest.raises(MessageError) as caught:
        MessageAssembler(Http2Limits(), b"gzip").feed(grpc_message(payload, compressed=True))
    assert caught.value.status == INTERNAL


def test_the_compressed_flag_without_an_encoding_is_an_internal_error() -> None:
    with pytest.raises(MessageError) as caught:
        MessageAssembler(Http2Limits(), None).feed(grpc_message(b"x", compressed=True))
    assert caught.value.details == "Compression bit set but no encoding configured"


def test_a_message_over_the_limit_is_refused_by_its_prefix() -> None:
    assembler = MessageAssembler(Http2Limits(max_receive_message_bytes=10), None)
    with pytest.raises(MessageError) as caught:
        assembler.feed(b"\0\0\0\0\x0b")
    assert caught.value.status == RESOURCE_EXHAUSTED
    assert caught.value.details == "SERVER: Received message larger than max (11 vs. 10)"


def test_a_large_message_comes_into_memory_that_is_provided() -> None:
    asked: list[tuple[int, bytes]] = []

    def allocate(size: int, first: memoryview) -> memoryview | None:
        asked.append((size, bytes(first[:3])))
        return memoryview(bytearray(size)) if size < 200_000 else None

    messages = [b"abc" * 30_000, b"small", b"def" * 100_000]
    body = b"".join(map(grpc_message, messages))
    assembler = MessageAssembler(Http2Limits(), None, allocate)
    parts = [memoryview(body)[at : at + 10_000] for at in range(0, len(body), 10_000)]
    assert [m for part in parts for m in assembler.feed(part)] == messages
    assert asked == [(90_000, b"abc"), (300_000, b"def")]
    assert assembler.held_bytes == 0


def _no_memory(size: int, first: memoryview) -> memoryview | None:
    pytest.fail("asked for memory of the compressed size")


def test_a_compressed_message_is_not_received_into_provided_memory() -> None:
    message = zlib.compress(random.Random(1).randbytes(200_000))
    assembler = MessageAssembler(Http2Limits(), b"deflate", _no_memory)
    assert len(assembler.feed(grpc_message(message, compressed=True))[0]) == 200_000


def test_parts_of_a_buffer_that_is_overwritten_are_copied() -> None:
    body = grpc_message(b"x" * 100_000)
    buffer = bytearray(len(body))
    assembler = MessageAssembler(Http2Limits(), None)
    for start, end in pairwise((0, 50_000, len(body))):
        buffer[: end - start] = body[start:end]
        found = assembler.feed(memoryview(buffer)[: end - start])
        buffer[:] = bytes(len(buffer))
    assert found == [b"x" * 100_000]
