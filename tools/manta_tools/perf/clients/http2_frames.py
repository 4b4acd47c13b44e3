# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Frames of HTTP/2 as a gRPC client writes and reads them (RFC 9113, RFC 7541). Pure.

Our header blocks use no table, so they are the same bytes for every call. We tell servers to use
none either, so theirs mean the same on every connection, and each is decoded once.
"""

import logging
import struct
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from hpack import Decoder
from hpack.exceptions import HPACKError

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0x0, 0x1, 0x3, 0x4, 0x6, 0x7, 0x8, 0x9,
)  # fmt: skip
# An error's code: the stream was not begun.
REFUSED_STREAM: Final = 0x7
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY: Final = 0x20

MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 0x3, 0x4, 0x5
_HEADER_TABLE_SIZE: Final = 0x1
_ENABLE_PUSH: Final = 0x2

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DEFAULT_WINDOW: Final = 65_535
LARGEST_WINDOW: Final = 2**31 - 1
DEFAULT_FRAME_BYTES: Final = 16_384
FRAME_HEAD_BYTES: Final = 9
MESSAGE_HEAD_BYTES: Final = 5

# hpack logs every header, keys included, at DEBUG.
logging.getLogger("hpack").setLevel(logging.INFO)

_KNOWN_BLOCKS: Final = 256
_PREFIX_MAX: Final = 127
_UNKNOWN_STATUS: Final = 2


def frame(kind: int, flags: int, stream_id: int, payload: bytes | memoryview = b"") -> bytes:
    """Return a frame."""
    length = len(payload)
    return struct.pack(">BHBBI", length >> 16, length & 0xFFFF, kind, flags, stream_id) + payload


def checked_length(length: int) -> int:
    """Return the length of a frame's payload.

    Raises:
        ValueError: It is longer than we allow, as the text of another protocol would be.
    """
    if length > DEFAULT_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes: the server speaks no HTTP/2")
    return length


def opening() -> bytes:
    """Return what a client sends first: windows as large as they can be, and no header table."""
    settings = struct.pack(
        ">HIHIHI", _HEADER_TABLE_SIZE, 0, _ENABLE_PUSH, 0, INITIAL_WINDOW_SIZE, LARGEST_WINDOW
    )
    return (
        PREFACE
        + frame(SETTINGS, 0, 0, settings)
        + window_update(0, LARGEST_WINDOW - DEFAULT_WINDOW)
    )


def window_update(stream_id: int, count: int) -> bytes:
    """Return a frame that lets the peer send so many bytes more."""
    return frame(WINDOW_UPDATE, 0, stream_id, struct.pack(">I", count))


def read_settings(payload: bytes) -> dict[int, int]:
    """Return the settings of a frame."""
    whole = len(payload) // 6 * 6
    return dict(struct.iter_unpack(">HI", payload[:whole]))


def header_block(fields: Iterable[tuple[str, str]]) -> bytes:
    """Encode fields, none of which enters a table."""
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields)


def _text(text: str) -> bytes:
    raw = text.encode()
    return _length(len(raw)) + raw


def _length(length: int) -> bytes:
    """Return an integer with a prefix of seven bits (RFC 7541, 5.1)."""
    if length < _PREFIX_MAX:
        return bytes((length,))
    found = bytearray((_PREFIX_MAX,))
    length -= _PREFIX_MAX
    while length > 0x7F:  # noqa: PLR2004 - seven bits in a byte
        found.append(length & 0x7F | 0x80)
        length >>= 7
    found.append(length)
    return bytes(found)


class HeaderReader:
    """Reads header blocks of a server; what it has seen it remembers."""

    def __init__(self) -> None:
        self._known: dict[bytes, dict[str, str]] = {}

    def read(self, block: bytes) -> dict[str, str]:
        """Return the fields of a block.

        Raises:
            ValueError: It is none, or it uses a table although it may not.
        """
        known = self._known.get(block)
        if known is None:
            try:
                fields = Decoder().decode(block)
            except HPACKError as error:
                raise ValueError(f"the server's headers cannot be read: {error}") from None
            known = {_string(field[0]): _string(field[1]) for field in fields}
            if len(self._known) < _KNOWN_BLOCKS:
                self._known[block] = known
        return known


def _string(text: str | bytes) -> str:
    return text.decode("latin-1") if isinstance(text, bytes) else text


def status_of(fields: dict[str, str]) -> tuple[int, str] | None:
    """Return gRPC's status and message; None of headers that are not the last ones."""
    if "grpc-status" in fields:
        text = fields["grpc-status"]
        status = int(text) if text.isdecimal() else _UNKNOWN_STATUS
        return status, unquote(fields.get("grpc-message", ""))
    http = fields.get(":status", "200")
    return None if http == "200" else (_UNKNOWN_STATUS, f"the server answered HTTP {http}")


def message(raw: bytes, *, is_compressed: bool = False) -> bytes:
    """Return a message with gRPC's head before it."""
    return struct.pack(">BI", is_compressed, len(raw)) + raw


def unpadded(kind: int, flags: int, payload: bytes) -> bytes:
    """Return a payload of DATA or HEADERS without padding and priority."""
    start, end = 0, len(payload)
    if flags & PADDED and payload:
        start, end = 1, end - payload[0]
    if kind == HEADERS and flags & PRIORITY:
        start += 5
    return payload[start:end]
