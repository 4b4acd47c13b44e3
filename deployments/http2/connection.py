# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The server's side of one HTTP/2 connection: bytes in, events and bytes out.

Theory of operation. `receive` takes a read and returns the events in it; what has to be sent
collects in `out` until the owner of the socket takes it. Nothing here waits, looks at a clock or
calls the layer above. The reader cuts frames and calls one handler per type; a handler that raises
`ConnectionViolation` ends the connection with GOAWAY, everything smaller resets one stream.

Streams live in `streams` from their HEADERS to their end; a stream id that is not there is idle if
it is above the last one and closed otherwise. Of closed streams only the last few that we reset are
remembered, because for these the peer's late frames are no mistake. We never answer HEADERS with
less than a whole response, so HALF_CLOSED_LOCAL lasts for one statement: an answer that overtakes
its request is followed by RST_STREAM(NO_ERROR), and the peer may stop sending.

Receive windows are wide and opened again in halves. They open on receipt, not on consumption:
a gRPC message has to be complete before anyone can consume it. Back-pressure is at the other end:
while too many answers wait for the peer the connection's window stays shut.

Floods. Each frame that does no work costs credit, work gives credit back, and a peer without
credit gets ENHANCE_YOUR_CALM: frames that only make us answer or wake up (SETTINGS, PING, empty
DATA, PRIORITY, ..) from one account; streams that end without a response, by the peer's reset
("rapid reset") or by one that it provoked, from another.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from deployments.http2 import frames
from deployments.http2.control import ControlFrames
from deployments.http2.credit import Credit
from deployments.http2.errors import ConnectionViolation, ErrorCode, MalformedRequestError
from deployments.http2.events import DataReceived, Event, RequestReceived, StreamReset
from deployments.http2.header_blocks import BlockDecoder, HeaderList
from deployments.http2.inbound import FrameReader
from deployments.http2.lifecycle import Lifecycle
from deployments.http2.limits import Http2Limits
from deployments.http2.outbound import Outbound
from deployments.http2.streams import (
    CLOSED,
    HALF_CLOSED_LOCAL,
    HALF_CLOSED_REMOTE,
    IDLE,
    RECEIVE_DATA,
    RECEIVE_DATA_END,
    RECEIVE_HEADERS,
    RECEIVE_HEADERS_END,
    RESET,
    SEND_END,
    TRANSITIONS,
    VIOLATION,
    Stream,
)

Head = TypeVar("Head")

# Payloads up to this size are copied out of the read, larger ones are views on it.
_COPY_BYTES: Final = 4096
# A DATA frame this small that does not end its stream costs credit.
_TINY_BYTES: Final = 16
# And so does one of this size for a stream that was reset.
_SPLINTER_BYTES: Final = 1024
# Credit that a request gives back: a client may well send a PING and two WINDOW_UPDATEs with each.
_REQUEST_REFUND: Final = 4
# And two WINDOW_UPDATEs for each DATA frame that it gets.
_DATA_REFUND: Final = 2
_REMEMBERED_RESETS: Final = 256


