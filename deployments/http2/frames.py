# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The HTTP/2 frame codec (RFC 9113 section 4 and 6): constants, encoders, payload checks.

A frame header is packed as three numbers, ``>IBI``: length and type share the first.
"""

import struct
from typing import Final

from deployments.http2.errors import ConnectionViolation, ErrorCode

# What may be sent.
Buffer = bytes | bytearray | memoryview

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER: Final[struct.Struct] = struct.Struct(">IBI")
HEADER_BYTES: Final = 9

DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

# Flags; ACK and END_STREAM share a bit.
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY_FLAG: Final = 0x20

HEADER_TABLE_SIZE: Final = 0x1
ENABLE_PUSH: Final = 0x2
MAX_CONCURRENT_STREAMS: Final = 0x3
INITIAL_WINDOW_SIZE: Final = 0x4
MAX_FRAME_SIZE: Final = 0x5
MAX_HEADER_LIST_SIZE: Final = 0x6

DEFAULT_HEADER_TABLE_BYTES: Final = 4096
DEFAULT_WINDOW_BYTES: Final = 65_535
MAX_WINDOW_BYTES: Final = (1 << 31) - 1
MIN_MAX_FRAME_BYTES: Final = 1 << 14
MAX_MAX_FRAME_BYTES: Final = (1 << 24) - 1
MAX_STREAM_ID: Final = (1 << 31) - 1

_U32 = struct.Struct(">I")
_SETTING = struct.Struct(">HI")
_FRAME_U32 = struct.Struct(">IBII")
_GOAWAY = struct.Struct(">IBIII")
_MAX_DEBUG_BYTES = 256


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Encode a frame of any type."""
    return HEADER.pack(len(payload) << 8 | kind, flags, stream_id) + payload


def settings(values: dict[int, int]) -> bytes:
    """Encode a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*item) for item in values.items()))


def window_update(stream_id: int, increment: int) -> bytes:
    """Encode a WINDOW_UPDATE frame."""
    return _FRAME_U32.pack(4 << 8 | WINDOW_UPDATE, 0, stream_id, increment)


def rst_stream(stream_id: int, code: int) -> bytes:
    """Encode a RST_STREAM frame."""
    return _FRAME_U32.pack(4 << 8 | RST_STREAM, 0, stream_id, code)


def goaway(last_stream_id: int, code: int, debug: str = "") -> bytes:
    """Encode a GOAWAY frame; ``debug`` is for the reader of a packet dump or a client's log."""
    text = debug.encode()[:_MAX_DEBUG_BYTES]
    return _GOAWAY.pack((8 + len(text)) << 8 | GOAWAY, 0, 0, last_stream_id, code) + text


def read_u32(data: bytes, start: int, end: int, name: str) -> int:
    """Return the payload of a frame that is one 32-bit number.

    Raises:
        ConnectionViolation: The payload has another size.
    """
    if end - start != _U32.size:
        raise ConnectionViolation(
            ErrorCode.FRAME_SIZE_ERROR, f"{name} frame of {end - start} bytes, expected 4"
        )
    number: int = _U32.unpack_from(data, start)[0]
    return number


def read_settings(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Return the (identifier, value) pairs of a SETTINGS payload, in order.

    Raises:
        ConnectionViolation: The payload is no multiple of six bytes.
    """
    if (end - start) % _SETTING.size:
        raise ConnectionViolation(
            ErrorCode.FRAME_SIZE_ERROR,
            f"SETTINGS frame of {end - start} bytes, expected a multiple of {_SETTING.size}",
        )
    return [_SETTING.unpack_from(data, at) for at in range(start, end, _SETTING.size)]


def unpad(data: bytes | memoryview, start: int, end: int) -> tuple[int, int]:
    """Return the bounds of a padded payload without its padding.

    ``end`` may lie beyond the data: only the length octet at ``start`` is read.

    Raises:
        ConnectionViolation: The padding is as long as the payload, or longer.
    """
    pad = data[start] if end > start else 0
    if pad >= end - start:
        raise ConnectionViolation(
            ErrorCode.PROTOCOL_ERROR, f"padding of {pad} bytes in a payload of {end - start}"
        )
    return start + 1, end - pad


def header_fragment(data: bytes, start: int, end: int, flags: int) -> bytes:
    """Return the header block fragment of a HEADERS payload; its priority fields are ignored.

    Raises:
        ConnectionViolation: Padding or priority fields do not fit.
    """
    if flags & PADDED:
        start, end = unpad(data, start, end)
    if flags & PRIORITY_FLAG:
        start += 5
        if start > end:
            raise ConnectionViolation(
                ErrorCode.FRAME_SIZE_ERROR, "HEADERS frame too short for its priority fields"
            )
    return data[start:end]
