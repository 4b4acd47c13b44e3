# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The asyncio protocol of one gRPC connection: reads in, writes out.

A read leads to one write with everything it caused; output that comes into being later in a tick of
the loop is collected and leaves in one write at its end, unless no call is left that could add to
it.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, Protocol, cast

from deployments.access.contracts import Peer
from deployments.access.peers import peer_of
from deployments.grpc.rpc.compression import ResponseCompression
from deployments.grpc.rpc.connection import GrpcConnection
from deployments.grpc.rpc.deadlines import Deadlines
from deployments.grpc.rpc.service import RpcService
from deployments.http2.limits import Http2Limits
from deployments.supervision.memory_budget import MemoryBudget
from deployments.supervision.peer_limit import host_of

ALPN: Final = "h2"
PROTOCOL: Final = "grpc"

# Returns the service of a connection by its peer.
ServiceFor = Callable[[Peer], RpcService]
# Reads up to this size are copied, so that parts of them can be kept where they are.
_COPIED_READ_BYTES: Final = 1 << 15


class GrpcConnectionHost(Protocol):
    """What a connection needs of its server."""

    service: RpcService
    service_for: ServiceFor | None
    compression: ResponseCompression | None
    limits: Http2Limits
    deadlines: Deadlines
    budget: MemoryBudget
    clock_ns: Callable[[], int]
    is_draining: bool
    read_buffer: memoryview

    def opened(self, connection: "SocketConnection") -> bool:
        """Count a connection in; False when there are too many."""

    def closed(self, connection: "SocketConnection") -> None:
        """Count a connection out."""

    def note_closed(self, reason: str) -> None:
        """Say in the log why a connection is closed before its peer wanted it."""

    def offload(
        self, work: Callable[[], None], done: Callable[[BaseException | None], None]
    ) -> None:
        """Run ``work`` on a thread, then ``done`` on the loop with the error, if there was one."""


