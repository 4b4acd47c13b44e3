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

# (data, start, end, flags, stream id): the payload is data[start:end].
FrameHandler = Callable[[bytes, int, int, int, int], None]
# The same for DATA, whose end may lie beyond the data, which may be a view.
DataHandler = Callable[[bytes | memoryview, int, int, int, int], None]

_STREAM_ID_MASK: Final = 0x7FFF_FFFF
_unpack_header = frames.HEADER.unpack_from
_HEADER_BYTES: Final = frames.HEADER_BYTES
_DATA: Final = frames.DATA
_KINDS: Final = 256


class Http2FrameReader:
    """The frame layer of one connection's receiving half.

    Args:
        on_data: Takes DATA frames.
        handlers: For the types from HEADERS on; types beyond are given to the last one.
        resume: Takes a further piece of the DATA payload that was cut: (piece, is last).
        max_frame_bytes: What we announced as SETTINGS_MAX_FRAME_SIZE.
        max_other_bytes: The bound for frames that are held until they are complete.

    Attributes:
        block_stream_id: The stream whose header block is incomplete, or 0. Only CONTINUATION may
            follow then.
        data_left: Bytes that a cut DATA frame still lacks.
    """

    __slots__ = (
        "_first",
        "_handlers",
        "_max_frame_bytes",
        "_max_other_bytes",
        "_on_data",
        "_padding_left",
        "_preface",
        "_resume",
        "_tail",
        "block_stream_id",
        "data_left",
    )

    def __init__(
        self,
        on_data: DataHandler,
        handlers: Sequence[FrameHandler],
        resume: Callable[[bytes | memoryview, bool], None],
        max_frame_bytes: int,
        max_other_bytes: int,
    ) -> None:
        self._on_data = on_data
        # One for each type there can be, so that none has to be checked; that of DATA is not used.
        last = handlers[-1]
        self._handlers = (last, *handlers, *(last,) * (_KINDS - len(handlers)))
        self._resume = resume
        self._max_frame_bytes = max_frame_bytes
        self._max_other_bytes = max_other_bytes
        self._preface = frames.PREFACE
        self._first = True
        self._tail = b""
        self.data_left = 0
        self._padding_left = 0
        self.block_stream_id = 0

    def feed(self, data: bytes | memoryview) -> None:
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
        if self.data_left or self._padding_left:
            position = self._read_rest(data, position)
        position = self._read_frames(data, position)
        if position < len(data):
            self._tail = bytes(data[position:])

    def cut_data(self, data_left: int, padding_left: int) -> None:
        """Tell that a DATA frame goes on in the next read. Called by its handler."""
        self.data_left = data_left
        self._padding_left = padding_left

    def _read_preface(self, data: bytes | memoryview) -> int:
        preface = self._preface
        size = min(len(preface), len(data))
        if data[:size] != preface[:size]:
            raise ConnectionViolation(
                ErrorCode.PROTOCOL_ERROR, "no HTTP/2 preface: this port speaks gRPC over HTTP/2"
            )
        self._preface = preface[size:]
        return size

    def _read_rest(self, data: bytes | memoryview, position: int) -> int:
        """Pass on what belongs to a DATA frame of an earlier read."""
        size = len(data)
        if self.data_left and position < size:
            end = min(size, position + self.data_left)
            self.data_left -= end - position
            self._resume(memoryview(data)[position:end], not self.data_left)
            position = end
        if not self.data_left:
            end = min(size, position + self._padding_left)
            self._padding_left -= end - position
            position = end
        return position

    def _read_frames(self, data: bytes | memoryview, position: int) -> int:
        size = len(data)
        last = size - _HEADER_BYTES
        handlers, on_data = self._handlers, self._on_data
        is_view = isinstance(data, memoryview)
        max_other_bytes = self._max_other_bytes
        while position <= last:
            word, flags, stream_id = _unpack_header(data, position)
            kind = word & 0xFF
            stream_id &= _STREAM_ID_MASK
            start = position + _HEADER_BYTES
            position = start + (word >> 8)
            if self._first or self.block_stream_id or position - start > max_other_bytes:
                self._check(kind, flags, position - start, stream_id)
            if kind == _DATA:
                if position > size and flags & frames.PADDED and start == size:
                    return start - _HEADER_BYTES
                on_data(data, start, position, flags, stream_id)
                position = min(position, size)
            elif position > size:
                return start - _HEADER_BYTES
            elif is_view:
                handlers[kind](bytes(data[start:position]), 0, position - start, flags, stream_id)
            else:
                handlers[kind](data, start, position, flags, stream_id)
            self._first = False
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
