# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.http2 import frames
from deployments.http2.errors import ConnectionViolation, ErrorCode
from tests.support.http2_peer import Frame, parse_frames

U31 = st.integers(0, (1 << 31) - 1)


@given(st.integers(0, 255), st.integers(0, 255), U31, st.binary(max_size=300))
def test_a_frame_of_any_type_survives_the_codec(
    kind: int, flags: int, stream_id: int, payload: bytes
) -> None:
    assert parse_frames(frames.frame(kind, flags, stream_id, payload)) == [
        Frame(kind, flags, stream_id, payload)
    ]


@given(U31, U31)
def test_number_frames_carry_their_number(stream_id: int, number: int) -> None:
    for encoded, kind in (
        (frames.window_update(stream_id, number), frames.WINDOW_UPDATE),
        (frames.rst_stream(stream_id, number), frames.RST_STREAM),
    ):
        [frame] = parse_frames(encoded)
        assert frame[:3] == (kind, 0, stream_id)
        assert frames.read_u32(frame.payload, 0, 4, "any") == number


@given(st.dictionaries(st.integers(0, 65535), st.integers(0, (1 << 32) - 1)))
def test_settings_survive_the_codec(values: dict[int, int]) -> None:
    [frame] = parse_frames(frames.settings(values))
    assert dict(frames.read_settings(frame.payload, 0, len(frame.payload))) == values


def test_goaway_carries_last_stream_code_and_a_bounded_text() -> None:
    [frame] = parse_frames(frames.goaway(7, ErrorCode.ENHANCE_YOUR_CALM, "x" * 10_000))
    assert frame.payload[:8] == bytes((0, 0, 0, 7, 0, 0, 0, 11))
    assert 0 < len(frame.payload) < 1000


@given(st.binary(max_size=50), st.integers(0, 255))
def test_padding_is_removed(payload: bytes, padding: int) -> None:
    data = b"before" + bytes((padding,)) + payload + bytes(padding)
    start, end = frames.unpad(data, 6, len(data))
    assert data[start:end] == payload


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x05abc"])
def test_padding_longer_than_the_payload_is_a_protocol_error(payload: bytes) -> None:
    with pytest.raises(ConnectionViolation) as caught:
        frames.unpad(payload, 0, len(payload))
    assert caught.value.code is ErrorCode.PROTOCOL_ERROR


def test_priority_fields_of_headers_are_skipped() -> None:
    flags = frames.PADDED | frames.PRIORITY_FLAG
    data = b"\x02" + b"prior" + b"block" + b"\0\0"
    assert frames.header_fragment(data, 0, len(data), flags) == b"block"


def test_headers_too_short_for_priority_fields_are_a_frame_size_error() -> None:
    with pytest.raises(ConnectionViolation) as caught:
        frames.header_fragment(b"abc", 0, 3, frames.PRIORITY_FLAG)
    assert caught.value.code is ErrorCode.FRAME_SIZE_ERROR
