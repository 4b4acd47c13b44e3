# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A client's connection of HTTP/2 with the calls of gRPC on it.

A unary call costs 20 us in Python, and about 40 us with the kernel's part. With grpcio's asyncio it
cost more than twice of what it did with this.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Final, cast

from manta_tools.perf.clients import http2_frames as h2

OK: Final = 0
UNAVAILABLE: Final = 14
UNIMPLEMENTED: Final = 12
# Windows are given back when so much of them is used.
_REFILL_BYTES: Final = 1 << 30
# How often a call may be refused: a refused call was not begun, so it is sent again.
_MOST_REFUSALS: Final = 100
_STREAM_BITS: Final = 0x7FFFFFFF


class Call:
    """One call: unary, or a stream of messages both ways."""

    __slots__ = (
        "buffer",
        "consumed",
        "first_ns",
        "id",
        "on_end",
        "on_message",
        "outgoing",
        "refusals",
        "request",
        "window",
    )

    def __init__(
        self, on_message: Callable[["Call", bytes], None], on_end: Callable[[int, str], None]
    ) -> None:
        """Make a call.

        Args:
            on_message: Called with each message.
            on_end: Called with gRPC's status and its text.
        """
        self.on_message, self.on_end = on_message, on_end
        self.id = self.window = self.consumed = self.first_ns = self.refusals = 0
        # Headers and message of a unary call, which may be sent again when it was refused.
        self.request: tuple[bytes, bytes] | None = None
        self.buffer = bytearray()
        # What waits for the peer's window: bytes, and whether they are the last ones.
        self.outgoing: list[tuple[memoryview, bool]] = []


