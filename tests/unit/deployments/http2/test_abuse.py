# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What hostile peers try: each ends in a bounded way, named by its error code."""

import pytest

from deployments.http2 import frames
from deployments.http2.errors import ErrorCode
from deployments.http2.keepalive_options import KeepaliveOptions
from deployments.http2.limits import Http2Limits
from tests.support.http2_peer import (
    START,
    Client,
    Frame,
    call,
    data_frame,
    error_code,
    grpc_message,
    headers_frame,
    request,
)

S = 1_000_000_000
CALM = ErrorCode.ENHANCE_YOUR_CALM
ANY_PINGS = KeepaliveOptions(max_ping_strikes=0)


def _resets(found: list[Frame]) -> list[tuple[int, int]]:
    return [
        (f.stream_id, int.from_bytes(f.payload, "big"))
        for f in found
        if f.kind == frames.RST_STREAM
    ]


def _flood(client: Client, frame: bytes, count: int = 100_000) -> int:
    """Send a frame until the connection ends; return how many it took."""
    for number in range(count):
        client.send(frame)
        if client.h2.lifecycle.terminated is not None:
            return number + 1
    return count


@pytest.mark.parametrize(
    "frame",
    [
        frames.settings({}),
        frames.settings({frames.INITIAL_WINDOW_SIZE: 1}),
        frames.frame(frames.SETTINGS, frames.ACK, 0),
        frames.frame(frames.PING, 0, 0, bytes(8)),
        frames.frame(frames.PING, frames.ACK, 0, bytes(8)),
        frames.frame(frames.PRIORITY, 0, 1, bytes(5)),
        frames.frame(0xAA, 0, 0, b"unknown"),
        frames.frame(frames.GOAWAY, 0, 0, bytes(8)),
        data_frame(1, b""),
        data_frame(1, b"x"),
        data_frame(1, b"", padding=3),
        data_frame(1, b"", padding=255),
        frames.window_update(1, 1),
        frames.window_update(0, 1),
    ],
    ids=lambda frame: f"type {frame[3]} of {len(frame) - 9} bytes",
)
def test_a_flood_of_frames_that_do_no_work_is_cut_off(frame: bytes) -> None:
    client = Client(Http2Limits(keepalive=ANY_PINGS))
    client.send(headers_frame(1))
    assert _flood(client, frame) <= Http2Limits().nuisance_credit + 10
    assert error_code(client.h2) == CALM


def test_a_flood_of_data_on_a_stream_that_was_reset_is_cut_off() -> None:
    client = Client()
    client.send(headers_frame(1) + frames.window_update(1, 0))
    assert _flood(client, data_frame(1, bytes(100))) <= Http2Limits().nuisance_credit + 10
    assert error_code(client.h2) == CALM


def test_an_upload_on_its_way_when_its_stream_was_reset_is_no_flood() -> None:
    client = Client()
    client.send(headers_frame(1) + frames.window_update(1, 0))
    assert _flood(client, data_frame(1, bytes(16_384)), 10_000) == 10_000


def test_pings_and_window_updates_next_to_work_are_no_flood() -> None:
    client = Client()
    chatter = frames.frame(frames.PING, 0, 0, bytes(8)) + frames.window_update(0, 1000) * 2
    for number in range(5000):
        client.send(call(2 * number + 1, b"x") + chatter)
        client.received()
    assert client.h2.lifecycle.terminated is None


def test_pings_at_a_human_rate_are_no_flood() -> None:
    client = Client(Http2Limits(keepalive=ANY_PINGS))
    for _ in range(20_000):
        client.now_ns += S // 100
        client.send(frames.frame(frames.PING, 0, 0, bytes(8)))
    assert client.h2.lifecycle.terminated is None


def test_acknowledgements_for_a_peer_that_does_not_read_are_bounded() -> None:
    client = Client(Http2Limits(max_queued_acks=50, keepalive=ANY_PINGS))
    client.h2.out.blocked = True
    assert _flood(client, frames.frame(frames.PING, 0, 0, bytes(8))) == 51
    assert error_code(client.h2) == CALM


def test_rapid_reset_is_cut_off() -> None:
    client = Client(Http2Limits(reset_credit=100, reset_credit_per_s=10))
    for number in range(1000):
        stream_id = 2 * number + 1
        client.send(headers_frame(stream_id) + frames.rst_stream(stream_id, ErrorCode.CANCEL))
    assert error_code(client.h2) == CALM
    # Streams that were reset within the same read never became calls.
    assert client.service.calls == []


def test_streams_that_we_are_made_to_reset_count_as_rapid_reset() -> None:
    client = Client(Http2Limits(reset_credit=100))
    for number in range(101):
        stream_id = 2 * number + 1
        client.send(headers_frame(stream_id) + frames.window_update(stream_id, 0))
    assert error_code(client.h2) == CALM


def test_a_client_that_cancels_some_of_its_calls_is_welcome() -> None:
    client = Client(Http2Limits(reset_credit=10, reset_credit_per_s=0))
    for number in range(500):
        stream_id = 4 * number + 1
        client.send(call(stream_id, b"x") + headers_frame(stream_id + 2))
        client.send(frames.rst_stream(stream_id + 2, ErrorCode.CANCEL))
    assert client.h2.lifecycle.terminated is None


