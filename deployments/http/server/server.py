# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An HTTP/1.1 server: listening, drain and the sweep that finds slow peers."""

import asyncio
import contextlib
import logging
import socket
from typing import Final

from deployments.http.server.answering import AnsweringConnection
from deployments.http.server.connection import HttpConnection
from deployments.http.server.exchange import HttpApplication, HttpLimits
from deployments.http.server.head import KnownHeads
from deployments.security.tls import TlsFiles
from deployments.tracing.tracer import Tracer

logger = logging.getLogger(__name__)

# Connections the kernel completes for us while the loop is busy; Triton listens with as many.
_BACKLOG: Final = 1024
_SWEEP_S: Final = 1.0
_READ_BUFFER_BYTES: Final = 1 << 18
_ALPN: Final = "http/1.1"


class HttpServer:
    """Serves an application on one port.

    Args:
        application: What answers.
        limits: What peers may ask.
        tls: Set to serve TLS.
        tracer: While it is on, exchanges note when they began.

    Attributes:
        tick: Sweeps so far; what connections measure time in.
        is_draining: Whether connections end with their present requests.
        heads: The heads that clients repeat.
        read_buffer: Where connections receive; each has parsed what it got before the next reads.
    """

    def __init__(
        self,
        application: HttpApplication,
        limits: HttpLimits | None = None,
        *,
        tls: TlsFiles | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.application = application
        self.tracer = tracer or Tracer()
        self._tls = tls
        self.limits = limits or HttpLimits()
        self.tick = 0
        self.is_draining = False
        self.heads = KnownHeads(self.limits.head_bytes)
        self.read_buffer = memoryview(bytearray(_READ_BUFFER_BYTES))
        self._connections: set[AnsweringConnection] = set()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._drained = asyncio.Event()
        # When the limit of connections, and a connection's end, were last told of: once a sweep is
        # enough.
        self._told_tick = -1
        self._closed_tick = -1

    async def start(self, host: str, port: int, *, reuse_port: bool = False) -> int:
        """Listen.

        Returns:
            The bound port.

        Raises:
            OSError: The address cannot be bound.
            InvalidArgumentError: A TLS file cannot be used.
        """
        loop = asyncio.get_running_loop()
        timeout_s = self.limits.handshake_timeout_s
        encryption = self._tls.listen_options(_ALPN, timeout_s) if self._tls else {}
        self._server = await loop.create_server(
            lambda: HttpConnection(self),
            host,
            port,
            reuse_port=reuse_port,
            backlog=_BACKLOG,
            **encryption,
        )
        self._sweeper = loop.call_later(_SWEEP_S, self._sweep_again)
        listening = self._server.sockets[0]
        # Inherited by what is accepted: only the kernel notices that an idle peer has died.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        bound: int = listening.getsockname()[1]
        return bound

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return len(self._connections)

    @property
    def inflight_count(self) -> int:
        """Requests received and not yet answered."""
        return sum(each.exchange_count for each in self._connections)

    def begin_drain(self) -> None:
        """Accept nothing new; connections close with their next answer, or idle after a while.

        A peer that has just sent a request on an idle connection cannot know of the drain. It gets
        its answer, which tells it that the connection ends.
        """
        self.is_draining = True
        if self._server is not None:
            self._server.close()
        asyncio.get_running_loop().call_later(self.limits.drain_linger_s, self._end_linger)
        self._check_drained()

    async def wait_drained(self, timeout_s: float) -> None:
        """Wait until all connections are closed, at most ``timeout_s``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._drained.wait()

    def close(self) -> None:
        """Close everything at once."""
        self.is_draining = True
        if self._server is not None:
            self._server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._connections):
            connection.close()
        self._check_drained()

    def sweep(self) -> None:
        """Count one tick and close connections whose peers are too slow."""
        self.tick += 1
        for connection in list(self._connections):
            connection.sweep(self.tick)

    def opened(self, connection: AnsweringConnection) -> bool:
        """Note a connection; False when there are too many."""
        if len(self._connections) >= self.limits.connection_count:
            if self._told_tick != self.tick:
                self._told_tick = self.tick
                logger.warning(
                    "HTTP connections are refused: %d are open, the limit", self.connection_count
                )
            return False
        self._connections.add(connection)
        return True

    def note_closed(self, reason: str) -> None:
        """Say in the log why a connection is closed without an answer."""
        if self._closed_tick != self.tick:
            self._closed_tick = self.tick
            logger.info("an HTTP connection is closed: %s", reason)

    def closed(self, connection: AnsweringConnection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)
        self._check_drained()

    def _end_linger(self) -> None:
        for connection in list(self._connections):
            connection.close_idle()

    def _check_drained(self) -> None:
        if self.is_draining and not self._connections:
            self._drained.set()

    def _sweep_again(self) -> None:
        self.sweep()
        self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep_again)
