# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A router's part in its node: it holds the queues of the node's pools, or uses them.

Ingresses compete for holding; processes of models that call models use the queues only. What the
lanes of tickets say, from either end, comes together here and goes on to `NodePools`.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.batches import BatchPart, Holder
from deployments.lane.tls import lane_tls
from deployments.pool_queue.connection import ticket_limits_of
from deployments.pool_queue.election import Candidacy, socket_name
from deployments.pool_queue.holder_port import HolderPort
from deployments.pool_queue.own_request import OwnRequest
from deployments.pool_queue.precise_timer import PreciseTimer
from deployments.pool_queue.remote_holder import RemoteHolder
from deployments.pool_queue.ticket_lane import TicketLane
from deployments.pool_queue.ticket_server import BACKLOG, TicketServer
from deployments.pool_queue.waiting_ticket import TicketLaneOptions
from deployments.routing.node_pools import NodePools
from deployments.routing.pool import LinkPool, NodeQueue
from deployments.settings.lane_settings import LaneSettings
from deployments.supervision.supervisor import Supervisor

_log = logging.getLogger(__name__)

# How often a holder that has no port for other nodes looks for one.
_PORT_RETRY_S: Final = 5.0


class Membership:
    """What a router is to the lanes of tickets: their `TicketOwner`, a candidate, a client.

    Args:
        node_id: Ray node.
        secret: Key of the lanes' handshake.
        lanes: The server's options about lanes.
        pools: The pools of the node.
        reach: Opens a lane to an instance that goes on with sequences, if there is none; see
            `deployments.pool_queue.waiting_ticket.TicketOwner`.
        host: Address at which the router listens for those of other nodes once it holds the node's
            queues; None: it holds none.
    """

    def __init__(
        self,
        node_id: str,
        secret: bytes,
        lanes: LaneSettings,
        pools: NodePools,
        reach: Callable[[str, int, InstanceEndpoint], None],
        host: str | None,
    ) -> None:
        self.reach = reach
        self._secret = secret
        self._lanes = lanes
        self._pools = pools
        self._host = host or ""
        limits = ticket_limits_of(lanes)
        options = TicketLaneOptions(secret, self, limits, lanes.heartbeat_timeout_s)
        self._tls: ssl.SSLContext | None = None
        self._server: TicketServer | None = None
        self._port: HolderPort | None = None
        if host is not None:
            self._server = TicketServer(pools, secret=secret, limits=limits)
            self._port = HolderPort(self._listen, asyncio.get_running_loop().time)
        name = socket_name(secret, node_id)
        self._candidacy = Candidacy(
            name, self._server, options, self._become_holder, self._use, port=self._port
        )
        self._timer = PreciseTimer()
        self._is_closed = False
        self._options = options
        self._remote: dict[str, RemoteHolder] = {}
        self._tasks = Supervisor("membership")

    def start(self) -> None:
        """Compete, or look for the holder, from now on."""
        self._pools.clock = self._timer
        self._pools.told_of_remote = self.told_of_remote
        self._pools.deposed = self.deposed
        self._pools.follow(None)
        self._candidacy.start()

    def deposed(self) -> None:
        """Hold no more: while this process was stopped another one took its place."""
        if self._candidacy.is_holder:
            _log.warning("the queues of this node have a later holder")
            self._candidacy.depose()
            self._pools.follow(None)

    async def close(self) -> None:
        """Leave the node."""
        if self._is_closed:
            return
        self._is_closed = True
        self._candidacy.give_up()
        # At once: the next holder gives out the slots of sequences from now on. What waited in a
        # queue waits for an instance, which the router ends.
        self._pools.follow(None)
        await self._candidacy.close()
        for remote in list(self._remote.values()):
            await remote.close()
        await self._tasks.close()
        self._timer.close()

    def _become_holder(self, epoch: int) -> None:
        """Hold the queues of the node."""
        port = 0
        if self._port is not None and self._server is not None:
            sock = self._port.take()
            if sock is not None:
                port = self._server.accept_remote(sock, self._tls)
            else:
                self._tasks.spawn("port for other nodes", self._look_for_port(epoch))
        self._pools.hold(Holder(epoch, self._host, port))

    def _listen(self) -> socket.socket:
        self._tls = lane_tls(self._lanes.tls, self._secret).server
        return self._lanes.ports.listen(self._host, BACKLOG)

    async def _look_for_port(self, epoch: int) -> None:
        """Hold anew, with a port, once one is free: other nodes can reach the queues then."""
        port = self._port
        while port is not None and self._candidacy.epoch == epoch:
            await asyncio.sleep(_PORT_RETRY_S)
            if self._candidacy.epoch == epoch and port.find():
                self._candidacy.depose()
                self._pools.follow(None)

    def _use(self, lane: TicketLane | None) -> None:
        """Use the queues of the node's holder, or wait for the next one."""
        if lane is not None or not self._is_closed:
            self._pools.follow(lane)

    # Other nodes

    def told_of_remote(self, node_id: str, holder: Holder) -> None:
        """Take what an instance of another node says of its holder."""
        remote = self._remote.get(node_id)
        if remote is None:
            tls = lane_tls(self._lanes.tls, self._secret).client
            remote = RemoteHolder(
                node_id, self._options, self._pools.remote_changed, self._is_wanted, tls
            )
            self._remote[node_id] = remote
        remote.told(holder)

    def _is_wanted(self, node_id: str) -> bool:
        """Forget the holder of a node that has no instance any more."""
        if any(pool.has_instance_at(node_id) for pool in self._pools.all()):
            return True
        self._tasks.spawn(f"end of {node_id}", self._remote.pop(node_id).close())
        return False

    def remote_queue(self, node_id: str, pool: LinkPool) -> NodeQueue | None:
        """Return the queue of a version on another node; None while there is none."""
        remote = self._remote.get(node_id)
        if remote is None or remote.lane is None or pool.config is None:
            return None
        return remote.lane.queue_of(*pool.key, pool.config)

    # `deployments.pool_queue.waiting_ticket.TicketOwner`

    def send_part(self, instance: str, part: BatchPart, requests: Sequence[OwnRequest]) -> bool:
        """Send requests to an instance as a part of a batch; return whether that could be done."""
        lane = self._pools.lane_to(instance)
        if lane is None:
            return False
        lane.start_batch(part, requests)
        return True

    def returned(self, requests: list[OwnRequest]) -> None:
        """Send what waited at a holder that is gone to the next one."""
        for request in requests:
            request.come_back()
