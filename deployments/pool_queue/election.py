# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which process of a node holds the queues: whoever has bound one abstract socket.

The kernel is the judge. A name can be bound once, and is free the moment its process is gone or has
closed it, so there is never a second holder and never a file that a dead one left behind. Whoever
finds the name taken connects to it. Between another's ``bind`` and ``listen``, and while a dying
process still has its descriptors, a connection is refused although the name is taken: both pass
within milliseconds, and are tried again.

A holder that is stopped keeps the name. Who finds it silent goes on to the *next* name, and so on:
whoever is first there holds. Of two holders the later one is right, which instances know: one that
was left behind is told so (`Candidacy.depose`) and begins again with the first name. So does
everybody whose lane ends otherwise.

Who finds no TCP port for routers of other nodes lets others hold first (`HolderPort`).
"""

import asyncio
import errno
import hmac
import logging
import socket
import time
from collections.abc import Callable
from typing import Final

from backends.api.errors import UnavailableError
from deployments.pool_queue.holder_port import HolderPort
from deployments.pool_queue.ticket_lane import TicketLane
from deployments.pool_queue.ticket_server import BACKLOG, TicketServer
from deployments.pool_queue.waiting_ticket import TicketLaneOptions
from deployments.supervision.supervisor import Supervisor

logger = logging.getLogger(__name__)

_PURPOSE: Final = b"manta holder of the queues of a node\0"
_NAME_DIGITS: Final = 32
_FIRST_RETRY_S: Final = 0.001
_LONGEST_RETRY_S: Final = 0.2


def socket_name(secret: bytes, node_id: str) -> str:
    """Return the abstract name of a node's socket, which tells nothing of the secret.

    Args:
        secret: The cluster's lane secret.
        node_id: Ray's id of the node.
    """
    digest = hmac.digest(secret, _PURPOSE + node_id.encode(), "sha256")
    return f"\0manta/holder/{digest.hex()[:_NAME_DIGITS]}"


class Candidacy:
    """One process's part in the choice of its node's holder.

    Args:
        name: Abstract name of the node's socket.
        server: Takes other routers' tickets once this process is the holder; None for a process
            that may not be.
        options: Of the lane to another holder.
        became_holder: Called with its epoch when the node's queues are held here from now on, until
            `give_up`; no other router's ticket has come yet.
        follow: Called with the open lane to the holder; with None when that has ended, and what
            waited comes back.
        port: Where routers of other nodes are to reach the holder; None where they are not to.

    Attributes:
        epoch: When this process became the holder, in nanoseconds; 0 while it is not.
        lane: The open lane to the holder; None while there is none.
    """

    def __init__(
        self,
        name: str,
        server: TicketServer | None,
        options: TicketLaneOptions,
        became_holder: Callable[[int], None],
        follow: Callable[[TicketLane | None], None],
        port: HolderPort | None = None,
    ) -> None:
        self._name = name
        self._port = port
        self._server = server
        self._may_hold = server is not None
        self._options = options
        self._became_holder = became_holder
        self._follow = follow
        self._supervisor = Supervisor("choice of the holder")
        self._ended = asyncio.Event()
        # How many names are passed over because their holders say nothing.
        self._passed_count = 0
        self.epoch = 0
        self.lane: TicketLane | None = None

    @property
    def is_holder(self) -> bool:
        """Whether this process holds the node's queues."""
        return self.epoch != 0

    def start(self) -> None:
        """Compete from now on."""
        self._supervisor.keep("candidacy", self._compete)

    def give_up(self) -> None:
        """Hold no more, now and later; use the queues of whoever holds next.

        When this returns the name is free, and the lanes of the other routers are closed.
        """
        self._may_hold = False
        self.depose()

    def depose(self) -> None:
        """Hold no more for now: a later holder is there, or this process ends."""
        if self.epoch and self._server is not None:
            self.epoch = 0
            self._server.close()
        self._passed_count = 0
        self._ended.set()

    async def close(self) -> None:
        """Leave: neither hold nor use a queue; that a lane has ended is the last of it."""
        self.give_up()
        await self._supervisor.close()
        if self.lane is not None:
            self.lane.close()
        self._let_go_of_port()

    def _let_go_of_port(self) -> None:
        if self._port is not None:
            self._port.let_go()

    @property
    def _name_now(self) -> str:
        """The name that is competed for now."""
        return f"{self._name}/{self._passed_count}" if self._passed_count else self._name

    async def _compete(self) -> None:
        delay_s = _FIRST_RETRY_S
        while True:
            if self._try_to_hold():
                await self._ended.wait()
                continue
            lane = await self._connect()
            if lane is not None:
                delay_s = _FIRST_RETRY_S
                await self._use(lane)
                continue
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, _LONGEST_RETRY_S)

    def _try_to_hold(self) -> bool:
        server = self._server
        if server is None or not self._may_hold:
            return False
        sock = _unix_socket()
        try:
            sock.bind(self._name_now)
            if self._port is not None and not self._port.may_hold():
                sock.close()
                return False
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRINUSE:
                logger.warning("cannot hold the queues of this node: %s", error)
            return False
        self._ended.clear()
        self.epoch = epoch = time.monotonic_ns()
        server.open(sock, epoch)
        logger.debug("elected queue leader for this node")
        self._became_holder(epoch)
        return True

    async def _connect(self) -> TicketLane | None:
        sock = _unix_socket()
        try:
            # Not through the loop: such a connection is made, or refused, at once.
            sock.connect(self._name_now)
        except OSError:
            # Nobody listens; or so many want to connect that another time is better.
            sock.close()
            self._passed_count = 0
            return None
        try:
            return await TicketLane(self._options, is_local=True).open_unix(sock)
        except UnavailableError as error:
            logger.info("%s; trying again", error)
            if isinstance(error.__cause__, TimeoutError):
                self._passed_count += 1
            return None

    async def _use(self, lane: TicketLane) -> None:
        self.lane = lane
        self._let_go_of_port()
        lane.on_ended = self._lose
        self._follow(lane)
        await lane.wait_ended()
        self._passed_count = self._passed_count + 1 if lane.was_silent else 0

    def _lose(self) -> None:
        self.lane = None
        self._follow(None)


def _unix_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