class Http2Connection(asyncio.Protocol):
    """A connection to a gRPC server."""

    def __init__(
        self,
        clock: Callable[[], int],
        reader: h2.HeaderReader,
        on_free: Callable[[], None],
        on_refused: Callable[[Call], None],
    ) -> None:
        """Make a connection.

        Args:
            clock: The time, in nanoseconds.
            reader: Reads header blocks.
            on_free: Called when a call has ended, so that there is room for another.
            on_refused: Called with a unary call that the server had no room for.
        """
        self._clock, self._reader = clock, reader
        self._on_free, self._on_refused = on_free, on_refused
        self._is_full = False
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, Call] = {}
        self._next_id = 1
        self._buffer = bytearray()
        self._block = b""
        self._block_flags = 0
        self._window, self._consumed = h2.DEFAULT_WINDOW, 0
        self._stream_window, self._frame_bytes = h2.DEFAULT_WINDOW, h2.DEFAULT_FRAME_BYTES
        self._max_streams = 100
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reason = ""

    @property
    def has_room(self) -> bool:
        """Whether another call can begin."""
        # A server may count a call for a moment after it has answered it.
        is_full = self._is_full and self._calls
        return not self._reason and not is_full and len(self._calls) < self._max_streams

    @property
    def is_closed(self) -> bool:
        """Whether no call can begin any more."""
        return bool(self._reason)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with the preface and our settings."""
        # Those of uvloop are not derived from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(h2.opening())

    def connection_lost(self, exc: Exception | None) -> None:
        """End all calls."""
        self._reason = self._reason or f"the connection was closed: {exc or 'by the server'}"
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(self._reason))
        for call_id in list(self._calls):
            self._end(call_id, UNAVAILABLE, self._reason)
        self._on_free()

    def close(self) -> None:
        """Close the connection; calls under way end."""
        self._reason = self._reason or "the client closed the connection"
        if self._transport is not None:
            self._transport.close()

    def begin(self, call: Call, block: bytes, body: bytes, *, is_last: bool) -> None:
        """Begin a call.

        Args:
            call: The call.
            block: Its headers.
            body: Its first message, with gRPC's head; may be empty.
            is_last: Whether no other follows.
        """
        call.id, self._next_id = self._next_id, self._next_id + 2
        if call.id > _STREAM_BITS - 2:
            self._reason = "the connection has used up its streams"
        call.window = self._stream_window
        self._calls[call.id] = call
        start = h2.frame(h2.HEADERS, h2.END_HEADERS, call.id, block)
        if body or is_last:
            self.send(call, body, is_last=is_last, start=start)
        else:
            self._write(start)

    def send(self, call: Call, data: bytes, *, is_last: bool = False, start: bytes = b"") -> None:
        """Send a message of a call, after what is given as its start; it waits for its window."""
        size = len(data)
        room = min(self._window, call.window, self._frame_bytes)
        if call.outgoing or size > room:
            self._write(start)
            call.outgoing.append((memoryview(data), is_last))
            self._flush(call)
            return
        self._window -= size
        call.window -= size
        self._write(start + h2.frame(h2.DATA, is_last, call.id, data))

    def reset(self, call: Call) -> None:
        """Give a call up."""
        if self._calls.pop(call.id, None) is not None:
            self._write(h2.frame(h2.RST_STREAM, 0, call.id, struct.pack(">I", 8)))

    def data_received(self, data: bytes) -> None:
        """Take all frames that are complete."""
        self._buffer += data
        buffer = self._buffer
        start, end = 0, len(buffer)
        try:
            while end - start >= h2.FRAME_HEAD_BYTES:
                high, low, kind, flags, stream_id = struct.unpack_from(">BHBBI", buffer, start)
                body, length = start + h2.FRAME_HEAD_BYTES, h2.checked_length(high << 16 | low)
                if end - body < length:
                    break
                start = body + length
                self._take(kind, flags, stream_id & _STREAM_BITS, bytes(buffer[body:start]))
        except (ValueError, struct.error) as error:
            self._reason = str(error)
            self.close()
        del buffer[:start]

    def _take(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == h2.DATA:
            self._take_data(flags, stream_id, payload)
        elif kind in (h2.HEADERS, h2.CONTINUATION):
            self._take_headers(kind, flags, stream_id, payload)
        elif kind == h2.SETTINGS:
            if not flags & h2.ACK:
                self._take_settings(h2.read_settings(payload))
        elif kind == h2.WINDOW_UPDATE:
            self._take_window(stream_id, struct.unpack(">I", payload)[0] & _STREAM_BITS)
        elif kind == h2.PING:
            if not flags & h2.ACK:
                self._write(h2.frame(h2.PING, h2.ACK, 0, payload))
        elif kind == h2.RST_STREAM:
            self._take_reset(stream_id, struct.unpack(">I", payload)[0])
        elif kind == h2.GOAWAY:
            self._take_goaway(payload)

    def _take_reset(self, stream_id: int, code: int) -> None:
        call = self._calls.get(stream_id)
        is_refused = code == h2.REFUSED_STREAM and call is not None and call.request is not None
        if call is None or not is_refused or call.refusals >= _MOST_REFUSALS:
            self._end(stream_id, UNAVAILABLE, f"the server reset the call with code {code}")
            return
        del self._calls[stream_id]
        call.refusals += 1
        call.outgoing.clear()
        self._is_full = True
        self._on_refused(call)

    def _take_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        self._consumed += len(payload)
        if self._consumed >= _REFILL_BYTES:
            self._write(h2.window_update(0, self._consumed))
            self._consumed = 0
        call = self._calls.get(stream_id)
        if call is None:
            return
        call.consumed += len(payload)
        if call.consumed >= _REFILL_BYTES:
            self._write(h2.window_update(stream_id, call.consumed))
            call.consumed = 0
        if not call.first_ns:
            call.first_ns = self._clock()
        call.buffer += h2.unpadded(h2.DATA, flags, payload)
        self._take_messages(call)
        if flags & h2.END_STREAM:
            self._end(stream_id, UNAVAILABLE, "the call ended without a status")

    def _take_messages(self, call: Call) -> None:
        buffer = call.buffer
        while len(buffer) >= h2.MESSAGE_HEAD_BYTES:
            is_compressed, size = struct.unpack_from(">BI", buffer)
            end = h2.MESSAGE_HEAD_BYTES + size
            if len(buffer) < end:
                return
            raw = bytes(buffer[h2.MESSAGE_HEAD_BYTES : end])
            del buffer[:end]
            if is_compressed:
                self.reset(call)
                call.on_end(UNIMPLEMENTED, "the server compressed its answer without being asked")
                return
            call.on_message(call, raw)

    def _take_headers(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == h2.HEADERS:
            self._block, self._block_flags = h2.unpadded(kind, flags, payload), flags
        else:
            self._block += payload
        if not flags & h2.END_HEADERS:
            return
        found = h2.status_of(self._reader.read(self._block))
        if found is not None:
            self._end(stream_id, *found)
        elif self._block_flags & h2.END_STREAM:
            self._end(stream_id, UNAVAILABLE, "the call ended without a status")

    def _take_settings(self, settings: dict[int, int]) -> None:
        self._max_streams = settings.get(h2.MAX_CONCURRENT_STREAMS, h2.LARGEST_WINDOW)
        self._frame_bytes = settings.get(h2.MAX_FRAME_SIZE, self._frame_bytes)
        if h2.INITIAL_WINDOW_SIZE in settings:
            change = settings[h2.INITIAL_WINDOW_SIZE] - self._stream_window
            self._stream_window += change
            for call in self._calls.values():
                call.window += change
        self._write(h2.frame(h2.SETTINGS, h2.ACK, 0))
        if not self.ready.done():
            self.ready.set_result(None)
        self._flush_all()

    def _take_window(self, stream_id: int, count: int) -> None:
        if stream_id == 0:
            self._window += count
            self._flush_all()
        elif stream_id in self._calls:
            self._calls[stream_id].window += count
            self._flush(self._calls[stream_id])

    def _take_goaway(self, payload: bytes) -> None:
        last = struct.unpack_from(">I", payload)[0] & _STREAM_BITS
        self._reason = "the server asked to leave"
        for call_id in [each for each in self._calls if each > last]:
            self._end(call_id, UNAVAILABLE, self._reason)
        self._on_free()

    def _flush_all(self) -> None:
        for call in [each for each in self._calls.values() if each.outgoing]:
            self._flush(call)

    def _flush(self, call: Call) -> None:
        """Send as much of what waits as the windows allow."""
        while call.outgoing:
            data, is_last = call.outgoing[0]
            room = min(self._window, call.window, self._frame_bytes)
            if data and room <= 0:
                return
            part, rest = data[:room], data[room:]
            self._window -= len(part)
            call.window -= len(part)
            self._write(h2.frame(h2.DATA, is_last and not rest, call.id, part))
            if rest:
                call.outgoing[0] = (rest, is_last)
            else:
                call.outgoing.pop(0)

    def _end(self, call_id: int, status: int, text: str) -> None:
        call = self._calls.pop(call_id, None)
        if call is not None:
            self._is_full = False
            call.on_end(status, text)
            self._on_free()
            if self._reason and not self._calls:
                self.close()

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
