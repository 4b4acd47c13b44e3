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

Floods are judged by `Conduct`: what does no work costs a peer credit.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from deployments.http2 import frames
from deployments.http2.conduct import Conduct
from deployments.http2.control import ControlFrames
from deployments.http2.errors import ConnectionViolation, ErrorCode, MalformedRequestError
from deployments.http2.events import DataReceived, Event, RequestReceived, StreamReset
from deployments.http2.header_blocks import BlockDecoder, HeaderList
from deployments.http2.headers import HeaderFrames
from deployments.http2.inbound import Http2FrameReader
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
from deployments.supervision.memory_budget import MemoryBudget

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


class Http2Connection(Generic[Head]):
    """One connection, from the preface on.

    Args:
        limits: All bounds.
        parse_head: Turns a request's header list into the ``head`` of `RequestReceived`. Must be a
            pure function: its results are reused for equal header blocks.
        now_ns: The clock.
        budget: What the memory of answers that wait is taken from; None for no bound but the
            connection's.

    Attributes:
        streams: The streams that are not closed, by id.
        out: What is to be sent.
        cut_stream: The stream whose DATA frame the last read has cut, or None.
        conduct: What the peer has cost without work coming of it.
        lifecycle: Its beginning and end; when it says ``terminated``, send ``out`` and close.
    """

    def __init__(
        self,
        limits: Http2Limits,
        parse_head: Callable[[HeaderList], Head],
        now_ns: int,
        budget: MemoryBudget | None = None,
    ) -> None:
        self._limits = limits
        self.streams: dict[int, Stream] = {}
        self.out = Outbound(limits, self._on_end_sent, budget)
        self.lifecycle = Lifecycle(limits, self.out, now_ns)
        self.keepalive = self.lifecycle.keepalive
        self.conduct = Conduct(limits, now_ns)
        self._control = control = ControlFrames(limits, self)
        self._blocks = BlockDecoder(limits, parse_head)
        headers = HeaderFrames(
            self._on_block, self._blocks.max_block_bytes, limits.max_continuation_frames
        )
        self._reader = headers.reader = Http2FrameReader(
            self._on_data,
            (
                headers.on_headers,
                control.on_priority,
                self._on_rst_stream,
                control.on_settings,
                control.on_push_promise,
                control.on_ping,
                control.on_goaway,
                control.on_window_update,
                headers.on_continuation,
                control.on_unknown,
            ),
            self._on_more_data,
            limits.max_frame_bytes,
            max(frames.MIN_MAX_FRAME_BYTES, self._blocks.max_block_bytes),
        )
        # Receiving.
        self._events: list[Event[Head]] = []
        self._window = limits.connection_window_bytes
        self.cut_stream: Stream | None = None
        self._cut_ended = False
        control.announce()

    # ---- for the owner -------------------------------------------------------------------------

    def receive(self, data: bytes | memoryview, now_ns: int) -> list[Event[Head]]:
        """Take a read and return what it means, in order. After termination it means nothing.

        Args:
            data: The read. If it is a view, so are the parts of bodies in the events.
            now_ns: The clock.
        """
        if self.lifecycle.terminated is not None:
            return []
        self.conduct.now_ns = now_ns
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
            self.conduct.credit.refund(_DATA_REFUND * outbound.data_frames)
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
            self.conduct.reset_ids.append(stream.id)

    def abandon(self) -> None:
        """Forget all streams: nothing can be sent any more."""
        for stream in self.streams.values():
            self.out.discard(stream)
        self.streams.clear()

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

    def idle_ns(self, now_ns: int) -> int:
        """Return for how long the peer has been silent; 0 while streams are open."""
        return 0 if self.streams else self.keepalive.silent_ns(now_ns)

    def on_time(self, now_ns: int) -> None:
        """Apply the timeouts; to be called every second or so."""
        self.lifecycle.on_time(now_ns, has_streams=bool(self.streams))

    # ---- life ----------------------------------------------------------------------------------

    def ping(self) -> None:
        """Judge a PING of the peer."""
        self.conduct.nuisance("PING")
        self.keepalive.on_ping(
            self.conduct.now_ns,
            has_streams=bool(self.streams),
            last_stream_id=self.lifecycle.last_stream_id,
        )

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
            self.conduct.resets.refund(1)

    def stream_error(self, stream: Stream, code: ErrorCode) -> None:
        """Reset a stream because of the peer's mistake."""
        self.conduct.wasted_stream()
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
            self.conduct.nuisance("empty or tiny DATA")
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
            self.conduct.credit.refund(1)
        elif stream.receive_window * 2 < self._limits.stream_window_bytes:
            increment = self._limits.stream_window_bytes - stream.receive_window
            stream.receive_window += increment
            self.out.write(frames.window_update(stream.id, increment))
        if ended or payload:
            self._events.append(DataReceived(stream, payload, ended))

    def _data_on_closed(self, stream_id: int, size: int) -> None:
        self.require_not_idle(stream_id, "DATA")
        # What was on its way when we reset the stream is no mistake, if it is not in splinters.
        is_reset = stream_id in self.conduct.reset_ids
        if size < _SPLINTER_BYTES or not is_reset:
            self.conduct.nuisance("late DATA")
        if not is_reset:
            self.out.write(frames.rst_stream(stream_id, ErrorCode.STREAM_CLOSED))

    def _open_window(self) -> None:
        if self.out.queued_bytes <= self._limits.pause_receiving_bytes:
            increment = self._limits.connection_window_bytes - self._window
            self._window += increment
            self.out.write(frames.window_update(0, increment))
            self.keepalive.has_sent = True

    # ---- header blocks -------------------------------------------------------------------------

    def _on_block(self, stream_id: int, block: bytes, ended: bool) -> None:
        try:
            head = self._blocks.decode(block)
        except MalformedRequestError:
            if stream_id <= self.lifecycle.last_stream_id:
                self._on_trailers(stream_id, ended)
                return
            self.lifecycle.last_stream_id = stream_id
            self.conduct.wasted_stream()
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
            self.conduct.wasted_stream()
            self._refuse(stream_id, ErrorCode.REFUSED_STREAM)
            return
        self.conduct.credit.refund(_REQUEST_REFUND)
        state = TRANSITIONS[IDLE][RECEIVE_HEADERS_END if ended else RECEIVE_HEADERS]
        stream = Stream(stream_id, state, self.out.initial_window, self._limits.stream_window_bytes)
        self.streams[stream_id] = stream
        self._events.append(RequestReceived(stream, head, ended))

    def _refuse(self, stream_id: int, code: ErrorCode) -> None:
        self.out.write(frames.rst_stream(stream_id, code))
        self.conduct.reset_ids.append(stream_id)

    def _on_trailers(self, stream_id: int, ended: bool) -> None:
        """Take a second header block; what a client says in trailers nobody asked for."""
        stream = self.streams.get(stream_id)
        if stream is None:
            if stream_id in self.conduct.reset_ids:
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
            self.conduct.nuisance("late RST_STREAM")
            return
        self.conduct.wasted_stream()
        stream.state = TRANSITIONS[stream.state][RESET]
        self._close(stream)
        self._events.append(StreamReset(stream, code))
