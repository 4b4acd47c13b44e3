# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What connections hold is taken from one budget and given back on every path."""

import gzip
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.grpc.rpc.call import MESSAGE_OVERHEAD_BYTES
from deployments.grpc.rpc.inflation import INLINE_BYTES, Inflation, MessageError
from deployments.grpc.rpc.status import RESOURCE_EXHAUSTED
from deployments.http2 import frames
from deployments.http2.limits import Http2Limits
from deployments.supervision.memory_budget import FREE_BYTES, MemoryBudget
from tests.support.http2_peer import (
    Client,
    call,
    data_frame,
    grpc_message,
    headers_frame,
    request,
)

GZIP = request(grpc_encoding=b"gzip")
GZIP_WAIT = request(grpc_encoding=b"gzip", path=b"/test.Service/Wait")
WAIT = request(path=b"/test.Service/Wait")


def _compressed(stream_id: int, message: bytes) -> bytes:
    body = grpc_message(gzip.compress(message), compressed=True)
    return headers_frame(stream_id, GZIP_WAIT) + data_frame(stream_id, body, end=True)


def test_small_messages_are_not_on_the_books_before_they_are_complete() -> None:
    client = Client(budget=MemoryBudget(1000 + MESSAGE_OVERHEAD_BYTES))
    client.send(headers_frame(1) + data_frame(1, grpc_message(bytes(1000))[:500]))
    assert client.budget.used_bytes == 0
    client.send(data_frame(1, grpc_message(bytes(1000))[500:], end=True))
    assert client.status(1) == (0, "")


def test_a_partial_message_that_the_budget_refuses_is_resource_exhausted() -> None:
    client = Client(budget=MemoryBudget(100_000 + MESSAGE_OVERHEAD_BYTES))
    client.service.has_memory = False
    half = grpc_message(bytes(100_000))[:99_000]
    client.send(headers_frame(1, WAIT) + data_frame(1, half))
    assert client.budget.used_bytes == 99_000 - 5 - FREE_BYTES
    client.send(headers_frame(3) + data_frame(3, half))
    status, text = client.status(3)
    assert status == RESOURCE_EXHAUSTED
    assert text.startswith("Server is too busy to hold an incomplete message: ")
    assert "of 101024 bytes" in text
    # The other call goes on, counts no byte twice and gives everything back.
    client.send(data_frame(1, grpc_message(bytes(100_000))[99_000:], end=True))
    assert len(client.service.calls[0].messages[0]) == 100_000
    assert client.budget.used_bytes == 100_000 + MESSAGE_OVERHEAD_BYTES
    client.service.calls[0].reply.complete(b"")
    assert client.budget.used_bytes == 0


def test_connections_share_the_budget() -> None:
    budget = MemoryBudget(100_000)
    first, second = Client(budget=budget), Client(budget=budget)
    half = grpc_message(bytes(200_000))[:150_000]
    first.send(headers_frame(1) + data_frame(1, half))
    second.send(headers_frame(1) + data_frame(1, half))
    assert second.status(1)[0] == RESOURCE_EXHAUSTED
    first.grpc.lost()
    assert budget.used_bytes == 0
    second.send(headers_frame(3) + data_frame(3, half))
    assert budget.used_bytes > 0


def test_an_answer_that_the_budget_refuses_to_queue_is_resource_exhausted() -> None:
    client = Client(budget=MemoryBudget(100_000))
    client.send(call(1, b"", WAIT) + call(3, b"", WAIT))
    client.service.calls[0].reply.complete(bytes(150_000))
    client.service.calls[1].reply.complete(bytes(150_000))
    assert client.service.calls[1].cancelled_count == 1
    status, text = client.status(3)
    assert status == RESOURCE_EXHAUSTED
    assert text.startswith("Server is too busy to hold the answer: ")
    assert client.budget.used_bytes > 0
    client.send(frames.window_update(0, 1 << 20) + frames.window_update(1, 1 << 20))
    client.received()
    assert client.budget.used_bytes == 0


@pytest.mark.parametrize("end", ["reset", "lost", "violation"])
def test_queued_answers_are_given_back_when_nobody_takes_them(end: str) -> None:
    client = Client()
    client.send(call(1, b"", WAIT))
    client.service.calls[0].reply.complete(bytes(1_000_000))
    assert client.budget.used_bytes > 0
    if end == "reset":
        client.send(frames.rst_stream(1, 8))
    elif end == "lost":
        client.grpc.lost()
    else:
        client.send(frames.window_update(0, 0))
    assert client.budget.used_bytes == 0


# Decompression.


def test_a_message_that_grows_large_is_decompressed_elsewhere_in_pieces() -> None:
    client = Client()
    message = random.Random(0).randbytes(1000) * 20_000
    client.send(_compressed(1, message))
    assert client.service.calls[0].messages == []
    # Other calls go on meanwhile.
    client.send(call(3, b"other"))
    assert client.service.calls[1].messages == [b"other"]
    pieces = 0
    while client.offloaded:
        assert client.budget.used_bytes > 0
        client.run_offloaded()
        pieces += 1
    assert pieces == 5
    assert client.service.calls[0].messages == [message]
    assert client.service.calls[0].half_closed_count == 1
    assert client.budget.used_bytes == len(message) + MESSAGE_OVERHEAD_BYTES
    client.service.calls[0].reply.complete(b"")
    assert client.budget.used_bytes == 0


