# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The asyncio transport of our gRPC server: sockets, timers and TLS around `deployments.http2`.

One protocol object per connection and no task anywhere. A read leads to one write with everything
it caused; output that comes into being later in a tick of the loop is collected and leaves in one
write at its end, unless no call is left that could add to it.
"""

import asyncio
import logging
import random
import socket
import time
from collections.abc import Callable
from typing import Final, cast

from deployments.grpc.rpc.compression import ResponseCompression
from deployments.grpc.rpc.connection import GrpcConnection
from deployments.grpc.rpc.deadlines import Deadlines
from deployments.grpc.rpc.service import RpcService
from deployments.http2.limits import NS_PER_S, Http2Limits
from deployments.security.tls import TlsFiles

_log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_ALPN: Final = "h2"
_READ_BUFFER_BYTES: Final = 1 << 18
# Reads up to this size are copied, so that parts of them can be kept where they are.
_COPIED_READ_BYTES: Final = 1 << 15

_now_ns: Callable[[], int] = time.monotonic_ns


class Http2Server:
    """A gRPC server on our own HTTP/2.

    Args:
        service: Gets the calls, on the loop that `start` runs on.
        limits: All bounds.
        tls: Set to serve TLS.
        compression: What responses are compressed with.
    """

    def __init__(
        self,
        service: RpcService,
        *,
        limits: Http2Limits | None = None,
        tls: TlsFiles | None = None,
        compression: ResponseCompression | None = None,
    ) -> None:
        self.service = service
        self.compression = compression
        self._tls = tls
        self.limits = limits or Http2Limits()
        self.deadlines = Deadlines(self._arm)
        self.draining = False
        # Connections take turns: each has dealt with what it got before the next one reads.
        self.read_buffer = memoryview(bytearray(_READ_BUFFER_BYTES))
        self._connections: set[_Connection] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._listener: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._sweep_s = self.limits.keepalive.resolution_ns / NS_PER_S

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return len(self._connections)

    @property
    def inflight_count(self) -> int:
        """Calls whose answer is not completely sent."""
        return sum(connection.grpc.inflight_count for connection in self._connections)

    async def start(self, host: str, port: int, *, reuse_port: bool = False) -> int:
        """Listen and return the port.

        Args:
            host: The address to bind.
            port: The port, or 0 for any.
            reuse_port: Share the port with other processes (SO_REUSEPORT).

        Raises:
            OSError: The address cannot be bound.
            InvalidArgumentError: A TLS file cannot be used.
        """
        handshake_timeout_s = self.limits.handshake_timeout_ns / NS_PER_S
        encryption = self._tls.listen_options(_ALPN, handshake_timeout_s) if self._tls else {}
        self._loop = loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: _Connection(self, loop),
            host,
            port,
            # None, not False: asyncio refuses even False where the option is missing.
            reuse_port=reuse_port or None,
            backlog=_BACKLOG,
            **encryption,
        )
        listening = self._listener.sockets[0]
        # Inherited by what is accepted: of peers without calls only the kernel sees that they died.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        bound: int = listening.getsockname()[1]
        return bound

    def begin_drain(self) -> None:
        """Stop listening and ask the clients to open no further calls."""
        self.draining = True
        self._stop_listening()
        for connection in list(self._connections):
            connection.drain()

    async def wait_drained(self, timeout_s: float) -> bool:
        """Wait until the last connection has ended; False when that takes longer."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Stop listening and drop all connections; their calls are cancelled."""
        self._stop_listening()
        for connection in list(self._connections):
            connection.abort()
        for timer in (self._deadline_timer, self._sweep_timer):
            if timer is not None:
                timer.cancel()
        self._deadline_timer = self._sweep_timer = None

    def opened(self, connection: "_Connection") -> bool:
        """Count a connection in; False when there are too many."""
        if len(self._connections) >= self.limits.max_connections:
            return False
        self._connections.add(connection)
        self._empty.clear()
        if self._sweep_timer is None and self._loop is not None:
            self._sweep_timer = self._loop.call_later(self._sweep_s, self._sweep)
        return True

    def closed(self, connection: "_Connection") -> None:
        """Count a connection out."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _sweep(self) -> None:
        self._sweep_timer = None
        now_ns = _now_ns()
        for connection in list(self._connections):
            connection.on_time(now_ns)
        if self._connections and self._loop is not None:
            self._sweep_timer = self._loop.call_later(self._sweep_s, self._sweep)

    def _arm(self, deadline_ns: int) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        if self._loop is not None:
            delay_s = max(0, deadline_ns - _now_ns()) / NS_PER_S
            self._deadline_timer = self._loop.call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._deadline_timer = None
        next_ns = self.deadlines.expire(_now_ns())
        if next_ns is not None:
            self._arm(next_ns)


class _Connection(asyncio.BufferedProtocol):
    """One socket."""

    def __init__(self, server: Http2Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._flush_soon = False
        # Where the next read goes unless it is the buffer that connections share.
        self._room: memoryview | None = None
        # Since when the transport is full, or closing.
        self._blocked_ns: int | None = None
        self._closing_ns: int | None = None
        self.grpc = GrpcConnection(
            server.service,
            server.limits,
            server.deadlines,
            self._on_output,
            _now_ns(),
            server.compression,
        )

    # ---- asyncio -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._server.opened(self):
            _log.warning(
                "gRPC connection refused: %d are open, the limit", self._server.connection_count
            )
            self._transport.abort()
            return
        encrypted = transport.get_extra_info("ssl_object")
        if encrypted is not None and encrypted.selected_alpn_protocol() != _ALPN:
            _log.info("gRPC connection refused: TLS without ALPN h2")
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=self._server.limits.write_burst_bytes)
        self.grpc.h2.keepalive.spread_age(random.random())  # noqa: S311 - spreads load
        if self._server.draining:
            self.grpc.h2.lifecycle.drain(_now_ns())
        self._flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self.grpc.h2.cut_stream is not None:
            self._room = self.grpc.room()
        return self._server.read_buffer if self._room is None else self._room

    def buffer_updated(self, nbytes: int) -> None:
        grpc = self.grpc
        room, self._room = self._room, None
        if room is not None:
            grpc.receive(room[:nbytes], _now_ns())
        elif nbytes <= _COPIED_READ_BYTES:
            grpc.receive(bytes(self._server.read_buffer[:nbytes]), _now_ns())
        else:
            grpc.receive(self._server.read_buffer[:nbytes], _now_ns())
        if grpc.h2.needs_service:
            self._flush()

    def pause_writing(self) -> None:
        self.grpc.h2.out.blocked = True
        self._blocked_ns = _now_ns()
        # A peer that does not read must not go on asking.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.grpc.h2.out.blocked = False
        self._blocked_ns = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._on_output()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._server.closed(self)
        self.grpc.lost()

    # ---- the server ----------------------------------------------------------------------------

    def drain(self) -> None:
        """Begin to end the connection."""
        self.grpc.h2.lifecycle.drain(_now_ns())
        self._flush()

    def abort(self) -> None:
        """Drop the connection now."""
        if self._transport is not None:
            self._transport.abort()
            self.grpc.lost()

    def on_time(self, now_ns: int) -> None:
        """Apply the timeouts."""
        limits = self._server.limits
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
        if violation is not None:
            _log.info(
                "gRPC connection of %s ended: %s, %s",
                transport.get_extra_info("peername"),
                violation.code.name,
                violation.message,
            )
        self._closing_ns = _now_ns()
        self.grpc.lost()
        transport.close()
