# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where the other routers' tickets arrive at the holder of a node's queues."""

import socket
import ssl
from typing import Final

from deployments.lane.connection import LaneConnection
from deployments.lane.handshake import MIN_SECRET_BYTES
from deployments.lane.messages import LaneLimits
from deployments.pool_queue.connection import TICKET_LIMITS
from deployments.pool_queue.foreign_ticket import HeldQueues
from deployments.pool_queue.listener import Listener
from deployments.pool_queue.party_lane import PartyLane

BACKLOG: Final = 1024


class TicketServer:
    """The holder's lanes of tickets; implements `deployments.pool_queue.party_lane.PartyLanes`.

    Everything happens on the event loop on which it was opened.

    Args:
        queues: The queues that this process holds while it is open.
        secret: The cluster's lane secret.
        limits: Bounds of each lane.

    Attributes:
        epoch: Of the holder; 0 while it is not open.
    """

    def __init__(
        self, queues: HeldQueues, *, secret: bytes, limits: LaneLimits = TICKET_LIMITS
    ) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ValueError(f"the lane secret needs at least {MIN_SECRET_BYTES} bytes")
        self.queues = queues
        self.secret = secret
        self.limits = limits
        self.epoch = 0
        self.lanes: set[PartyLane] = set()
        self.unproved_count = 0
        self._listeners: list[Listener] = []

    @property
    def ticket_count(self) -> int:
        """Tickets that wait, of all routers."""
        return sum(lane.waiting_count for lane in self.lanes)

    def open(self, sock: socket.socket, epoch: int) -> None:
        """Accept the routers of this node.

        Args:
            sock: A Unix socket that listens; it is closed with the server.
            epoch: Of the holder.
        """
        self.epoch = epoch
        self._listeners.append(Listener(sock, self._local_end))

    def accept_remote(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> int:
        """Accept the routers of other nodes, after `open`, and return the port.

        Args:
            sock: A TCP socket that listens; it is closed with the server.
            tls: Context of these lanes; None leaves them in clear text.
        """
        sock.setblocking(False)
        port: int = sock.getsockname()[1]
        self._listeners.append(
            Listener(sock, self._remote_end, tls, self.limits.handshake_timeout_s)
        )
        return port

    def close(self) -> None:
        """Give up the sockets, so that another may hold; then close the lanes.

        Whatever was granted or refused before is still written.
        """
        self.epoch = 0
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        for lane in list(self.lanes):
            lane.close()

    def _local_end(self) -> LaneConnection:
        return PartyLane(self, is_local=True).connection

    def _remote_end(self) -> LaneConnection:
        return PartyLane(self, is_local=False).connection
