# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a connection has to send: control frames at once, message data as the windows allow.

Message data that fits the windows goes straight to the output. Otherwise its buffers wait in the
stream, uncopied, and streams take turns of one frame each (`_ready`). A stream whose own window is
used up leaves the round until the peer opens it; when the connection's window is used up the round
stands still. While the transport is full (`blocked`) nothing leaves the queues, so what the
process holds for a slow reader is counted in `queued_bytes`.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from deployments.http2 import frames
from deployments.http2.frames import Buffer
from deployments.http2.limits import Http2Limits
from deployments.http2.streams import CLOSED, Stream
from deployments.supervision.memory_account import UNLIMITED_BYTES, MemoryAccount
from deployments.supervision.memory_budget import MemoryBudget

# From here on a write of its own is cheaper than a copy into the joined small ones.
LARGE_BYTES: Final = 32 << 10

# HPACK's dynamic table size update to 0 (RFC 7541 section 6.3).
_EMPTY_TABLE: Final = b"\x20"

_pack_header = frames.HEADER.pack


class Outbound:
    """The sending half of a connection.

    Args:
        limits: Bounds of frames and bursts.
        ended: Called when END_STREAM of a stream is in the output.
        budget: What queued data takes its memory from.

    Attributes:
        account: What of the budget the queued data, and the transport's, has.
        window: Bytes the peer lets the connection send.
        initial_window: What a new stream may send.
        frame_bytes: The largest DATA payload to send.
        queued_bytes: Message data that waits in streams.
        blocked: Set by the transport's owner while the transport is full.
        data_frames: DATA frames sent since the owner last set it to 0.
        shrinks_table: Whether the next header block has to say that our HPACK table is empty.
        ended: The callback above.
    """

    __slots__ = (
        "_burst_bytes",
        "_frames",
        "_has_large",
        "_max_frame_bytes",
        "_ready",
        "account",
        "blocked",
        "data_frames",
        "ended",
        "frame_bytes",
        "initial_window",
        "queued_bytes",
        "shrinks_table",
        "window",
    )

    def __init__(
        self,
        limits: Http2Limits,
        ended: Callable[[Stream], None],
        budget: MemoryBudget | None = None,
    ) -> None:
        self.ended = ended
        self.account = MemoryAccount(budget or MemoryBudget(UNLIMITED_BYTES))
        self._burst_bytes = limits.write_burst_bytes
        self._max_frame_bytes = limits.max_sent_frame_bytes
        self.window = frames.DEFAULT_WINDOW_BYTES
        self.initial_window = frames.DEFAULT_WINDOW_BYTES
        self.frame_bytes = min(frames.MIN_MAX_FRAME_BYTES, limits.max_sent_frame_bytes)
        self.queued_bytes = 0
        self.blocked = False
        self.data_frames = 0
        self.shrinks_table = False
        self._frames: list[Buffer] = []
        self._has_large = False
        self._ready: deque[Stream] = deque()

    @property
    def pending(self) -> bool:
        """Whether `take` has something to give."""
        return bool(self._frames) or (bool(self._ready) and self.window > 0 and not self.blocked)

    def set_peer_frame_bytes(self, size: int) -> None:
        """Apply the peer's SETTINGS_MAX_FRAME_SIZE."""
        self.frame_bytes = min(size, self._max_frame_bytes)

    def write(self, encoded: bytes) -> None:
        """Output encoded frames that need no window, or whose window is reserved."""
        self._frames.append(encoded)

    def write_large(self, buffers: Iterable[Buffer]) -> None:
        """Output reserved data without copying it."""
        self._has_large = True
        self._frames.extend(buffers)

    def reserve(self, stream: Stream, size: int) -> bool:
        """Take window for one DATA frame that may go out now; False when it has to queue."""
        if (
            size > self.window
            or size > stream.send_window
            or size > self.frame_bytes
            or self._ready
            or self.blocked
            or stream.queued_bytes
        ):
            return False
        self.window -= size
        stream.send_window -= size
        self.data_frames += 1
        return True

    def enqueue(self, stream: Stream, buffers: Iterable[Buffer]) -> bool:
        """Queue message data; the stream owns the buffers until they are sent.

        Returns:
            False when the memory budget refuses; nothing is queued then.
        """
        views = [view for buffer in buffers if len(view := memoryview(buffer).cast("B"))]
        added = sum(map(len, views))
        if not self.account.try_hold(added):
            return False
        if stream.queue is None:
            stream.queue = deque()
        stream.queue.extend(views)
        stream.queued_bytes += added
        self.queued_bytes += added
        self._make_ready(stream)
        return True

    def end(self, stream: Stream, block: bytes) -> None:
        """Send the trailers once the stream's data is out."""
        if stream.queued_bytes:
            stream.end_block = block
        else:
            self._write_end(stream, block)

    def discard(self, stream: Stream) -> None:
        """Forget a stream's queue."""
        self.account.let_go(stream.queued_bytes)
        self.queued_bytes -= stream.queued_bytes
        stream.queued_bytes = 0
        stream.queue = None
        stream.end_block = None

    def widen(self, stream: Stream, increment: int) -> None:
        """Add to (or, with the peer's settings, take from) a stream's window."""
        stream.send_window += increment
        if stream.queued_bytes:
            self._make_ready(stream)

    def take(self) -> list[Buffer]:
        """Return what to write now: small frames joined, large buffers by themselves."""
        if self._ready:
            self._pump()
        out = self._frames
        if not out:
            return out
        self._frames = []
        if self.shrinks_table:
            out = self._with_table_update(out)
        if not self._has_large:
            return [b"".join(out)]
        self._has_large = False
        return _joined(out)

    def _with_table_update(self, out: list[Buffer]) -> list[Buffer]:
        """Put a table size update of 0 into the first header block, if there is one."""
        data = b"".join(out)
        position = 0
        while position < len(data):
            word, flags, stream_id = frames.HEADER.unpack_from(data, position)
            block = position + frames.HEADER_BYTES
            if word & 0xFF == frames.HEADERS:
                self.shrinks_table = False
                head = _pack_header(word + (1 << 8), flags, stream_id)
                return [data[:position], head, _EMPTY_TABLE, data[block:]]
            position = block + (word >> 8)
        return [data]

    def _make_ready(self, stream: Stream) -> None:
        if stream.queued_bytes and stream.send_window > 0 and not stream.ready:
            stream.ready = True
            self._ready.append(stream)

    def _pump(self) -> None:
        ready = self._ready
        budget = self._burst_bytes
        while ready and self.window > 0 and budget > 0 and not self.blocked:
            stream = ready.popleft()
            stream.ready = False
            if not stream.queued_bytes or stream.send_window <= 0:
                continue
            budget -= self._send_frame(stream)
            if stream.queued_bytes:
                self._make_ready(stream)
            elif stream.end_block is not None and stream.state != CLOSED:
                self._write_end(stream, stream.end_block)

    def _send_frame(self, stream: Stream) -> int:
        queue = stream.queue
        size = min(self.window, stream.send_window, self.frame_bytes, stream.queued_bytes)
        out = self._frames
        out.append(_pack_header(size << 8 | frames.DATA, 0, stream.id))
        left = size
        while left and queue:
            view = queue[0]
            if len(view) <= left:
                queue.popleft()
            else:
                queue[0] = view[left:]
                view = view[:left]
            left -= len(view)
            if len(view) >= LARGE_BYTES:
                self._has_large = True
            out.append(view)
        self.data_frames += 1
        self.window -= size
        stream.send_window -= size
        stream.queued_bytes -= size
        self.queued_bytes -= size
        self.account.let_go(size)
        return size

    def _write_end(self, stream: Stream, block: bytes) -> None:
        flags = frames.END_STREAM | frames.END_HEADERS
        self._frames.append(_pack_header(len(block) << 8 | frames.HEADERS, flags, stream.id))
        self._frames.append(block)
        self.ended(stream)


def _joined(out: list[Buffer]) -> list[Buffer]:
    grouped: list[Buffer] = []
    run: list[Buffer] = []
    for buffer in out:
        if len(buffer) < LARGE_BYTES:
            run.append(buffer)
            continue
        if run:
            grouped.append(b"".join(run))
            run = []
        grouped.append(buffer)
    if run:
        grouped.append(b"".join(run))
    return grouped