class Http2Connection(Generic[Head]):
    """One connection, from the preface on.

    Args:
        limits: All bounds.
        parse_head: Turns a request's header list into the ``head`` of `RequestReceived`. Must be a
            pure function: its results are reused for equal header blocks.
        now_ns: The clock.

    Attributes:
        streams: The streams that are not closed, by id.
        out: What is to be sent.
        cut_stream: The stream whose DATA frame the last read has cut, or None.
        lifecycle: Its beginning and end; when it says ``terminated``, send ``out`` and close.
    """

    def __init__(
        self, limits: Http2Limits, parse_head: Callable[[HeaderList], Head], now_ns: int
    ) -> None:
        self._limits = limits
        self.streams: dict[int, Stream] = {}
        self.out = Outbound(limits, self._on_end_sent)
        self.lifecycle = Lifecycle(limits, self.out, now_ns)
        self.keepalive = self.lifecycle.keepalive
        self._control = control = ControlFrames(limits, self)
        self._blocks = BlockDecoder(limits, parse_head)
        self._reader = FrameReader(
            self._on_data,
            (
                self._on_headers,
                control.on_priority,
                self._on_rst_stream,
                control.on_settings,
                control.on_push_promise,
                control.on_ping,
                control.on_goaway,
                control.on_window_update,
                self._on_continuation,
                control.on_unknown,
            ),
            self._on_more_data,
            limits.max_frame_bytes,
            max(frames.MIN_MAX_FRAME_BYTES, self._blocks.max_block_bytes),
        )
        # Receiving.
        self._now_ns = now_ns
        self._events: list[Event[Head]] = []
        self._window = limits.connection_window_bytes
        self.cut_stream: Stream | None = None
        self._cut_ended = False
        # The header block that is being received.
        self._fragments: list[bytes] = []
        self._fragments_ended = False
        # Abuse.
        self._credit = Credit(limits.nuisance_credit, limits.nuisance_credit_per_s, now_ns)
        self._resets = Credit(limits.reset_credit, limits.reset_credit_per_s, now_ns)
        self._reset_ids: deque[int] = deque(maxlen=_REMEMBERED_RESETS)
        self._start()

    # ---- for the owner -------------------------------------------------------------------------

    def receive(self, data: bytes | memoryview, now_ns: int) -> list[Event[Head]]:
        """Take a read and return what it means, in order. After termination it means nothing.

        Args:
            data: The read. If it is a view, so are the parts of bodies in the events.
            now_ns: The clock.
        """
        if self.lifecycle.terminated is not None:
            return []
        self._now_ns = now_ns
        self.keepalive.received(now_ns)
        events: list[Event[Head]] = []
        self._events = events
        try:
            self._reader.feed(data)
        except ConnectionViolation as violation:
            self.lifecycle.terminate(violation)
        return events

    def take_output(self) -> list[bytes | bytearray | memoryview]:
        """Return what to write to the transport now, in order."""
        self._control.output_taken()
        outbound = self.out
        out = outbound.take()
        if outbound.data_frames:
            self._credit.refund(_DATA_REFUND * outbound.data_frames)
            outbound.data_frames = 0
            self.keepalive.has_sent = True
        if self._window * 2 < self._limits.connection_window_bytes:
            self._open_window()
        return out

    def reset(self, stream: Stream, code: ErrorCode) -> None:
        """Give a stream up."""
        if stream.state != CLOSED:
            self.out.write(frames.rst_stream(stream.id, code))
            self._close(stream)
            self._reset_ids.append(stream.id)

    @property
    def cut_bytes(self) -> int:
        """What the cut DATA frame still lacks, without its padding."""
        return self._reader.data_left

    @property
    def needs_service(self) -> bool:
        """Whether there is output to take, or the connection may have to be closed."""
        return (
            self.out.pending
            or self._window * 2 < self._limits.connection_window_bytes
            or not self.lifecycle.accepts_streams
        )

    @property
    def drained(self) -> bool:
        """Whether nothing will come any more: the connection can be closed."""
        return not self.lifecycle.accepts_streams and not self.streams

    def on_time(self, now_ns: int) -> None:
        """Apply the timeouts; to be called every second or so."""
        self.lifecycle.on_time(now_ns, has_streams=bool(self.streams))

    # ---- life ----------------------------------------------------------------------------------

    def _start(self) -> None:
        limits = self._limits
        self.out.write(
            frames.settings(
                {
                    frames.MAX_CONCURRENT_STREAMS: limits.max_concurrent_streams,
                    frames.INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
                    frames.MAX_FRAME_SIZE: limits.max_frame_bytes,
                    frames.MAX_HEADER_LIST_SIZE: limits.max_header_list_bytes,
                }
            )
        )
        extra = limits.connection_window_bytes - frames.DEFAULT_WINDOW_BYTES
        if extra > 0:
            self.out.write(frames.window_update(0, extra))

    def ping(self) -> None:
        """Judge a PING of the peer."""
        self.nuisance("PING")
        self.keepalive.on_ping(
            self._now_ns,
            has_streams=bool(self.streams),
            last_stream_id=self.lifecycle.last_stream_id,
        )

    def nuisance(self, what: str, cost: int = 1) -> None:
        """Charge a frame that does no work."""
        credit = self._credit
        if credit.left >= cost:
            credit.left -= cost
        elif not credit.spend(cost, self._now_ns):
            raise ConnectionViolation(ErrorCode.ENHANCE_YOUR_CALM, f"too many {what} frames")

    def _wasted_stream(self) -> None:
        if not self._resets.spend(1, self._now_ns):
            raise ConnectionViolation(ErrorCode.ENHANCE_YOUR_CALM, "too many reset streams")

    # ---- streams -------------------------------------------------------------------------------

    def _close(self, stream: Stream) -> None:
        stream.state = CLOSED
        if stream.queue is not None:
            self.out.discard(stream)
        self.streams.pop(stream.id, None)

    def _on_end_sent(self, stream: Stream) -> None:
        stream.state = TRANSITIONS[stream.state][SEND_END]
        if stream.state == HALF_CLOSED_LOCAL:
            self.reset(stream, ErrorCode.NO_ERROR)
        else:
            self._close(stream)
            self._resets.refund(1)

    def stream_error(self, stream: Stream, code: ErrorCode) -> None:
        """Reset a stream because of the peer's mistake."""
        self._wasted_stream()
        self.reset(stream, code)
        self._events.append(StreamReset(stream, code))

    def require_not_idle(self, stream_id: int, name: str) -> None:
        """Check that the stream was opened at some time."""
        if stream_id > self.lifecycle.last_stream_id or not stream_id & 1:
            raise ConnectionViolation(
                ErrorCode.PROTOCOL_ERROR, f"{name} frame for idle stream {stream_id}"
            )

    # ---- DATA ----------------------------------------------------------------------------------

    def _on_data(
        self, data: bytes | memoryview, start: int, end: int, flags: int, stream_id: int
    ) -> None:
        size = end - start
        self._window -= size
        if self._window * 2 < self._limits.connection_window_bytes:
            self._charge_connection()
        ended = bool(flags & frames.END_STREAM)
        frame_end = end
        if flags & frames.PADDED:
            start, end = frames.unpad(data, start, end)
        if end - start < _TINY_BYTES and not ended:
            self.nuisance("empty or tiny DATA")
        stream = self._charged(stream_id, size)
        have = len(data)
        if frame_end > have:
            data_left = max(0, end - have)
            self._reader.cut_data(data_left, frame_end - max(end, have))
            end = min(end, have)
            if data_left:
                self.cut_stream, self._cut_ended = stream, ended
                ended = False
        if stream is not None:
            view = data if end - start <= _COPY_BYTES else memoryview(data)
            self._deliver(stream, view[start:end], ended)

    def _charged(self, stream_id: int, size: int) -> Stream | None:
        """Return the stream of a DATA frame after charging its window; None if it has none."""
        stream = self.streams.get(stream_id)
        if stream is None:
            self._data_on_closed(stream_id, size)
        elif stream.receive_window < size:
            self.stream_error(stream, ErrorCode.FLOW_CONTROL_ERROR)
            return None
        else:
            stream.receive_window -= size
        return stream

    def _charge_connection(self) -> None:
        if self._window < 0:
            raise ConnectionViolation(
                ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the connection's window"
            )
        self._open_window()

    def _on_more_data(self, piece: bytes | memoryview, last: bool) -> None:
        stream = self.cut_stream
        if stream is not None:
            if last:
                self.cut_stream = None
            self._deliver(stream, piece, last and self._cut_ended)

    def _deliver(self, stream: Stream, payload: bytes | memoryview, ended: bool) -> None:
        if stream.state == CLOSED:
            return
        state = TRANSITIONS[stream.state][RECEIVE_DATA_END if ended else RECEIVE_DATA]
        if state == VIOLATION:
            self.stream_error(stream, ErrorCode.STREAM_CLOSED)
            return
        stream.state = state
        if ended:
            self._credit.refund(1)
        elif stream.receive_window * 2 < self._limits.stream_window_bytes:
            increment = self._limits.stream_window_bytes - stream.receive_window
            stream.receive_window += increment
            self.out.write(frames.window_update(stream.id, increment))
        if ended or payload:
            self._events.append(DataReceived(stream, payload, ended))

    def _data_on_closed(self, stream_id: int, size: int) -> None:
        self.require_not_idle(stream_id, "DATA")
        # What was on its way when we reset the stream is no mistake, if it is not in splinters.
        is_reset = stream_id in self._reset_ids
        if size < _SPLINTER_BYTES or not is_reset:
            self.nuisance("late DATA")
        if not is_reset:
            self.out.write(frames.rst_stream(stream_id, ErrorCode.STREAM_CLOSED))

    def _open_window(self) -> None:
        if self.out.queued_bytes <= self._limits.pause_receiving_bytes:
            increment = self._limits.connection_window_bytes - self._window
            self._window += increment
            self.out.write(frames.window_update(0, increment))
            self.keepalive.has_sent = True

    # ---- HEADERS and CONTINUATION --------------------------------------------------------------

    def _on_headers(self, data: bytes, start: int, end: int, flags: int, stream_id: int) -> None:
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
            self._reader.block_stream_id = stream_id
            self._fragments = [fragment]
            self._fragments_ended = ended

    def _on_continuation(
        self, data: bytes, start: int, end: int, flags: int, stream_id: int
    ) -> None:
        if not self._reader.block_stream_id:
            raise ConnectionViolation(
                ErrorCode.PROTOCOL_ERROR, "CONTINUATION frame outside a header block"
            )
        fragments = self._fragments
        fragments.append(data[start:end])
        if (
            len(fragments) > self._limits.max_continuation_frames + 1
            or sum(map(len, fragments)) > self._blocks.max_block_bytes
        ):
            raise ConnectionViolation(
                ErrorCode.ENHANCE_YOUR_CALM,
                f"header block of over {self._limits.max_continuation_frames} CONTINUATION frames"
                f" or {self._blocks.max_block_bytes} bytes",
            )
        if flags & frames.END_HEADERS:
            self._reader.block_stream_id = 0
            self._fragments = []
            self._on_block(stream_id, b"".join(fragments), self._fragments_ended)

    def _on_block(self, stream_id: int, block: bytes, ended: bool) -> None:
        try:
            head = self._blocks.decode(block)
        except MalformedRequestError:
            if stream_id <= self.lifecycle.last_stream_id:
                self._on_trailers(stream_id, ended)
                return
            self.lifecycle.last_stream_id = stream_id
            self._wasted_stream()
            self._refuse(stream_id, ErrorCode.PROTOCOL_ERROR)
            return
        if stream_id <= self.lifecycle.last_stream_id:
            self._on_trailers(stream_id, ended)
            return
        self.lifecycle.last_stream_id = stream_id
        if (
            len(self.streams) >= self._limits.max_concurrent_streams
            or not self.lifecycle.accepts_streams
            or self.out.queued_bytes > self._limits.max_queued_bytes
        ):
            self._wasted_stream()
            self._refuse(stream_id, ErrorCode.REFUSED_STREAM)
            return
        self._credit.refund(_REQUEST_REFUND)
        state = TRANSITIONS[IDLE][RECEIVE_HEADERS_END if ended else RECEIVE_HEADERS]
        stream = Stream(stream_id, state, self.out.initial_window, self._limits.stream_window_bytes)
        self.streams[stream_id] = stream
        self._events.append(RequestReceived(stream, head, ended))

    def _refuse(self, stream_id: int, code: ErrorCode) -> None:
        self.out.write(frames.rst_stream(stream_id, code))
        self._reset_ids.append(stream_id)

    def _on_trailers(self, stream_id: int, ended: bool) -> None:
        """Take a second header block; what a client says in trailers nobody asked for."""
        stream = self.streams.get(stream_id)
        if stream is None:
            if stream_id in self._reset_ids:
                return
            raise ConnectionViolation(
                ErrorCode.STREAM_CLOSED,
                f"HEADERS for stream {stream_id}, the last one was {self.lifecycle.last_stream_id}",
            )
        if TRANSITIONS[stream.state][RECEIVE_HEADERS_END] == VIOLATION or not ended:
            closed = stream.state == HALF_CLOSED_REMOTE
            self.stream_error(
                stream, ErrorCode.STREAM_CLOSED if closed else ErrorCode.PROTOCOL_ERROR
            )
            return
        stream.state = TRANSITIONS[stream.state][RECEIVE_HEADERS_END]
        self._events.append(DataReceived(stream, b"", ended=True))

    # ---- RST_STREAM ----------------------------------------------------------------------------

    def _on_rst_stream(self, data: bytes, start: int, end: int, flags: int, stream_id: int) -> None:
        code = frames.read_u32(data, start, end, "RST_STREAM")
        self.require_not_idle(stream_id, "RST_STREAM")
        stream = self.streams.get(stream_id)
        if stream is None:
            self.nuisance("late RST_STREAM")
            return
        self._wasted_stream()
        stream.state = TRANSITIONS[stream.state][RESET]
        self._close(stream)
        self._events.append(StreamReset(stream, code))
