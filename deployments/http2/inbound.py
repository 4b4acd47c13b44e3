# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Cuts the bytes of a connection into frames, whatever pieces they come in.

The payload of a DATA frame is passed on as it arrives, so neither our frame size nor the peer's
makes us hold or copy it; all other frames are short and wait until they are complete.
"""

from collections.abc import Callable, Sequence
from typing import Final

from deployments.http2 import frames
from deployments.http2.errors import ConnectionViolation, ErrorCode

# (data, start, end, flags, stream id): the payload is data[start:end]; of a DATA frame the end may
# lie beyond the data.
FrameHandler = Callable[[bytes, int, int, int, int], None]

_STREAM_ID_MASK: Final = 0x7FFF_FFFF
_unpack_header = frames.HEADER.unpack_from


class FrameReader:
    """The frame layer of one connection's receiving half.

    Args:
        handlers: By frame type; types beyond are given to the last one.
        resume: Takes a further piece of the DATA payload that was cut: (piece, is last).
        max_frame_bytes: What we announced as SETTINGS_MAX_FRAME_SIZE.
        max_other_bytes: The bound for frames that are held until they are complete.

    Attributes:
        block_stream_id: The stream whose header block is incomplete, or 0. Only CONTINUATION may
            follow then.
    """

    __slots__ = (
        "_data_left",
        "_first",
        "_handlers",
        "_max_frame_bytes",
        "_max_other_bytes",
        "_padding_left",
        "_preface",
        "_resume",
        "_tail",
        "block_stream_id",
    )

    def __init__(
        self,
        handlers: Sequence[FrameHandler],
        resume: Callable[[bytes | memoryview, bool], None],
        max_frame_bytes: int,
        max_other_bytes: int,
    ) -> None:
        self._handlers = tuple(handlers)
        self._resume = resume
        self._max_frame_bytes = max_frame_bytes
        self._max_other_bytes = max_other_bytes
        self._preface = frames.PREFACE
        self._first = True
        self._tail = b""
        self._data_left = 0
        self._padding_left = 0
        self.block_stream_id = 0

    def feed(self, data: bytes) -> None:
        """Take a read; the handlers are called for what it completes.

        Raises:
            ConnectionViolation: The bytes are not HTTP/2, or a handler objects.
        """
        if self._tail:
            data = self._tail + data
            self._tail = b""
        position = 0
        if self._preface:
            position = self._read_preface(data)
        if self._data_left or self._padding_left:
            position = self._read_rest(data, position)
        position = self._read_frames(data, position)
        if position < len(data):
            self._tail = data[position:]

    def cut_data(self, data_left: int, padding_left: int) -> None:
        """Tell that a DATA frame goes on in the next read. Called by its handler."""
        self._data_left = data_left
        self._padding_left = padding_left

    def _read_preface(self, data: bytes) -> int:
        preface = self._preface
        size = min(len(preface), len(data))
        if data[:size] != preface[:size]:
            raise ConnectionViolation(
                ErrorCode.PROTOCOL_ERROR, "no HTTP/2 preface: this port speaks gRPC over HTTP/2"
            )
        self._preface = preface[size:]
        return size

    def _read_rest(self, data: bytes, position: int) -> int:
        """Pass on what belongs to a DATA frame of an earlier read."""
        size = len(data)
        if self._data_left and position < size:
            end = min(size, position + self._data_left)
            self._data_left -= end - position
            self._resume(memoryview(data)[position:end], not self._data_left)
            position = end
        if not self._data_left:
            end = min(size, position + self._padding_left)
            self._padding_left -= end - position
            position = end
        return position

    def _read_frames(self, data: bytes, position: int) -> int:
        size = len(data)
        handlers = self._handlers
        while size - position >= frames.HEADER_BYTES:
            word, flags, stream_id = _unpack_header(data, position)
            kind = word & 0xFF
            start = position + frames.HEADER_BYTES
            end = start + (word >> 8)
            if self._first or self.block_stream_id or word >> 8 > self._max_other_bytes:
                self._check(kind, flags, word >> 8, stream_id & _STREAM_ID_MASK)
            if end > size and (kind != frames.DATA or (flags & frames.PADDED and start == size)):
                break
            handlers[kind if kind < len(handlers) else -1](
                data, start, end, flags, stream_id & _STREAM_ID_MASK
            )
            self._first = False
            position = min(end, size)
        return position

    def _check(self, kind: int, flags: int, size: int, stream_id: int) -> None:
        if self._first:
            if kind != frames.SETTINGS or flags & frames.ACK:
                raise ConnectionViolation(
                    ErrorCode.PROTOCOL_ERROR, f"first frame of type {kind}, expected SETTINGS"
                )
        elif self.block_stream_id and (
            kind != frames.CONTINUATION or stream_id != self.block_stream_id
        ):
            raise ConnectionViolation(
                ErrorCode.PROTOCOL_ERROR,
                f"frame of type {kind} within a header block, expected CONTINUATION",
            )
        limit = self._max_frame_bytes if kind == frames.DATA else self._max_other_bytes
        if size > limit:
            raise ConnectionViolation(
                ErrorCode.FRAME_SIZE_ERROR,
                f"frame of type {kind} with {size} bytes, the limit is {limit}",
            )
