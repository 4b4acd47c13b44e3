# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deployments.lane.frames import (
    INFER,
    LAST_KIND,
    PREFIX,
    PREFIX_BYTES,
    Frame,
    FrameError,
    FrameReader,
)
from tests.support.examples import examples

frames_strategy = st.lists(
    st.tuples(
        st.integers(1, LAST_KIND),
        st.integers(0, 3),
        st.integers(0, 0xFFFFFFFF),
        st.binary(max_size=60),
        st.binary(max_size=90),
    ),
    max_size=8,
)


def stream_of(rows):
    return b"".join(
        PREFIX.pack(kind, flags, frame_id, len(message), len(tail)) + message + tail
        for kind, flags, frame_id, message, tail in rows
    )


def rows_of(frames: list[Frame]):
    return [(f.kind, f.flags, f.request_id, bytes(f.message), bytes(f.tail)) for f in frames]


def pieces_of(stream: bytes, size: int) -> list[bytes]:
    return [stream[i : i + size] for i in range(0, len(stream), size)]


@pytest.mark.parametrize("size", [1, 10, 19, 21, 1000])
@given(rows=frames_strategy)
@settings(max_examples=examples(40))
def test_frames_do_not_depend_on_the_size_of_the_pieces(size, rows):
    reader = FrameReader()
    frames = [frame for piece in pieces_of(stream_of(rows), size) for frame in reader.feed(piece)]
    assert rows_of(frames) == rows


@given(rows=frames_strategy, data=st.data())
@settings(max_examples=examples(80))
def test_frames_do_not_depend_on_where_the_stream_is_cut(rows, data):
    stream = stream_of(rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reader = FrameReader()
    frames = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        frames += reader.feed(stream[start:end])
    assert rows_of(frames) == rows


@given(rows=frames_strategy, lost=st.integers(1, 40))
@settings(max_examples=examples(40))
def test_a_truncated_stream_yields_only_the_whole_frames(rows, lost):
    stream = stream_of(rows)[:-lost]
    frames = rows_of(FrameReader().feed(stream))
    assert frames == rows[: len(frames)]
    assert len(stream_of(rows[: len(frames) + 1])) > len(stream) or len(frames) == len(rows)


ACCEPTED = [(1, 0, 7, b"m" * 100, b""), (LAST_KIND, 3, 8, b"", b"t" * 100)]


@given(st.lists(st.binary(max_size=80), max_size=6))
@example(pieces_of(stream_of(ACCEPTED), 80))
@settings(max_examples=examples(150))
def test_arbitrary_bytes_yield_frames_or_a_frame_error(pieces):
    reader = FrameReader(max_message_bytes=100, max_tail_bytes=100)
    frames = []
    is_accepted = b"".join(pieces) == stream_of(ACCEPTED)
    try:
        for piece in pieces:
            for frame in reader.feed(piece):
                assert len(frame.message) <= 100
                assert len(frame.tail) <= 100
                frames.append(frame)
    except FrameError:
        assert not is_accepted
    assert not is_accepted or rows_of(frames) == ACCEPTED


@pytest.mark.parametrize("size", [1, PREFIX_BYTES, 4096])
@pytest.mark.parametrize(
    "fields",
    [
        (0, 0, 1, 0, 0),
        (LAST_KIND + 1, 0, 1, 0, 0),
        (INFER, 4, 1, 0, 0),
        (INFER, 0, 1, 1001, 0),
        (INFER, 0, 1, 0xFFFFFFFF, 0),
        (INFER, 0, 1, 0, 2001),
        (INFER, 0, 1, 0, 2**64 - 1),
    ],
    ids=["kind_0", "kind_unknown", "flags", "message", "message_max", "tail", "tail_max"],
)
def test_a_prefix_out_of_bounds_is_a_frame_error(fields, size):
    reader = FrameReader(max_message_bytes=1000, max_tail_bytes=2000)
    *first, last = pieces_of(PREFIX.pack(*fields), size)
    for piece in first:
        assert reader.feed(piece) == []
    with pytest.raises(FrameError, match="at most 1000 and 2000 bytes"):
        reader.feed(last)


def test_memory_follows_what_arrived_not_what_was_announced():
    reader = FrameReader()
    tracemalloc.start()
    reader.feed(PREFIX.pack(INFER, 0, 1, 60 << 20, 8 << 30) + bytes(1000))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 100_000


def test_views_stay_valid_while_later_pieces_arrive():
    row = (INFER, 0, 1, b"message", bytes(range(256)) * 100)
    stream = stream_of([row, row])
    reader = FrameReader()
    frames = [frame for piece in pieces_of(stream, 777) for frame in reader.feed(piece)]
    assert rows_of(frames) == [row, row]
    assert all(frame.tail.readonly and frame.message.readonly for frame in frames)


def test_a_frame_that_arrives_whole_is_not_copied():
    stream = stream_of([(INFER, 0, 1, b"message", b"tail")])
    (frame,) = FrameReader().feed(stream)
    assert frame.message.obj is stream
    assert frame.tail.obj is stream
