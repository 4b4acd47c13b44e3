# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Header blocks put together from HEADERS and CONTINUATION frames."""

from collections.abc import Callable

from deployments.http2 import frames
from deployments.http2.errors import ConnectionViolation, ErrorCode
from deployments.http2.inbound import Http2FrameReader


class HeaderFrames:
    """The handlers of one connection's HEADERS and CONTINUATION frames.

    Args:
        on_block: Takes a complete block: (stream id, block, whether the stream ends with it).
        max_block_bytes: The bound of a block.
        max_continuation_frames: The bound of its frames behind the first.

    Attributes:
        reader: Cuts the frames; told while a block is incomplete. Set before the first frame.
    """

    __slots__ = (
        "_ended",
        "_fragments",
        "_max_block_bytes",
        "_max_continuation_frames",
        "_on_block",
        "reader",
    )

    reader: Http2FrameReader

    def __init__(
        self,
        on_block: Callable[[int, bytes, bool], None],
        max_block_bytes: int,
        max_continuation_frames: int,
    ) -> None:
        self._on_block = on_block
        self._max_block_bytes = max_block_bytes
        self._max_continuation_frames = max_continuation_frames
        # The block that is being received.
        self._fragments: list[bytes] = []
        self._ended = False

    def on_headers(self, data: bytes, start: int, end: int, flags: int, stream_id: int) -> None:
        """Take a block, or its beginning."""
        if not stream_id & 1:
            raise ConnectionViolation(
                ErrorCode.PROTOCOL_ERROR, f"HEADERS for stream {stream_id}: a client's ids are odd"
            )
        if flags & (frames.PADDED | frames.PRIORITY_FLAG):
            fragment = frames.header_fragment(data, start, end, flags)
        else:
            fragment = data[start:end]
        ended = bool(flags & frames.END_STREAM)
        if flags & frames.END_HEADERS:
            self._on_block(stream_id, fragment, ended)
        else:
            self.reader.block_stream_id = stream_id
            self._fragments = [fragment]
            self._ended = ended

    def on_continuation(
        self, data: bytes, start: int, end: int, flags: int, stream_id: int
    ) -> None:
        """Take a further part of a block."""
        if not self.reader.block_stream_id:
            raise ConnectionViolation(
                ErrorCode.PROTOCOL_ERROR, "CONTINUATION frame outside a header block"
            )
        fragments = self._fragments
        fragments.append(data[start:end])
        if (
            len(fragments) > self._max_continuation_frames + 1
            or sum(map(len, fragments)) > self._max_block_bytes
        ):
            raise ConnectionViolation(
                ErrorCode.ENHANCE_YOUR_CALM,
                f"header block of over {self._max_continuation_frames} CONTINUATION frames"
                f" or {self._max_block_bytes} bytes",
            )
        if flags & frames.END_HEADERS:
            self.reader.block_stream_id = 0
            self._fragments = []
            self._on_block(stream_id, b"".join(fragments), self._ended)
