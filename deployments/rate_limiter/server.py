# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The arbiter of a node: takes what claims say from their sockets and answers with grants.

A claim whose socket closes has left, whatever became of its process, and what it held is free.
"""

import logging
import select
import socket
from typing import Final

import msgspec

from backends.api.errors import TritonError
from deployments.rate_limiter.arbiter import ClaimEvent, ClaimPhase, ResourceArbiter
from deployments.rate_limiter.messages import (
    GRANTED,
    JOINED,
    MAX_PACKET_BYTES,
    REFUSED,
    decode_join,
    packet_socket,
    peer_process,
)
from deployments.rate_limiter.roster import Entry, Roster, entry_of
from deployments.reactor.reactor import Reactor

_log = logging.getLogger(__name__)

_BACKLOG: Final = 128
# How often a new arbiter looks whether those it waits for are dead.
_LOOK_S: Final = 0.02


class _Connection:
    """One claim's socket; a member once it has joined."""

    __slots__ = ("entry", "name", "sock")

    def __init__(self, sock: socket.socket, entry: Entry) -> None:
        self.sock = sock
        self.entry = entry
        self.name = ""


class ArbiterServer:
    """Serves an arbiter on a reactor.

    Args:
        reactor: Whoever turns it does all the work.
        path: The socket's abstract name.
        arbiter: The arbiter, not open yet.
        roster: Who had joined the one before.

    Raises:
        OSError: The name is taken: there is another arbiter.
    """

    def __init__(
        self, reactor: Reactor, path: str, arbiter: ResourceArbiter, roster: Roster
    ) -> None:
        self._reactor = reactor
        self._arbiter = arbiter
        self._roster = roster
        self._awaited = roster.read_living()
        self._members: dict[str, _Connection] = {}
        self._connections: set[_Connection] = set()
        self._listener = packet_socket()
        try:
            self._listener.bind(path)
            self._listener.listen(_BACKLOG)
        except OSError:
            self._listener.close()
            raise
        reactor.watch(self._listener.fileno(), select.EPOLLIN, self._accept)
        reactor.call_soon_threadsafe(self._look)

    @property
    def member_count(self) -> int:
        """Instances that have joined."""
        return len(self._members)

    def close(self) -> None:
        """Stop; on the thread that turns the reactor, or when none does any more."""
        self._reactor.forget(self._listener.fileno())
        self._listener.close()
        for connection in list(self._connections):
            self._reactor.forget(connection.sock.fileno())
            connection.sock.close()
        self._connections.clear()

    def _look(self) -> None:
        """Open the arbiter once nobody is left that may hold what it does not know of."""
        if self._arbiter.is_open:
            return
        self._awaited = {entry for entry in self._awaited if entry_of(entry[0]) == entry}
        if self._awaited:
            self._reactor.call_later(_LOOK_S, self._look)
        else:
            self._tell(self._arbiter.open())

    def _accept(self, _: int) -> None:
        try:
            sock, _address = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        pid = peer_process(sock)
        entry = None if pid is None else entry_of(pid)
        if entry is None:
            sock.close()
            return
        connection = _Connection(sock, entry)
        self._connections.add(connection)
        self._reactor.watch(sock.fileno(), select.EPOLLIN, lambda _mask: self._readable(connection))

    def _readable(self, connection: _Connection) -> None:
        try:
            packet = connection.sock.recv(MAX_PACKET_BYTES)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._lose(connection)
        elif connection.name:
            self._hear(connection, packet)
        else:
            self._admit(connection, packet)

    def _admit(self, connection: _Connection, packet: bytes) -> None:
        try:
            join = decode_join(packet)
            phase = ClaimPhase(join.phase)
        except (msgspec.MsgspecError, ValueError):
            self._lose(connection)
            return
        # The claim's process gave it up before its end was noticed.
        former = self._members.get(join.name)
        if former is not None:
            self._lose(former)
        try:
            granted = self._arbiter.join(join.name, join.demand, phase)
        except TritonError as error:
            self._send(connection, REFUSED + error.message.encode())
            self._lose(connection)
            return
        connection.name = join.name
        self._members[join.name] = connection
        self._roster.add(connection.entry)
        self._awaited.discard(connection.entry)
        self._send(connection, JOINED)
        self._tell(granted)

    def _hear(self, connection: _Connection, packet: bytes) -> None:
        try:
            granted = self._arbiter.apply(connection.name, ClaimEvent(packet.decode()))
        except ValueError as error:
            _log.warning("rate limiter: instance %s: %s", connection.name, error)
            self._lose(connection)
        else:
            self._tell(granted)

    def _lose(self, connection: _Connection) -> None:
        self._reactor.forget(connection.sock.fileno())
        connection.sock.close()
        self._connections.discard(connection)
        if connection.name:
            del self._members[connection.name]
            granted = self._arbiter.leave(connection.name)
            self._roster.remove(connection.entry)
            self._tell(granted)

    def _tell(self, granted: list[str]) -> None:
        for name in granted:
            self._send(self._members[name], GRANTED)

    def _send(self, connection: _Connection, packet: bytes) -> None:
        try:
            connection.sock.send(packet)
        except OSError:
            # It is gone, of which its socket tells next.
            _log.debug("rate limiter: instance %s is gone", connection.name)