@pytest.mark.parametrize("fragment", [b"", b"x" * 3000])
def test_a_continuation_flood_is_cut_off(fragment: bytes) -> None:
    client = Client()
    client.send(frames.frame(frames.HEADERS, 0, 1, b"\0\x7f\xff\x7f"))
    assert _flood(client, frames.frame(frames.CONTINUATION, 0, 1, fragment)) <= 17
    assert error_code(client.h2) == CALM


def test_header_blocks_must_not_be_interleaved() -> None:
    for frame in (
        headers_frame(3),
        frames.frame(frames.CONTINUATION, frames.END_HEADERS, 3, b""),
        frames.frame(frames.PING, 0, 0, bytes(8)),
    ):
        client = Client()
        client.send(frames.frame(frames.HEADERS, 0, 1, b"") + frame)
        assert error_code(client.h2) == ErrorCode.PROTOCOL_ERROR


def test_a_header_frame_over_the_limit_is_not_even_collected() -> None:
    client = Client()
    client.send(frames.HEADER.pack(100_000 << 8 | frames.HEADERS, frames.END_HEADERS, 1))
    assert error_code(client.h2) == ErrorCode.FRAME_SIZE_ERROR


def test_a_data_frame_over_our_limit_is_a_frame_size_error() -> None:
    client = Client()
    client.send(headers_frame(1))
    client.send(frames.HEADER.pack((1 << 20) + 1 << 8 | frames.DATA, 0, 1))
    assert error_code(client.h2) == ErrorCode.FRAME_SIZE_ERROR


def test_an_hpack_bomb_is_cut_off() -> None:
    client = Client()
    entry = b"\x40\x01a\x7f\x81\x1e" + b"x" * 4000
    client.send(frames.frame(frames.HEADERS, frames.END_HEADERS, 1, entry + b"\xbe" * 8000))
    assert error_code(client.h2) == CALM


def test_headers_over_the_announced_list_size_fail_one_call_only() -> None:
    client = Client()
    client.send(call(1, b"", request(big=b"x" * 17_000)) + call(3, b"ok"))
    [first, *_] = client.received()
    assert client.headers(first)[b"grpc-status"] == b"8"
    assert client.service.calls[0].messages == [b"ok"]


def test_invalid_hpack_is_a_compression_error() -> None:
    client = Client()
    client.send(frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"))
    assert error_code(client.h2) == ErrorCode.COMPRESSION_ERROR


def test_more_streams_than_announced_are_refused_and_the_others_served() -> None:
    client = Client(Http2Limits(max_concurrent_streams=2))
    wait = request(path=b"/test.Service/Wait")
    client.send(headers_frame(1, wait) + headers_frame(3, wait) + headers_frame(5, wait))
    assert _resets(client.received()) == [(5, ErrorCode.REFUSED_STREAM)]
    client.service.calls[0].reply.finish()
    client.send(call(7, b"again"))
    assert client.answer(7)[1] == grpc_message(b"again")


def test_a_peer_that_ignores_the_announced_number_of_streams_is_cut_off() -> None:
    client = Client(Http2Limits(max_concurrent_streams=1, reset_credit=50))
    client.send(headers_frame(1))
    for number in range(1, 100):
        client.send(headers_frame(2 * number + 1))
    assert error_code(client.h2) == CALM


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (headers_frame(2), ErrorCode.PROTOCOL_ERROR),
        (headers_frame(0), ErrorCode.PROTOCOL_ERROR),
        (headers_frame(3), ErrorCode.STREAM_CLOSED),
        (data_frame(9, b"x"), ErrorCode.PROTOCOL_ERROR),
        (data_frame(0, b"x"), ErrorCode.PROTOCOL_ERROR),
        (data_frame(2, b"x"), ErrorCode.PROTOCOL_ERROR),
        (frames.rst_stream(9, 0), ErrorCode.PROTOCOL_ERROR),
        (frames.rst_stream(0, 0), ErrorCode.PROTOCOL_ERROR),
        (frames.window_update(9, 1), ErrorCode.PROTOCOL_ERROR),
        (frames.window_update(0, 0), ErrorCode.PROTOCOL_ERROR),
        (frames.window_update(0, (1 << 31) - 1), ErrorCode.FLOW_CONTROL_ERROR),
        (frames.settings({frames.INITIAL_WINDOW_SIZE: 1 << 31}), ErrorCode.FLOW_CONTROL_ERROR),
        (frames.settings({frames.MAX_FRAME_SIZE: 100}), ErrorCode.PROTOCOL_ERROR),
        (frames.settings({frames.ENABLE_PUSH: 2}), ErrorCode.PROTOCOL_ERROR),
        (frames.settings(dict.fromkeys(range(100, 200), 1)), CALM),
        (frames.frame(frames.SETTINGS, 0, 0, b"12345"), ErrorCode.FRAME_SIZE_ERROR),
        (frames.frame(frames.SETTINGS, frames.ACK, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
        (frames.frame(frames.SETTINGS, 0, 5), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.PING, 0, 0, b"short"), ErrorCode.FRAME_SIZE_ERROR),
        (frames.frame(frames.PING, 0, 5, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.PRIORITY, 0, 0, bytes(5)), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.RST_STREAM, 0, 5, b"123"), ErrorCode.FRAME_SIZE_ERROR),
        (frames.frame(frames.WINDOW_UPDATE, 0, 5, b"123"), ErrorCode.FRAME_SIZE_ERROR),
        (frames.frame(frames.PUSH_PROMISE, 4, 5, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.CONTINUATION, 4, 5), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.DATA, frames.PADDED, 5, b"\x09abc"), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.DATA, frames.PADDED, 5), ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_a_connection_error_has_its_code_and_cancels_the_calls(frame: bytes, code: int) -> None:
    client = Client()
    client.send(call(3) + headers_frame(5))
    client.send(frame)
    assert error_code(client.h2) == code
    [echoed, waiting] = client.service.calls
    assert (echoed.cancelled_count, waiting.cancelled_count) == (0, 1)
    assert client.grpc.inflight_count == 0
    client.send(call(99))
    assert client.received() == []


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (frames.window_update(5, 0), ErrorCode.PROTOCOL_ERROR),
        (frames.window_update(5, (1 << 31) - 1), ErrorCode.FLOW_CONTROL_ERROR),
        (headers_frame(5, end=False), ErrorCode.PROTOCOL_ERROR),
        (frames.frame(frames.PRIORITY, 0, 5, b"123"), ErrorCode.FRAME_SIZE_ERROR),
        (data_frame(5, bytes(70_000)), ErrorCode.FLOW_CONTROL_ERROR),
        (data_frame(5, b"", end=True) + data_frame(5, b"x" * 99), ErrorCode.STREAM_CLOSED),
    ],
)
def test_a_stream_error_has_its_code_and_leaves_the_connection(frame: bytes, code: int) -> None:
    client = Client(Http2Limits(stream_window_bytes=65_535))
    client.send(headers_frame(5, request(path=b"/test.Service/Wait")))
    client.send(frame)
    assert _resets(client.received()) == [(5, code)]
    assert client.service.calls[0].cancelled_count == 1
    client.send(call(7, b"still here"))
    assert client.answer(7)[1] == grpc_message(b"still here")


