# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The frames that carry no request: SETTINGS, PING, WINDOW_UPDATE, PRIORITY and the like."""

from typing import Final, Protocol

from deployments.http2 import frames
from deployments.http2.conduct import Conduct
from deployments.http2.errors import ConnectionViolation, ErrorCode
from deployments.http2.lifecycle import Lifecycle
from deployments.http2.limits import Http2Limits
from deployments.http2.outbound import Outbound
from deployments.http2.streams import Stream

# A SETTINGS frame can make us walk all streams.
_SETTINGS_COST: Final = 20
_MAX_SETTINGS: Final = 64
_PING_BYTES: Final = 8
_MAX_WINDOW_BYTES: Final = frames.MAX_WINDOW_BYTES
_PRIORITY_BYTES: Final = 5

# identifier -> (lowest, highest, code if outside)
_SETTING_RULES: Final = {
    frames.HEADER_TABLE_SIZE: (0, (1 << 32) - 1, ErrorCode.PROTOCOL_ERROR),
    frames.ENABLE_PUSH: (0, 1, ErrorCode.PROTOCOL_ERROR),
    frames.INITIAL_WINDOW_SIZE: (0, frames.MAX_WINDOW_BYTES, ErrorCode.FLOW_CONTROL_ERROR),
    frames.MAX_FRAME_SIZE: (
        frames.MIN_MAX_FRAME_BYTES,
        frames.MAX_MAX_FRAME_BYTES,
        ErrorCode.PROTOCOL_ERROR,
    ),
}


class StreamTable(Protocol):
    """What the control frames need of the connection."""

    streams: dict[int, Stream]
    out: Outbound
    lifecycle: Lifecycle
    conduct: Conduct

    def ping(self) -> None:
        """Judge a PING of the peer."""

    def stream_error(self, stream: Stream, code: ErrorCode) -> None:
        """Reset a stream because of the peer's mistake."""

    def require_not_idle(self, stream_id: int, name: str) -> None:
        """Check that the stream was opened at some time."""


