# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The instance's end of its lanes: where routers connect."""

import socket
import ssl
from typing import Final

from deployments.lane.connection import LaneConnection
from deployments.lane.crash_report import NO_PLACE, CrashPlace
from deployments.lane.frames import GOAWAY
from deployments.lane.messages import DEFAULT_LIMITS, LaneLimits
from deployments.lane.server_lane import LaneHandler, ServerLane, ServerState
from deployments.lane.server_request import ServerRequest
from deployments.reactor.reactor import Reactor
from deployments.reactor.sockets import ListeningSocket
from deployments.settings.port_range import ANY_PORT, PortRange
from deployments.shared_memory.objects import RegionMemory
from deployments.slabs.pool import SlabPool

__all__ = ["LaneHandler", "LaneServer", "ServerRequest"]

_BACKLOG: Final = 1024


class LaneServer:
    """Listens for lanes on a Unix socket and on TCP.

    All but `start` is for the thread that turns the reactor.

    Args:
        handler: Where requests go.
        reactor: What carries the lanes.
        secret: The cluster's lane secret.
        slabs: The slabs of this process, for large outputs.
        incarnation: The instance's incarnation; routers that expect another one turn away.
        limits: Bounds of each lane.
        memory: Access to clients' shared memory.
        crash_place: What the process leaves for routers to read when it crashes.
    """

    def __init__(
        self,
        handler: LaneHandler,
        *,
        reactor: Reactor,
        secret: bytes,
        slabs: SlabPool,
        incarnation: str = "",
        limits: LaneLimits = DEFAULT_LIMITS,
        memory: RegionMemory | None = None,
        crash_place: CrashPlace = NO_PLACE,
    ) -> None:
        self._state = ServerState(
            reactor, handler, slabs, incarnation, limits, memory or RegionMemory(), crash_place
        )
        self._secret = secret
        self._listeners: list[ListeningSocket] = []

    def start(
        self,
        uds: str,
        tcp_host: str | None = None,
        ports: PortRange = ANY_PORT,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[str, int]:
        """Listen; on any thread.

        Args:
            uds: Abstract name of the Unix socket, with its NUL.
            tcp_host: Address for routers on other nodes; None for a server of one node.
            ports: Where to listen at that address.
            tls: Context for TCP lanes.

        Returns:
            Host and port; ``("", 0)`` without TCP.

        Raises:
            OSError: An address cannot be bound.
            UnavailableError: All ports are in use.
        """
        self._listen(_bind_unix(uds), offers_slabs=True)
        if tcp_host is None:
            return "", 0
        try:
            sock = ports.listen(tcp_host, _BACKLOG)
            sock.setblocking(False)
        except BaseException:
            self.close()
            raise
        port: int = sock.getsockname()[1]
        self._listen(sock, tls, offers_slabs=False)
        return tcp_host, port

    def start_draining(self) -> None:
        """Ask all routers, also those that connect from now on, for no more requests."""
        self._state.is_draining = True
        self._state.holding.tell(GOAWAY)

    def close(self) -> None:
        """Stop listening and close all lanes after what was answered has been written."""
        for listener in self._listeners:
            listener.close()
        for connection in list(self._state.holding.connections):
            connection.close("closed here")
        self._listeners.clear()

    def _listen(
        self, sock: socket.socket, tls: ssl.SSLContext | None = None, *, offers_slabs: bool
    ) -> None:
        def make_end() -> LaneConnection:
            return ServerLane(self._state, self._secret, offers_slabs=offers_slabs).connection

        self._listeners.append(ListeningSocket(self._state.reactor, sock, make_end, tls))


def _bind_unix(uds: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.bind(uds)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