def test_data_beyond_the_connections_window_is_a_flow_control_error() -> None:
    client = Client(Http2Limits(connection_window_bytes=65_535, pause_receiving_bytes=-1))
    client.send(headers_frame(1))
    client.send(data_frame(1, bytes(40_000)))
    client.send(data_frame(1, bytes(40_000)))
    assert error_code(client.h2) == ErrorCode.FLOW_CONTROL_ERROR


def test_a_settings_change_that_overflows_a_window_is_a_flow_control_error() -> None:
    client = Client()
    client.send(headers_frame(1) + frames.window_update(1, (1 << 31) - 1 - 65_535))
    client.send(frames.settings({frames.INITIAL_WINDOW_SIZE: 65_536}))
    assert error_code(client.h2) == ErrorCode.FLOW_CONTROL_ERROR


def test_malformed_headers_reset_one_stream() -> None:
    client = Client()
    client.send(headers_frame(1, request(path=None)) + call(3, b"x"))
    assert _resets(client.received()) == [(1, ErrorCode.PROTOCOL_ERROR)]
    assert len(client.service.calls) == 1


def test_the_first_frame_has_to_be_settings() -> None:
    client = Client(start=False)
    client.send(frames.PREFACE + headers_frame(1))
    assert error_code(client.h2) == ErrorCode.PROTOCOL_ERROR


def test_a_stream_that_produces_more_than_its_peer_reads_is_reset() -> None:
    client = Client(Http2Limits(max_queued_bytes=1_000_000))
    client.send(headers_frame(1, request(path=b"/test.Service/Wait")))
    [rpc] = client.service.calls
    for _ in range(100):
        rpc.reply.send(bytes(100_000))
    assert client.h2.out.queued_bytes == 0
    assert _resets(client.received()) == [(1, CALM)]
    assert rpc.cancelled_count == 1


def test_new_calls_are_refused_while_too_many_answers_wait() -> None:
    client = Client(Http2Limits(max_queued_bytes=100_000))
    client.send(call(1, bytes(200_000)))
    client.received()
    client.send(call(3))
    assert _resets(client.received()) == [(3, ErrorCode.REFUSED_STREAM)]


def test_incomplete_messages_of_a_connection_are_bounded() -> None:
    client = Client(Http2Limits(max_partial_bytes=100_000))
    half = grpc_message(bytes(80_000))[:60_000]
    client.send(headers_frame(1) + data_frame(1, half))
    client.send(headers_frame(3) + data_frame(3, half))
    assert client.status(3)[0] == 8
    client.send(data_frame(1, bytes(20_005), end=True))
    assert client.service.calls[0].half_closed_count == 1
    assert client.grpc.received.held_bytes == 0


def test_the_start_of_a_connection_is_one_write() -> None:
    client = Client(start=False)
    client.send(START)
    assert len(client.raw()) == 1