class SocketConnection(asyncio.BufferedProtocol):
    """One socket.

    Args:
        host: The server.
        loop: Its loop.

    Attributes:
        grpc: The calls.
    """

    def __init__(self, host: GrpcConnectionHost, loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._loop = loop
        self._clock_ns = host.clock_ns
        self._transport: asyncio.Transport | None = None
        self._flush_soon = False
        # Where the next read goes unless it is the buffer that connections share.
        self._room: memoryview | None = None
        # Since when the transport is full, and what it holds; since when it is closing.
        self._blocked_ns: int | None = None
        self._blocked_bytes = 0
        self._closing_ns: int | None = None
        self.grpc = GrpcConnection(
            host.service,
            host.limits,
            host.deadlines,
            self._on_output,
            host.clock_ns(),
            host.compression,
            budget=host.budget,
            offload=host.offload,
        )

    # ---- asyncio -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless the server refuses. Called by asyncio, as those below."""
        self._transport = cast("asyncio.Transport", transport)
        encrypted = transport.get_extra_info("ssl_object")
        if encrypted is not None and encrypted.selected_alpn_protocol() != ALPN:
            self._host.note_closed("TLS without ALPN h2")
            self._transport.abort()
            return
        if not self._host.opened(self):
            self._transport.abort()
            return
        if self._host.service_for is not None:
            self.grpc.service = self._host.service_for(peer_of(transport, PROTOCOL))
        self._transport.set_write_buffer_limits(high=self._host.limits.write_burst_bytes)
        self.grpc.h2.keepalive.spread_age(random.random())  # noqa: S311 - spreads load
        if self._host.is_draining:
            self.grpc.h2.lifecycle.drain_after_first_stream(self._clock_ns())
        self._flush()

    @property
    def peer_host(self) -> str:
        """The peer's address; empty where it has none."""
        transport = self._transport
        return "" if transport is None else host_of(transport.get_extra_info("peername"))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next read goes."""
        if self.grpc.h2.cut_stream is not None:
            self._room = self.grpc.room()
        return self._host.read_buffer if self._room is None else self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Take a read."""
        grpc = self.grpc
        room, self._room = self._room, None
        if self._closing_ns is not None:
            # We have said all there was; the peer has not closed yet.
            return
        if room is not None:
            grpc.receive(room[:nbytes], self._clock_ns())
        elif nbytes <= _COPIED_READ_BYTES:
            grpc.receive(bytes(self._host.read_buffer[:nbytes]), self._clock_ns())
        else:
            grpc.receive(self._host.read_buffer[:nbytes], self._clock_ns())
        if grpc.h2.needs_service:
            self._flush()

    def pause_writing(self) -> None:
        """The transport is full."""
        out = self.grpc.h2.out
        out.blocked = True
        self._blocked_ns = self._clock_ns()
        # A peer that does not read must not go on asking.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            self._blocked_bytes = self._transport.get_write_buffer_size()
            out.account.hold(self._blocked_bytes)

    def resume_writing(self) -> None:
        """The transport has room again."""
        self.grpc.h2.out.blocked = False
        self._blocked_ns = None
        self._let_go_blocked()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._on_output()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._transport = None
        self._let_go_blocked()
        self._host.closed(self)
        self.grpc.lost()

    # ---- the server ----------------------------------------------------------------------------

    def drain(self) -> None:
        """Begin to end the connection; one that has just opened gets time for its first call."""
        lifecycle = self.grpc.h2.lifecycle
        if lifecycle.started:
            lifecycle.drain(self._clock_ns())
            self._flush()
        else:
            lifecycle.drain_after_first_stream(self._clock_ns())

    def make_room(self) -> bool:
        """Begin to end the connection to make room for another; False if it has calls."""
        h2 = self.grpc.h2
        if h2.streams or self._transport is None or self._closing_ns is not None:
            return False
        h2.lifecycle.drain(self._clock_ns(), "idle, and another connection needs the room")
        self._flush()
        return True

    def abort(self) -> None:
        """Drop the connection now."""
        if self._transport is not None:
            self._transport.abort()
            self.grpc.lost()

    def on_time(self, now_ns: int) -> None:
        """Apply the timeouts."""
        limits = self._host.limits
        if (
            self._closing_ns is not None and now_ns - self._closing_ns > limits.close_timeout_ns
        ) or (
            self._blocked_ns is not None
            and now_ns - self._blocked_ns > limits.write_stall_timeout_ns
        ):
            self.abort()
            return
        # While we do not read, a peer cannot show that it is alive.
        if self._blocked_ns is None:
            self.grpc.h2.on_time(now_ns)
            self._flush()

    # ---- output --------------------------------------------------------------------------------

    def _on_output(self) -> None:
        if self._flush_soon:
            return
        if self.grpc.h2.streams:
            self._flush_soon = True
            self._loop.call_soon(self._flush)
        else:
            # No other call is open whose output could share the write.
            self._flush()

    def _flush(self) -> None:
        self._flush_soon = False
        transport = self._transport
        if transport is None or self._closing_ns is not None:
            return
        h2 = self.grpc.h2
        if self._host.is_draining and h2.lifecycle.last_stream_id:
            h2.lifecycle.drain(self._clock_ns())
        while True:
            buffers = h2.take_output()
            if len(buffers) == 1:
                transport.write(buffers[0])
            elif buffers:
                transport.writelines(buffers)
            if not h2.out.pending:
                break
        if h2.lifecycle.terminated is not None or h2.drained:
            self._close(transport)

    def _close(self, transport: asyncio.Transport) -> None:
        violation = self.grpc.h2.lifecycle.terminated
        self._closing_ns = self._clock_ns()
        self.grpc.lost()
        if violation is not None:
            peer = transport.get_extra_info("peername")
            self._host.note_closed(f"{violation.code.name}, {violation.message} (of {peer})")
        elif transport.can_write_eof():
            # Closed at once, the socket would answer what is still coming (a window update, say)
            # with a reset, and that can overtake our last answers. The peer closes when it has
            # read them; `on_time` does not wait for it for ever.
            transport.write_eof()
            return
        transport.close()

    def _let_go_blocked(self) -> None:
        self.grpc.h2.out.account.let_go(self._blocked_bytes)
        self._blocked_bytes = 0
