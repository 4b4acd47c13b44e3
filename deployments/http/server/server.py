# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An HTTP/1.1 server: its connections, the sweep that finds slow peers, and the drain.

From `begin_drain` on the server goes on accepting and serving, and each answer is the last one of
its connection and says so, so that clients go elsewhere at their own pace. `stop_accepting` then
ends the port. Nothing that a client sent in between is left unanswered.
"""

import asyncio
import logging
import socket
from collections import deque
from typing import Final

from deployments.http.server.connection import HttpConnection
from deployments.http.server.head import KnownHeads
from deployments.http.server.host import Gate, HttpApplication, HttpLimits, ServedConnection
from deployments.security.refusals import RefusalLog
from deployments.security.tls import TlsFiles
from deployments.security.tls_reload import listening_with
from deployments.supervision.listener import Listener
from deployments.supervision.memory_budget import MemoryBudget
from deployments.supervision.peer_limit import PeerLimit
from deployments.tracing.tracer import Tracer

logger = logging.getLogger(__name__)

# Of a server that shares its budget with no other: two of the largest bodies.
DEFAULT_BUDGET_BYTES: Final = 1 << 32

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
        budget: What bodies and unread answers take memory from.
        gate: Decides who may ask; None when anybody may.

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
        budget: MemoryBudget | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.application = application
        self.gate = gate
        self.tracer = tracer or Tracer()
        self.budget = budget or MemoryBudget(DEFAULT_BUDGET_BYTES)
        self._tls = tls
        self.limits = limits or HttpLimits()
        self.tick = 0
        self.is_draining = False
        self.heads = KnownHeads(self.limits.head_bytes)
        self.read_buffer = memoryview(bytearray(_READ_BUFFER_BYTES))
        self._listener: Listener[ServedConnection] = Listener("HTTP", self._new_connection)
        self._peers: PeerLimit[ServedConnection] = PeerLimit(self.limits.peer_connection_count)
        self._sweeper: asyncio.TimerHandle | None = None
        self._drainer: asyncio.TimerHandle | None = None
        self._refusals = RefusalLog(logger)
        # Idle connections to be closed for new ones, those that are idle longest first.
        self._closable: deque[ServedConnection] = deque()
        self._closable_tick = -1

    # The port

    async def start(
        self, host: str, port: int, *, reuse_port: bool = False, sock: socket.socket | None = None
    ) -> int:
        """Listen.

        Args:
            host: Address to bind.
            port: Port, or 0 for any.
            reuse_port: Share the port with other processes (SO_REUSEPORT).
            sock: A listening socket to take over; nothing is bound then, and the server closes it.

        Returns:
            The bound port.

        Raises:
            OSError: The address cannot be bound.
            InvalidArgumentError: A TLS file cannot be used.
        """
        timeout_s = self.limits.handshake_timeout_s
        encryption = listening_with(self._tls, _ALPN, timeout_s)
        bound = await self._listener.start(
            host, port, reuse_port=reuse_port, sock=sock, encryption=encryption
        )
        self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep_again)
        return bound

    def listening_socket(self) -> socket.socket | None:
        """Return the socket, to be handed to a successor; None when there is not exactly one."""
        return self._listener.listening_socket()

    # The drain

    def begin_drain(self, idle_grace_s: float = 1.0) -> None:
        """Have each connection end with its next answer, or after a while without a request.

        Args:
            idle_grace_s: How long an idle connection stays open at least. Its peer cannot know of
                the drain; a request that it sends meanwhile is answered.
        """
        if self.is_draining:
            return
        self.is_draining = True
        self._close_idle(idle_grace_s)

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
        """Close everything at once."""
        self.is_draining = True
        self._listener.close()
        for timer in (self._sweeper, self._drainer):
            if timer is not None:
                timer.cancel()
        for connection in list(self._listener.connections):
            connection.close()

    def _close_idle(self, grace_s: float) -> None:
        """Close the connections that were idle at the last call already, a grace ago."""
        for connection in list(self._listener.connections):
            if connection.was_idle:
                connection.close_idle()
            else:
                connection.was_idle = connection.is_idle
        again = asyncio.get_running_loop().call_later
        self._drainer = again(max(grace_s, 0.01), self._close_idle, grace_s)

    # What connections tell

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return len(self._listener.connections)

    @property
    def inflight_count(self) -> int:
        """Requests received and not yet answered."""
        return sum(each.exchange_count for each in self._listener.connections)

    def opened(self, connection: ServedConnection) -> bool:
        """Note a connection; False when there are too many and none of them is idle."""
        if self._peers.limit and not self._peers.opened(connection, connection.peer_host):
            self._refusals.note(
                logging.WARNING,
                "peers",
                f"HTTP connections are refused: {connection.peer_host} has {self._peers.limit}"
                " already, the limit of one peer",
            )
            return False
        if (
            len(self._listener.connections) >= self.limits.connection_count
            and not self._make_room()
        ):
            self._refusals.note(
                logging.WARNING,
                "connections",
                f"HTTP connections are refused: {self.connection_count} are open, the limit",
            )
            self._peers.closed(connection)
            return False
        self._listener.opened(connection)
        return True

    def closed(self, connection: ServedConnection) -> None:
        """Forget a connection."""
        self._peers.closed(connection)
        self._listener.closed(connection)

    def note_closed(self, reason: str) -> None:
        """Say in the log why a connection is closed before its peer wanted it."""
        self._refusals.note(logging.INFO, "closed", f"an HTTP connection is closed: {reason}")

    def _make_room(self) -> bool:
        """Close the connection that has been idle longest; False when there is none."""
        if not self._closable and self._closable_tick != self.tick:
            # Looking at all of them is dear: once a tick is enough.
            self._closable_tick = self.tick
            idle = (each for each in self._listener.connections if each.is_idle)
            self._closable.extend(sorted(idle, key=lambda each: each.active_tick))
        while self._closable:
            candidate = self._closable.popleft()
            if candidate in self._listener.connections and candidate.close_idle():
                self.note_closed("it was idle and its room is needed")
                return True
        return False

    def _new_connection(self) -> HttpConnection:
        return HttpConnection(self)

    # Time

    def sweep(self) -> None:
        """Count one tick and close connections whose peers are too slow."""
        self.tick += 1
        for connection in list(self._listener.connections):
            connection.sweep(self.tick)

    def _sweep_again(self) -> None:
        self.sweep()
        self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep_again)
