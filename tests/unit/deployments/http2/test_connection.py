# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.http2 import frames
from deployments.http2.connection import Http2Connection
from deployments.http2.errors import ErrorCode
from deployments.http2.events import DataReceived, Event, RequestReceived, StreamReset
from deployments.http2.limits import Http2Limits
from deployments.http2.streams import CLOSED
from tests.support.examples import examples
from tests.support.http2_peer import (
    REQUEST,
    START,
    data_frame,
    error_code,
    grpc_message,
    headers_frame,
    literal_block,
    normalised,
    output,
)

S = 1_000_000_000


def _connection(limits: Http2Limits | None = None, *, start: bool = True) -> Http2Connection:
    connection = Http2Connection(limits or Http2Limits(), tuple, 0)
    if start:
        connection.receive(START, 0)
        output(connection)
    return connection


def _open(connection: Http2Connection, stream_id: int = 1):
    [event] = connection.receive(headers_frame(stream_id), 0)
    assert isinstance(event, RequestReceived)
    return event.stream


def _conversation() -> bytes:
    """One of everything a well-behaved client sends."""
    encoder = hpack.Encoder()
    block = bytes(encoder.encode(list(REQUEST)))
    priority = b"\0\0\0\0\x10"
    return b"".join(
        (
            frames.PREFACE,
            frames.settings({frames.INITIAL_WINDOW_SIZE: 100_000, 0xFE03: 1}),
            frames.frame(frames.HEADERS, frames.END_HEADERS, 1, block),
            data_frame(1, b"first" * 10, padding=7),
            frames.frame(frames.PING, 0, 0, b"12345678"),
            frames.frame(frames.PRIORITY, 0, 5, priority),
            frames.frame(
                frames.HEADERS, frames.PRIORITY_FLAG | frames.END_STREAM, 3, priority + block[:10]
            ),
            frames.frame(frames.CONTINUATION, 0, 3, block[10:12]),
            frames.frame(frames.CONTINUATION, frames.END_HEADERS, 3, block[12:]),
            data_frame(1, b""),
            frames.frame(0xEE, 0xFF, 1, b"unknown"),
            frames.window_update(1, 5),
            data_frame(1, b"second", end=True, padding=0),
            headers_frame(5),
            data_frame(5, b"x" * 3000, padding=255),
            frames.rst_stream(5, ErrorCode.CANCEL),
            headers_frame(7),
            data_frame(7, b"body"),
            headers_frame(7, [(b"trailer", b"1")], end=True),
            frames.frame(frames.GOAWAY, 0, 0, bytes(8)),
        )
    )


def test_a_conversation_means_what_was_said() -> None:
    connection = _connection(start=False)
    events = connection.receive(_conversation(), 0)
    assert connection.lifecycle.terminated is None
    assert normalised(events) == [
        ("request", 1, REQUEST, False),
        ("data", 1, b"first" * 10, False),
        ("request", 3, REQUEST, True),
        ("data", 1, b"second", True),
        ("request", 5, REQUEST, False),
        ("data", 5, b"x" * 3000, False),
        ("reset", 5, ErrorCode.CANCEL),
        ("request", 7, REQUEST, False),
        ("data", 7, b"body", True),
    ]
    acks = [frame for frame in output(connection) if frame.flags & frames.ACK]
    assert [(frame.kind, frame.payload) for frame in acks] == [
        (frames.SETTINGS, b""),
        (frames.PING, b"12345678"),
    ]


@pytest.mark.parametrize("piece_bytes", [1, 2, 10, 100, 1000])
def test_pieces_of_any_size_mean_the_same(piece_bytes: int) -> None:
    data = _conversation()
    whole, cut = _connection(start=False), _connection(start=False)
    events: list[Event] = []
    for at in range(0, len(data), piece_bytes):
        events += cut.receive(data[at : at + piece_bytes], 0)
    assert normalised(events) == normalised(whole.receive(data, 0))
    assert output(cut) == output(whole)


_frame = st.builds(
    frames.frame,
    st.integers(0, 11),
    st.integers(0, 255) | st.sampled_from([0, 1, 4, 5, 8]),
    st.sampled_from([0, 1, 1, 3, 5, 2, (1 << 31) - 1]),
    st.binary(max_size=40) | st.sampled_from([b"", bytes(4), bytes(8), literal_block(REQUEST)]),
)
_soup = st.lists(
    _frame | st.sampled_from([headers_frame(n) for n in (1, 3, 5)]) | st.binary(max_size=30),
    max_size=20,
)


@settings(max_examples=examples(300), deadline=None)
@given(_soup, st.integers(1, 60))
def test_frame_soup_never_raises_and_pieces_mean_the_same(soup: list[bytes], piece: int) -> None:
    data = START + b"".join(soup)
    whole, cut = _connection(start=False), _connection(start=False)
    expected = whole.receive(data, 0)
    events: list[Event] = []
    for at in range(0, len(data), piece):
        events += cut.receive(data[at : at + piece], 0)
    assert error_code(cut) == error_code(whole)
    if whole.lifecycle.terminated is None:
        assert normalised(events) == normalised(expected)
        assert set(cut.streams) == set(whole.streams)


@given(st.binary(max_size=100))
def test_bytes_that_are_no_http2_end_the_connection(data: bytes) -> None:
    connection = _connection(start=False)
    assert connection.receive(b"GET / HTTP/1.1\r\n" + data, 0) == []
    assert error_code(connection) == ErrorCode.PROTOCOL_ERROR


def test_a_large_frame_is_passed_on_as_it_arrives() -> None:
    connection = _connection()
    _open(connection)
    payload = bytes(range(256)) * 4096
    frame = data_frame(1, payload, end=True)
    got = []
    for at in range(0, len(frame), 65_536):
        events = connection.receive(frame[at : at + 65_536], 0)
        assert len(events) == 1
        got += events
        assert not connection._reader._tail
    assert b"".join(bytes(event.data) for event in got) == payload
    assert [event.ended for event in got] == [False] * (len(got) - 1) + [True]


