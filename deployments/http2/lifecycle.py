# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a connection ends: by a violation, by draining, or because the peer is silent."""

from typing import Final

from deployments.http2 import frames
from deployments.http2.errors import ConnectionViolation, ErrorCode
from deployments.http2.keepalive import Keepalive
from deployments.http2.limits import Http2Limits
from deployments.http2.outbound import Outbound

_DRAIN_PING: Final = b"draining"
_MAX_AGE: Final = "max_age"


class Lifecycle:
    """The end of one connection.

    Args:
        limits: The timeouts.
        out: Gets GOAWAY and PING.
        now_ns: The clock.

    Attributes:
        terminated: Why the connection is over, or None.
        accepts_streams: Whether the peer may still open streams.
        started: Set once the peer has shown that it speaks HTTP/2.
        last_stream_id: The highest stream id the peer has used.
        keepalive: Knows how long the peer has been silent.
    """

    __slots__ = (
        "_drain_at_ns",
        "_drain_ns",
        "_limits",
        "_opened_ns",
        "_out",
        "accepts_streams",
        "keepalive",
        "last_stream_id",
        "started",
        "terminated",
    )

    def __init__(self, limits: Http2Limits, out: Outbound, now_ns: int) -> None:
        self._limits = limits
        self._out = out
        self._opened_ns = now_ns
        self.keepalive = Keepalive(limits.keepalive, out, now_ns)
        self._drain_ns: int | None = None
        self._drain_at_ns: int | None = None
        self.terminated: ConnectionViolation | None = None
        self.accepts_streams = True
        self.started = False
        self.last_stream_id = 0

    def terminate(self, violation: ConnectionViolation) -> None:
        """End the connection with GOAWAY."""
        if self.terminated is None:
            self.terminated = violation
            self._out.write(frames.goaway(self.last_stream_id, violation.code, violation.message))

    def drain(self, now_ns: int, reason: str = "draining") -> None:
        """Ask the peer to open no further streams; those it has already opened are served.

        The first GOAWAY names no last stream, because requests may be on their way. The second,
        when the PING behind it is answered or a second is over, does.

        Args:
            now_ns: The clock.
            reason: What the peer is told.
        """
        if self._drain_ns is not None or self.terminated is not None:
            return
        self._drain_ns = now_ns
        if self.started:
            self._out.write(frames.goaway(frames.MAX_STREAM_ID, ErrorCode.NO_ERROR, reason))
            self._out.write(frames.frame(frames.PING, 0, 0, _DRAIN_PING))
        else:
            self._stop_accepting()

    def drain_after_first_stream(self, now_ns: int) -> None:
        """Drain once the peer has had time to open a stream; whoever sees it do so may `drain`."""
        if self._drain_at_ns is None:
            self._drain_at_ns = now_ns + self._limits.drain_grace_ns

    def ping_acknowledged(self, payload: bytes) -> None:
        """Take the answer to a PING."""
        if payload == _DRAIN_PING and self._drain_ns is not None:
            self._stop_accepting()

    def on_time(self, now_ns: int, *, has_streams: bool) -> None:
        """Apply the timeouts."""
        limits = self._limits
        if self.terminated is not None:
            return
        if self._drain_at_ns is not None and now_ns >= self._drain_at_ns:
            self.drain(now_ns)
        if not self.started:
            if now_ns - self._opened_ns >= limits.preface_timeout_ns:
                self.terminate(
                    ConnectionViolation(ErrorCode.SETTINGS_TIMEOUT, "no preface and SETTINGS yet")
                )
            return
        if self._drain_ns is not None and now_ns - self._drain_ns >= limits.drain_ping_timeout_ns:
            self._stop_accepting()
        self._watch_peer(now_ns, has_streams=has_streams)
        self._watch_age(now_ns)

    def _watch_peer(self, now_ns: int, *, has_streams: bool) -> None:
        keepalive = self.keepalive
        if not keepalive.on_time(
            now_ns, has_streams=has_streams, last_stream_id=self.last_stream_id
        ):
            self.terminate(ConnectionViolation(ErrorCode.NO_ERROR, "keepalive ping timeout"))
        idle_ns = self._limits.idle_timeout_ns
        if idle_ns is not None and keepalive.silent_ns(now_ns) >= idle_ns and not has_streams:
            self.drain(now_ns)

    def _watch_age(self, now_ns: int) -> None:
        if self.keepalive.is_old(now_ns):
            self.drain(now_ns, _MAX_AGE)
            if self.keepalive.is_too_old(now_ns):
                self.terminate(ConnectionViolation(ErrorCode.NO_ERROR, _MAX_AGE))

    def _stop_accepting(self) -> None:
        if self.accepts_streams:
            self.accepts_streams = False
            self._out.write(frames.goaway(self.last_stream_id, ErrorCode.NO_ERROR, "draining"))
