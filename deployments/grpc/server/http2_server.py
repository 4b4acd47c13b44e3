# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Our gRPC server: listening, drain, timers and TLS around `deployments.http2`.

One protocol object per connection and no task per call.
"""

import asyncio
import heapq
import logging
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from deployments.grpc.rpc.compression import ResponseCompression
from deployments.grpc.rpc.deadlines import Deadlines
from deployments.grpc.rpc.service import RpcService
from deployments.grpc.server.connection import ALPN, ServiceFor, SocketConnection
from deployments.http2.limits import NS_PER_S, Http2Limits
from deployments.security.refusals import RefusalLog
from deployments.security.tls import TlsFiles
from deployments.security.tls_reload import listening_with
from deployments.supervision.listener import Listener
from deployments.supervision.memory_budget import MemoryBudget
from deployments.supervision.peer_limit import PeerLimit

_log = logging.getLogger(__name__)

_READ_BUFFER_BYTES: Final = 1 << 18
# Threads that decompress; zlib runs without the interpreter's lock.
_OFFLOAD_THREADS: Final = 2
# Idle connections looked up at a time to make room for others, at most once a second.
_ROOM_COUNT: Final = 64


class Http2Server:
    """A gRPC server on our own HTTP/2.

    Args:
        service: Gets the calls, on the loop that `start` runs on.
        limits: All bounds.
        tls: Set to serve TLS.
        compression: What responses are compressed with.
        budget: What messages take their memory from until they are answered or sent; without one,
            as much as a single connection may use.
        clock_ns: The clock, in nanoseconds.
        service_for: Returns the service of a connection by its peer; None where all have one.

    Attributes:
        is_draining: Whether clients are asked to go elsewhere.
        read_buffer: Where connections receive; each has dealt with what it got before the next one
            reads.
    """

    def __init__(
        self,
        service: RpcService,
        *,
        limits: Http2Limits | None = None,
        tls: TlsFiles | None = None,
        compression: ResponseCompression | None = None,
        budget: MemoryBudget | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        service_for: ServiceFor | None = None,
    ) -> None:
        self.service = service
        self.service_for = service_for
        self.compression = compression
        self._tls = tls
        self.limits = limits = limits or Http2Limits()
        self.budget = budget or MemoryBudget(limits.max_partial_bytes + limits.max_queued_bytes)
        self.clock_ns = clock_ns
        self.deadlines = Deadlines(self._arm)
        self.is_draining = False
        self.read_buffer = memoryview(bytearray(_READ_BUFFER_BYTES))
        self._listener: Listener[SocketConnection] = Listener("gRPC", self._new_connection)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._sweep_s = limits.keepalive.resolution_ns / NS_PER_S
        self._peers: PeerLimit[SocketConnection] = PeerLimit(limits.max_connections_per_peer)
        self._threads: ThreadPoolExecutor | None = None
        # For connections at the limit: who may go, who is going and when that was last looked up.
        self._idle: list[SocketConnection] = []
        self._leaving: set[SocketConnection] = set()
        self._looked_ns = -NS_PER_S
        self._refusals = RefusalLog(_log, lambda: clock_ns() / NS_PER_S)

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return len(self._listener.connections)

    @property
    def inflight_count(self) -> int:
        """Calls whose answer is not completely sent."""
        return sum(each.grpc.inflight_count for each in self._listener.connections)

    async def start(
        self,
        host: str,
        port: int,
        *,
        reuse_port: bool = False,
        sock: socket.socket | None = None,
    ) -> int:
        """Listen and return the port.

        Args:
            host: The address to bind.
            port: The port, or 0 for any.
            reuse_port: Share the port with other processes (SO_REUSEPORT).
            sock: A listening socket to take over in place of binding one.

        Raises:
            OSError: The address cannot be bound.
            InvalidArgumentError: A TLS file cannot be used.
        """
        handshake_timeout_s = self.limits.handshake_timeout_ns / NS_PER_S
        encryption = listening_with(self._tls, ALPN, handshake_timeout_s)
        self._loop = asyncio.get_running_loop()
        return await self._listener.start(
            host, port, reuse_port=reuse_port, sock=sock, encryption=encryption
        )

    def listening_socket(self) -> socket.socket | None:
        """Return the socket, to be handed to a successor; None when there is not exactly one."""
        return self._listener.listening_socket()

    def begin_drain(self) -> None:
        """Ask the clients to open no further calls here; what comes all the same is served.

        A connection that opens from now on is asked after its first call, or after a grace.
        """
        if not self.is_draining:
            self.is_draining = True
            for connection in list(self._listener.connections):
                connection.drain()

    def turn_newcomers_away(self) -> None:
        """Drop the first packet of every connection; those that are being made are accepted."""
        self._listener.turn_newcomers_away()

    def stop_accepting(self) -> None:
        """Accept what has connected by now, then close the listening socket. Implies a drain."""
        self.begin_drain()
        self._listener.stop_accepting()

    def release_listener(self) -> None:
        """Leave what has connected, and will, to the successor that has the listening socket.

        Implies a drain.
        """
        self.begin_drain()
        self._listener.release()

    async def wait_drained(self, timeout_s: float) -> bool:
        """Wait until the last connection has ended; False when that takes longer.

        Implies `stop_accepting`.
        """
        self.stop_accepting()
        return await self._listener.wait_ended(timeout_s)

    def close(self) -> None:
        """Stop listening and drop all connections; their calls are cancelled."""
        self._listener.close()
        for connection in list(self._listener.connections):
            connection.abort()
        for timer in (self._deadline_timer, self._sweep_timer):
            if timer is not None:
                timer.cancel()
        self._deadline_timer = self._sweep_timer = None
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    # ---- for the connections -------------------------------------------------------------------

    def opened(self, connection: SocketConnection) -> bool:
        """Count a connection in; False when there are too many and all of them have calls."""
        if self._peers.limit and not self._peers.opened(connection, connection.peer_host):
            self._refusals.note(
                logging.WARNING,
                "peers",
                f"gRPC connections are refused: {connection.peer_host} has {self._peers.limit}"
                " already, the limit of one peer",
            )
            return False
        limit = self.limits.max_connections
        if self.connection_count - len(self._leaving) >= limit and not self._make_room():
            self._refusals.note(
                logging.WARNING,
                "connections",
                f"gRPC connections are refused: {self.connection_count} are open, the limit, and"
                " none is idle",
            )
            self._peers.closed(connection)
            return False
        self._listener.opened(connection)
        if self._sweep_timer is None and self._loop is not None:
            self._sweep_timer = self._loop.call_later(self._sweep_s, self._sweep)
        return True

    def closed(self, connection: SocketConnection) -> None:
        """Count a connection out."""
        self._leaving.discard(connection)
        self._peers.closed(connection)
        self._listener.closed(connection)

    def note_closed(self, reason: str) -> None:
        """Say in the log why a connection is closed before its peer wanted it."""
        self._refusals.note(logging.INFO, "closed", f"a gRPC connection is closed: {reason}")

    def offload(
        self, work: Callable[[], None], done: Callable[[BaseException | None], None]
    ) -> None:
        """Run ``work`` on a thread, then ``done`` on the loop with the error, if there was one."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_OFFLOAD_THREADS, "grpc-inflate")
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)

        def ended(future: asyncio.Future[None]) -> None:
            # Cancelled means closed: the calls have gone already.
            if not future.cancelled():
                done(future.exception())

        running.add_done_callback(ended)

    def _new_connection(self) -> SocketConnection:
        return SocketConnection(self, asyncio.get_running_loop())

    def _make_room(self) -> bool:
        """Ask the connection without calls that has been silent longest to go."""
        # Those that are asked to go still have their sockets for a moment.
        if len(self._leaving) > self.limits.max_connections // 8:
            return False
        now_ns = self.clock_ns()
        if not self._idle and now_ns - self._looked_ns >= NS_PER_S:
            self._looked_ns = now_ns
            idle = (each for each in self._listener.connections if each not in self._leaving)
            self._idle = heapq.nlargest(
                _ROOM_COUNT, idle, lambda each: each.grpc.h2.idle_ns(now_ns)
            )
            self._idle.reverse()
        while self._idle:
            connection = self._idle.pop()
            if connection in self._listener.connections and connection.make_room():
                self._leaving.add(connection)
                return True
        return False

    # ---- timers --------------------------------------------------------------------------------

    def _sweep(self) -> None:
        self._sweep_timer = None
        now_ns = self.clock_ns()
        for connection in list(self._listener.connections):
            connection.on_time(now_ns)
        if self._listener.connections and self._loop is not None:
            self._sweep_timer = self._loop.call_later(self._sweep_s, self._sweep)

    def _arm(self, deadline_ns: int) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        if self._loop is not None:
            delay_s = max(0, deadline_ns - self.clock_ns()) / NS_PER_S
            self._deadline_timer = self._loop.call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._deadline_timer = None
        next_ns = self.deadlines.expire(self.clock_ns())
        if next_ns is not None:
            self._arm(next_ns)