def test_receive_windows_are_opened_again_in_batches() -> None:
    limits = Http2Limits(stream_window_bytes=100_000, connection_window_bytes=200_000)
    connection = _connection(limits)
    _open(connection)
    updates: dict[int, list[int]] = {0: [], 1: []}
    sent = 0
    for _ in range(100):
        connection.receive(data_frame(1, bytes(10_000)), 0)
        sent += 10_000
        for frame in output(connection):
            assert frame.kind == frames.WINDOW_UPDATE
            updates[frame.stream_id].append(int.from_bytes(frame.payload, "big"))
    assert len(updates[0]) < 15
    assert len(updates[1]) < 25
    assert sent - 200_000 <= sum(updates[0]) <= sent
    assert sent - 100_000 <= sum(updates[1]) <= sent


def test_padding_counts_against_the_window() -> None:
    connection = _connection()
    stream = _open(connection)
    connection.receive(data_frame(1, b"x", padding=99), 0)
    assert stream.receive_window == Http2Limits().stream_window_bytes - 101


def test_requests_get_no_window_while_too_many_answers_wait() -> None:
    limits = Http2Limits(connection_window_bytes=100_000, pause_receiving_bytes=50_000)
    connection = _connection(limits)
    stream = _open(connection)
    connection.out.enqueue(stream, [bytes(200_000)])
    output(connection)
    connection.receive(headers_frame(3) + data_frame(3, bytes(60_000), end=True), 0)
    assert output(connection) == []
    connection.receive(frames.window_update(0, 1 << 20) + frames.window_update(1, 1 << 20), 0)
    updates = [f for f in output(connection) if f.kind == frames.WINDOW_UPDATE]
    connection.take_output()
    updates += [f for f in output(connection) if f.kind == frames.WINDOW_UPDATE]
    assert [frame.stream_id for frame in updates] == [0]


def test_an_answer_that_overtakes_its_request_is_followed_by_a_reset_without_error() -> None:
    connection = _connection()
    stream = _open(connection)
    connection.out.end(stream, literal_block([(b":status", b"200")]))
    trailers, reset = output(connection)
    assert trailers.flags == frames.END_STREAM | frames.END_HEADERS
    assert (reset.kind, reset.payload) == (frames.RST_STREAM, bytes(4))
    assert stream.state == CLOSED
    # What was on its way is taken without complaint.
    assert connection.receive(data_frame(1, b"late", end=True), 0) == []
    assert connection.receive(headers_frame(1, [(b"late", b"1")], end=True), 0) == []
    assert output(connection) == []
    assert connection.lifecycle.terminated is None


def test_draining_serves_what_is_open_and_what_was_on_its_way() -> None:
    connection = _connection()
    stream = _open(connection)
    connection.lifecycle.drain(0)
    goaway, ping = output(connection)
    assert goaway.payload[:8] == b"\x7f\xff\xff\xff" + bytes(4)
    late = _open(connection, 3)
    connection.receive(frames.frame(frames.PING, frames.ACK, 0, ping.payload), 0)
    [final] = output(connection)
    assert final.payload[:4] == bytes((0, 0, 0, 3))
    assert connection.receive(headers_frame(5), 0) == []
    [refused] = output(connection)
    assert refused.payload == ErrorCode.REFUSED_STREAM.to_bytes(4, "big")
    for open_stream in (stream, late):
        assert not connection.drained
        connection.reset(open_stream, ErrorCode.CANCEL)
    assert connection.drained


def test_draining_does_not_wait_for_a_peer_that_answers_no_ping() -> None:
    connection = _connection()
    connection.lifecycle.drain(0)
    assert not connection.drained
    connection.on_time(1 * S)
    assert connection.drained


def test_a_peer_without_preface_is_dropped() -> None:
    connection = _connection(start=False)
    connection.receive(frames.PREFACE[:10], 0)
    connection.on_time(9 * S)
    assert connection.lifecycle.terminated is None
    connection.on_time(10 * S)
    assert error_code(connection) == ErrorCode.SETTINGS_TIMEOUT


def test_an_idle_connection_is_drained_but_not_one_with_a_call() -> None:
    connection = _connection(Http2Limits(idle_timeout_ns=5 * S))
    stream = _open(connection)
    connection.on_time(60 * S)
    assert output(connection) == []
    connection.reset(stream, ErrorCode.CANCEL)
    output(connection)
    connection.on_time(61 * S)
    connection.on_time(62 * S)
    assert connection.drained


def test_a_reset_by_the_peer_ends_the_stream() -> None:
    connection = _connection()
    stream = _open(connection)
    connection.out.enqueue(stream, [bytes(100_000)])
    [event] = connection.receive(frames.rst_stream(1, ErrorCode.CANCEL), 0)
    assert isinstance(event, StreamReset)
    assert event.code == ErrorCode.CANCEL
    assert connection.out.queued_bytes == 0
    assert connection.streams == {}


def test_data_in_one_small_frame_is_bytes() -> None:
    connection = _connection()
    _open(connection)
    [event] = connection.receive(data_frame(1, grpc_message(b"x"), end=True), 0)
    assert isinstance(event, DataReceived)
    assert type(event.data) is bytes


@pytest.mark.parametrize(
    "limits",
    [
        {"stream_window_bytes": 1000},
        {"connection_window_bytes": 1000},
        {"max_frame_bytes": 1000},
        {"max_frame_bytes": 1 << 24},
    ],
)
def test_limits_outside_of_the_protocol_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="bytes"):
        Http2Limits(**limits)
