# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the peer is alive, whether it asks us that too often, and when a connection is old.

gRPC: doc/keepalive.md and src/core/ext/transport/chttp2/transport/ping_abuse_policy.cc of grpc/grpc
@3e80231. PINGs that we send are bounded by max_pings_without_data as in the gRPC of Triton 2.51;
later ones bound those of clients only.
"""

from typing import Final

from deployments.http2 import frames
from deployments.http2.errors import ConnectionViolation, ErrorCode
from deployments.http2.keepalive_options import NS_PER_S, KeepaliveOptions
from deployments.http2.outbound import Outbound

ALIVE_PING: Final = b"is alive"
# The text that gRPC clients look for: they then ping half as often.
TOO_MANY_PINGS: Final = "too_many_pings"
# A client without calls may ping as rarely as TCP does (RFC 1122), unless it is told otherwise.
_IDLE_PING_INTERVAL_NS: Final = 7200 * NS_PER_S
# Connections opened together shall not all come back together.
_AGE_SPREAD: Final = 0.1


class Keepalive:
    """The clock's side of one connection's life.

    Args:
        options: The times.
        out: Gets PINGs.
        now_ns: The clock.

    Attributes:
        has_sent: Set by whoever sends DATA or WINDOW_UPDATE: PINGs are judged anew from then on.
    """

    __slots__ = (
        "_age_ns",
        "_last_ping_ns",
        "_last_received_ns",
        "_opened_ns",
        "_options",
        "_out",
        "_ping_sent_ns",
        "_pings_sent",
        "_seen_stream_id",
        "_strikes",
        "has_sent",
    )

    def __init__(self, options: KeepaliveOptions, out: Outbound, now_ns: int) -> None:
        self._options = options
        self._out = out
        self._opened_ns = now_ns
        self._age_ns = options.max_age_ns
        # Our PINGs.
        self._last_received_ns = now_ns
        self._ping_sent_ns: int | None = None
        self._pings_sent = 0
        # The peer's.
        self._last_ping_ns: int | None = None
        self._strikes = 0
        self.has_sent = False
        self._seen_stream_id = 0

    def spread_age(self, share: float) -> None:
        """Move the end of this connection's age by up to a tenth.

        Args:
            share: From 0, a tenth sooner, to 1, a tenth later.
        """
        if self._age_ns is not None:
            self._age_ns = int(self._age_ns * (1 - _AGE_SPREAD + 2 * _AGE_SPREAD * share))

    def received(self, now_ns: int) -> None:
        """Note that the peer is alive."""
        self._last_received_ns = now_ns
        self._ping_sent_ns = None

    def silent_ns(self, now_ns: int) -> int:
        """Return for how long nothing has come."""
        return now_ns - self._last_received_ns

    def on_ping(self, now_ns: int, *, has_streams: bool, last_stream_id: int) -> None:
        """Judge a PING of the peer.

        Raises:
            ConnectionViolation: It has sent too many.
        """
        options = self._options
        self._notice_work(last_stream_id)
        if self._out.blocked or self._out.queued_bytes:
            # It measures its bandwidth with what we are sending.
            return
        last_ns, self._last_ping_ns = self._last_ping_ns, now_ns
        if last_ns is None:
            return
        is_idle = not has_streams and not options.permit_without_calls
        interval_ns = _IDLE_PING_INTERVAL_NS if is_idle else options.min_recv_ping_interval_ns
        if now_ns - last_ns < interval_ns:
            self._strikes += 1
            if 0 < options.max_ping_strikes < self._strikes:
                raise ConnectionViolation(ErrorCode.ENHANCE_YOUR_CALM, TOO_MANY_PINGS)

    def on_time(self, now_ns: int, *, has_streams: bool, last_stream_id: int) -> bool:
        """Ping a silent peer.

        Returns:
            False when it has not answered in time.
        """
        options = self._options
        if self._ping_sent_ns is not None:
            return now_ns - self._ping_sent_ns < options.timeout_ns
        if (
            options.time_ns is not None
            and self.silent_ns(now_ns) >= options.time_ns
            and (has_streams or options.permit_without_calls)
        ):
            self._notice_work(last_stream_id)
            if not 0 < options.max_pings_without_data <= self._pings_sent:
                self._ping_sent_ns = now_ns
                self._pings_sent += 1
                self._out.write(frames.frame(frames.PING, 0, 0, ALIVE_PING))
        return True

    def is_old(self, now_ns: int) -> bool:
        """Whether the connection has reached its age: it is to be drained."""
        return self._age_ns is not None and now_ns - self._opened_ns >= self._age_ns

    def is_too_old(self, now_ns: int) -> bool:
        """Whether the grace behind its age is over as well: it is to be closed."""
        grace_ns = self._options.max_age_grace_ns
        return grace_ns is not None and self.is_old(now_ns - grace_ns)

    def _notice_work(self, last_stream_id: int) -> None:
        """Forget the PINGs before the last DATA, WINDOW_UPDATE or new call."""
        if self.has_sent or last_stream_id != self._seen_stream_id:
            self.has_sent = False
            self._seen_stream_id = last_stream_id
            self._strikes = 0
            self._last_ping_ns = None
            self._pings_sent = 0