class ControlFrames:
    """The handlers of one connection's control frames.

    Args:
        limits: Bounds.
        table: The connection.
    """

    __slots__ = ("_limits", "_queued_acks", "_table", "_table_shrunk")

    def __init__(self, limits: Http2Limits, table: StreamTable) -> None:
        self._limits = limits
        self._table = table
        self._queued_acks = 0
        self._table_shrunk = False

    def announce(self) -> None:
        """Output our SETTINGS and open the connection's window."""
        limits, out = self._limits, self._table.out
        out.write(
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
            out.write(frames.window_update(0, extra))

    def output_taken(self) -> None:
        """Note that no acknowledgement waits any more."""
        self._queued_acks = 0

    def on_priority(self, data: bytes, start: int, end: int, flags: int, stream_id: int) -> None:
        """Check PRIORITY; we treat all streams alike."""
        self._table.conduct.nuisance("PRIORITY")
        if not stream_id:
            raise ConnectionViolation(ErrorCode.PROTOCOL_ERROR, "PRIORITY frame for stream 0")
        stream = self._table.streams.get(stream_id)
        if end - start != _PRIORITY_BYTES and stream is not None:
            self._table.stream_error(stream, ErrorCode.FRAME_SIZE_ERROR)

    def on_push_promise(
        self, data: bytes, start: int, end: int, flags: int, stream_id: int
    ) -> None:
        """Refuse PUSH_PROMISE."""
        raise ConnectionViolation(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE frame from a client")

    def on_ping(self, data: bytes, start: int, end: int, flags: int, stream_id: int) -> None:
        """Answer PING, or take the answer to ours."""
        if end - start != _PING_BYTES:
            raise ConnectionViolation(
                ErrorCode.FRAME_SIZE_ERROR, f"PING frame of {end - start} bytes, expected 8"
            )
        _require_connection_level(stream_id, "PING")
        if flags & frames.ACK:
            self._table.conduct.nuisance("PING")
            self._table.lifecycle.ping_acknowledged(data[start:end])
        else:
            self._table.ping()
            self._acknowledge(frames.frame(frames.PING, frames.ACK, 0, data[start:end]))

    def on_goaway(self, data: bytes, start: int, end: int, flags: int, stream_id: int) -> None:
        """Note GOAWAY: such a client opens no further streams and closes after the last one."""
        _require_connection_level(stream_id, "GOAWAY")
        self._table.conduct.nuisance("GOAWAY")

    def on_unknown(self, data: bytes, start: int, end: int, flags: int, stream_id: int) -> None:
        """Ignore a frame of an unknown type."""
        self._table.conduct.nuisance("unknown")

    def on_settings(self, data: bytes, start: int, end: int, flags: int, stream_id: int) -> None:
        """Apply and acknowledge SETTINGS."""
        _require_connection_level(stream_id, "SETTINGS")
        self._table.conduct.nuisance("SETTINGS", _SETTINGS_COST)
        if flags & frames.ACK:
            if end > start:
                raise ConnectionViolation(
                    ErrorCode.FRAME_SIZE_ERROR, f"SETTINGS ACK of {end - start} bytes, expected 0"
                )
            return
        pairs = frames.read_settings(data, start, end)
        if len(pairs) > _MAX_SETTINGS:
            raise ConnectionViolation(
                ErrorCode.ENHANCE_YOUR_CALM,
                f"{len(pairs)} settings in a frame, the limit is {_MAX_SETTINGS}",
            )
        # The last of equal identifiers counts, so that the streams are walked once per frame.
        for identifier, value in dict(pairs).items():
            self._apply(identifier, value)
        self._table.lifecycle.started = True
        self._acknowledge(frames.frame(frames.SETTINGS, frames.ACK, 0))

    def on_window_update(
        self, data: bytes, start: int, end: int, flags: int, stream_id: int
    ) -> None:
        """Open a send window."""
        table = self._table
        increment = frames.read_u32(data, start, end, "WINDOW_UPDATE") & _MAX_WINDOW_BYTES
        table.conduct.nuisance("WINDOW_UPDATE")
        if not stream_id:
            out = table.out
            window = out.window + increment
            if not increment or window > _MAX_WINDOW_BYTES:
                raise _wrong_increment(increment)
            out.window = window
            return
        stream = table.streams.get(stream_id)
        if stream is None:
            table.require_not_idle(stream_id, "WINDOW_UPDATE")
        elif not increment:
            table.stream_error(stream, ErrorCode.PROTOCOL_ERROR)
        elif stream.send_window + increment > _MAX_WINDOW_BYTES:
            table.stream_error(stream, ErrorCode.FLOW_CONTROL_ERROR)
        else:
            table.out.widen(stream, increment)

    def _apply(self, identifier: int, value: int) -> None:
        rule = _SETTING_RULES.get(identifier)
        if rule is None:
            # We neither push nor send headers worth a limit.
            return
        lowest, highest, code = rule
        if not lowest <= value <= highest:
            raise ConnectionViolation(
                code, f"setting {identifier} is {value}, expected {lowest} to {highest}"
            )
        if identifier == frames.INITIAL_WINDOW_SIZE:
            self._set_initial_window(value)
        elif identifier == frames.MAX_FRAME_SIZE:
            self._table.out.set_peer_frame_bytes(value)
        else:
            self._shrink_table(value)

    def _shrink_table(self, size: int) -> None:
        # Our encoder uses no table, but has to say so if it has to shrink (RFC 7541 section 4.2).
        if size < frames.DEFAULT_HEADER_TABLE_BYTES and not self._table_shrunk:
            self._table_shrunk = True
            self._table.out.shrinks_table = True

    def _set_initial_window(self, size: int) -> None:
        out = self._table.out
        change = size - out.initial_window
        out.initial_window = size
        for stream in self._table.streams.values():
            if stream.send_window + change > frames.MAX_WINDOW_BYTES:
                raise ConnectionViolation(
                    ErrorCode.FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE overflows a window"
                )
            out.widen(stream, change)

    def _acknowledge(self, encoded: bytes) -> None:
        self._queued_acks += 1
        if self._table.out.blocked and self._queued_acks > self._limits.max_queued_acks:
            raise ConnectionViolation(
                ErrorCode.ENHANCE_YOUR_CALM, "too many PING or SETTINGS frames without reading"
            )
        self._table.out.write(encoded)


def _require_connection_level(stream_id: int, name: str) -> None:
    if stream_id:
        raise ConnectionViolation(
            ErrorCode.PROTOCOL_ERROR, f"{name} frame for stream {stream_id}, expected 0"
        )


def _wrong_increment(increment: int) -> ConnectionViolation:
    if not increment:
        return ConnectionViolation(
            ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of 0 for the connection"
        )
    return ConnectionViolation(
        ErrorCode.FLOW_CONTROL_ERROR, "WINDOW_UPDATE overflows the connection's window"
    )