def test_what_comes_behind_a_large_compressed_message_waits_for_it() -> None:
    client = Client()
    large, small = bytes(1_000_000), b"small"
    body = grpc_message(gzip.compress(large), compressed=True) + grpc_message(small)
    client.send(headers_frame(1, request(grpc_encoding=b"gzip", path=b"/test.Service/Bidi")))
    client.send(data_frame(1, body) + data_frame(1, _gzipped(large), end=True))
    [rpc] = client.service.calls
    assert rpc.messages == []
    client.run_offloaded()
    assert rpc.messages == [large, small]
    assert rpc.half_closed_count == 0
    client.run_offloaded()
    assert rpc.messages == [large, small, large]
    assert rpc.half_closed_count == 1
    assert client.grpc.received.held_bytes == 0


def _gzipped(message: bytes) -> bytes:
    return grpc_message(gzip.compress(message), compressed=True)


def test_messages_that_wait_for_a_large_one_are_bounded_by_the_budget() -> None:
    client = Client(budget=MemoryBudget(6 << 20))
    client.send(headers_frame(1, GZIP) + data_frame(1, _gzipped(bytes(2_000_000))))
    for _ in range(100):
        # Messages without content cost memory too.
        client.send(data_frame(1, grpc_message(b"") * 3000))
    assert client.status(1)[0] == RESOURCE_EXHAUSTED
    assert client.budget.used_bytes == 0


def test_a_call_that_ends_during_decompression_gives_everything_back() -> None:
    client = Client()
    client.send(_compressed(1, bytes(20_000_000)))
    client.run_offloaded()
    client.send(frames.rst_stream(1, 8))
    assert client.budget.used_bytes == 0
    client.run_offloaded()
    assert client.offloaded == []
    assert client.service.calls[0].messages == []


def test_decompression_that_the_budget_refuses_is_resource_exhausted() -> None:
    client = Client(budget=MemoryBudget(6 << 20))
    client.send(_compressed(1, bytes(20_000_000)))
    while client.offloaded:
        client.run_offloaded()
    assert client.status(1)[0] == RESOURCE_EXHAUSTED
    assert client.budget.used_bytes == 0


def test_a_broken_stream_is_found_on_the_thread() -> None:
    client = Client()
    packed = gzip.compress(random.Random(0).randbytes(1000) * 5000)
    body = grpc_message(packed[:-9] + b"123456789", compressed=True)
    client.send(headers_frame(1, GZIP) + data_frame(1, body, end=True))
    while client.offloaded:
        client.run_offloaded()
    assert client.status(1)[1].startswith("Decompression failed")


def test_a_message_may_not_grow_beyond_a_ratio_once_it_is_large() -> None:
    limits = Http2Limits(free_decompressed_bytes=1_000_000, max_decompression_ratio=10)
    sparse = Inflation(zlib.compress(bytes(1_000_000)), b"deflate", limits)
    sparse.step(INLINE_BYTES)
    sparse.step(1_000_000)
    assert sparse.message == bytes(1_000_000)
    bomb = Inflation(zlib.compress(bytes(1_000_001)), b"deflate", limits)
    with pytest.raises(MessageError, match="over 10 times its size") as caught:
        bomb.step(2_000_000)
    assert caught.value.status == RESOURCE_EXHAUSTED


@given(st.data())
def test_the_budget_is_whole_again_whatever_happens(data: st.DataObject) -> None:
    budget = MemoryBudget(data.draw(st.sampled_from([0, 300_000, 8 << 20, 1 << 40])))
    clients = [Client(budget=budget) for _ in range(2)]
    for number in range(data.draw(st.integers(0, 12))):
        client = clients[number % 2]
        stream_id = 2 * number + 1
        size = data.draw(st.sampled_from([10, 70_000, 200_000, 700_000]))
        action = data.draw(st.sampled_from(["partial", "answer", "inflate", "reset", "lost"]))
        if action == "partial":
            client.send(
                headers_frame(stream_id)
                + data_frame(stream_id, bytes(5)[:0] + grpc_message(bytes(size))[: size // 2])
            )
        elif action == "answer":
            client.send(call(stream_id, bytes(size)))
        elif action == "inflate":
            client.send(_compressed(stream_id, bytes(size)))
            if data.draw(st.booleans()) and client.offloaded:
                client.run_offloaded()
        elif action == "reset" and client.h2.streams:
            client.send(frames.rst_stream(next(iter(client.h2.streams)), 8))
        elif action == "lost":
            client.grpc.lost()
        if data.draw(st.booleans()):
            client.received()
        assert budget.used_bytes >= 0
    for client in clients:
        client.grpc.lost()
        while client.offloaded:
            client.run_offloaded()
    assert budget.used_bytes == 0
