# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from deployments.http2 import frames
from deployments.http2.limits import Http2Limits
from deployments.http2.outbound import LARGE_BYTES, Outbound
from deployments.http2.streams import HALF_CLOSED_REMOTE, Stream
from tests.support.http2_peer import parse_frames


def _outbound(**limits: int) -> Outbound:
    out = Outbound(Http2Limits(**limits), lambda _: None)
    out.window = 1 << 30
    return out


def _stream(stream_id: int, window: int = 1 << 30) -> Stream:
    return Stream(stream_id, HALF_CLOSED_REMOTE, window, 0)


def _drain(out: Outbound) -> bytes:
    data = b""
    while out.pending:
        data += b"".join(out.take())
    return data


@given(
    st.lists(st.lists(st.binary(max_size=40_000), min_size=1, max_size=4), max_size=4),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 50_000)), max_size=30),
)
def test_whatever_the_windows_all_data_arrives_in_order_and_never_beyond_them(
    messages: list[list[bytes]], updates: list[tuple[int, int]]
) -> None:
    out = _outbound()
    out.window = 1000
    streams = [_stream(2 * number + 1, 500) for number in range(len(messages))]
    granted = [500] * len(streams)
    granted_total = 1000
    for stream, buffers in zip(streams, messages, strict=True):
        out.enqueue(stream, buffers)
        out.end(stream, b"end")
    data = _drain(out)
    for number, increment in [*updates, *((n, 1 << 20) for n in range(5))]:
        if number < len(streams):
            out.widen(streams[number], increment)
            granted[number] += increment
        else:
            out.window += increment
            granted_total += increment
        data += _drain(out)
        got = [0] * len(streams)
        for frame in parse_frames(data):
            if frame.kind == frames.DATA:
                got[frame.stream_id // 2] += len(frame.payload)
                assert len(frame.payload) <= 16_384
        assert sum(got) <= granted_total
        assert all(have <= may for have, may in zip(got, granted, strict=True))
    for number, buffers in enumerate(messages):
        mine = [frame for frame in parse_frames(data) if frame.stream_id == 2 * number + 1]
        assert b"".join(f.payload for f in mine if f.kind == frames.DATA) == b"".join(buffers)
        assert mine[-1].payload == b"end"
        assert [f.flags & frames.END_STREAM for f in mine] == [0] * (len(mine) - 1) + [1]
    assert out.queued_bytes == 0


def test_streams_take_turns() -> None:
    out = _outbound()
    large, small = _stream(1), _stream(3)
    out.enqueue(large, [bytes(1_000_000)])
    out.enqueue(small, [bytes(20_000)])
    order = [frame.stream_id for frame in parse_frames(_drain(out))]
    assert order[:5] == [1, 3, 1, 3, 1]


def test_a_stream_without_window_does_not_hold_up_the_others() -> None:
    out = _outbound()
    stuck, free = _stream(1, 0), _stream(3)
    out.enqueue(stuck, [b"stuck"])
    out.enqueue(free, [b"free"])
    assert [frame.stream_id for frame in parse_frames(_drain(out))] == [3]
    out.widen(stuck, 10)
    assert [frame.stream_id for frame in parse_frames(_drain(out))] == [1]


def test_nothing_leaves_the_queue_while_the_transport_is_full() -> None:
    out = _outbound()
    stream = _stream(1)
    out.blocked = True
    assert not out.reserve(stream, 10)
    out.enqueue(stream, [b"0123456789"])
    assert not out.pending
    out.blocked = False
    assert len(parse_frames(_drain(out))) == 1


def test_data_does_not_overtake_what_is_queued() -> None:
    out = _outbound()
    waiting, other = _stream(1), _stream(3)
    out.enqueue(waiting, [b"first"])
    assert not out.reserve(waiting, 1)
    assert not out.reserve(other, 1)
    _drain(out)
    assert out.reserve(waiting, 1)


def test_a_burst_is_bounded() -> None:
    out = _outbound(write_burst_bytes=50_000)
    out.enqueue(_stream(1), [bytes(1_000_000)])
    assert sum(map(len, out.take())) < 100_000


def test_large_buffers_are_not_copied_and_small_ones_are_joined() -> None:
    out = _outbound()
    out.set_peer_frame_bytes(1 << 20)
    stream = _stream(1)
    large = bytearray(2 * LARGE_BYTES)
    out.enqueue(stream, [b"prefix", large, b"tail"])
    out.end(stream, b"end")
    head, body, tail = out.take()
    assert isinstance(body, memoryview)
    assert body.obj is large
    assert bytes(head).endswith(b"prefix")
    assert bytes(tail).startswith(b"tail")


def test_discarding_a_stream_forgets_its_data() -> None:
    out = _outbound()
    stream = _stream(1)
    out.enqueue(stream, [bytes(100)])
    out.discard(stream)
    assert out.queued_bytes == 0
    assert _drain(out) == b""
