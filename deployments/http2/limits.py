# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Every bound of the HTTP/2 server in one place."""

from dataclasses import dataclass

from deployments.http2.frames import (
    DEFAULT_WINDOW_BYTES,
    MAX_MAX_FRAME_BYTES,
    MIN_MAX_FRAME_BYTES,
)
from deployments.http2.keepalive_options import NS_PER_S, KeepaliveOptions
from deployments.settings.connection_limits import ConnectionLimits

__all__ = ["NS_PER_S", "Http2Limits", "http2_limits"]


@dataclass(frozen=True, slots=True)
class Http2Limits:
    """What one server, and each of its connections, may use.

    Sizes are bytes, times nanoseconds. The defaults let a client of 1000 concurrent calls work at
    full speed and bound what a hostile one can make the process hold or do.
    """

    # What the peer is told in SETTINGS.
    max_concurrent_streams: int = 1000
    stream_window_bytes: int = 1 << 24
    connection_window_bytes: int = 1 << 26
    max_frame_bytes: int = 1 << 20

    # Request headers. The list counts 32 bytes per entry (RFC 9113 section 6.5.2); a request over
    # it is answered RESOURCE_EXHAUSTED, one over four times of it ends the connection.
    max_header_list_bytes: int = 16 << 10
    max_continuation_frames: int = 16
    max_cached_blocks: int = 256

    # Messages. Compressed ones have their own bound: a thousandfold expansion is cheap to send.
    max_receive_message_bytes: int = (1 << 31) - 1
    max_decompressed_message_bytes: int = 256 << 20
    # Only above the free size, since sparse tensors shrink to a thousandth.
    free_decompressed_bytes: int = 32 << 20
    max_decompression_ratio: int = 200
    max_partial_bytes: int = 4 << 30

    # Answers the peer does not take: over the first bound it gets no more window for requests,
    # over the second new calls are refused and streams that go on producing are reset.
    pause_receiving_bytes: int = 256 << 20
    max_queued_bytes: int = 1 << 30
    # What goes to the transport at once; also its high-water mark.
    write_burst_bytes: int = 1 << 20
    # Frames above this size would only make other streams wait.
    max_sent_frame_bytes: int = 128 << 10

    # Credit for frames that do no work (SETTINGS, PING, empty DATA, ..) and for resets; both are
    # refilled over time, and by work done.
    nuisance_credit: int = 4000
    nuisance_credit_per_s: int = 1000
    reset_credit: int = 2000
    reset_credit_per_s: int = 200
    # SETTINGS and PING answers that wait for the transport.
    max_queued_acks: int = 1000

    # Half-open peers. None switches a timer off.
    max_connections: int = 10_000
    # Of one address; 0 for any number.
    max_connections_per_peer: int = 0
    # The whole TLS handshake; of the preface and the first SETTINGS behind it.
    handshake_timeout_ns: int = 10 * NS_PER_S
    preface_timeout_ns: int = 10 * NS_PER_S
    idle_timeout_ns: int | None = None
    keepalive: KeepaliveOptions = KeepaliveOptions()
    write_stall_timeout_ns: int = 300 * NS_PER_S
    close_timeout_ns: int = 10 * NS_PER_S
    drain_ping_timeout_ns: int = 1 * NS_PER_S
    # What a connection that begins during a drain gets for its first call.
    drain_grace_ns: int = 1 * NS_PER_S

    def __post_init__(self) -> None:
        # A peer may use the protocol's defaults until it has seen our settings.
        if min(self.stream_window_bytes, self.connection_window_bytes) < DEFAULT_WINDOW_BYTES:
            raise ValueError(f"HTTP/2 receive windows are at least {DEFAULT_WINDOW_BYTES} bytes")
        if not MIN_MAX_FRAME_BYTES <= self.max_frame_bytes <= MAX_MAX_FRAME_BYTES:
            raise ValueError(
                f"max_frame_bytes is {self.max_frame_bytes}, expected {MIN_MAX_FRAME_BYTES} to"
                f" {MAX_MAX_FRAME_BYTES}"
            )


def http2_limits(given: ConnectionLimits, keepalive: KeepaliveOptions) -> Http2Limits:
    """Return the limits that options say; all others have their defaults."""
    return Http2Limits(
        max_concurrent_streams=given.stream_count,
        max_connections=given.count,
        max_connections_per_peer=given.per_peer,
        write_stall_timeout_ns=given.write_s * NS_PER_S,
        keepalive=keepalive,
    )
