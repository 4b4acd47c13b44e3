# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A replica that starts takes over the listening sockets of the replica that it replaces.

The kernel queues connections behind a listening socket, not behind a port: what has connected to a
socket is lost with that socket, however many others share its port. So the successor does not bind
a socket of its own but gets the predecessor's, over a Unix socket between the two::

    successor     handshake, then Want: its build, and the addresses it will serve by protocol
    predecessor   Offer: the protocols whose sockets come along; or it closes the connection
                  because it has a successor already, or is of the same build and not replaced
    successor     Serves: the protocols that it has begun to serve with those sockets

From then on both accept out of one queue, until the predecessor stops. The connection stays open
meanwhile: its end tells the predecessor that the successor is dead, and that another may come.

The Unix sockets are abstract, so that none is left behind by whoever is killed; each replica takes
the first of a row of names that is free. Everybody on the machine can connect to them, hence the
handshake.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol, TypeVar

import msgspec

from deployments.supervision.supervisor import Supervisor

_log = logging.getLogger(__name__)

Address = tuple[str, int]

# Replicas of one node that can be found; those in excess bind sockets of their own.
PLACES: Final = 256
# A message is a packet; so are the handshake's.
_MESSAGE_BYTES: Final = 1 << 16
_SOCKETS: Final = 16
# A peer that says nothing for as long is stopped, or no peer.
_ANSWER_TIMEOUT_S: Final = 2.0
# From a successor's getting the sockets until it serves; meanwhile it waits for a routing table.
_START_TIMEOUT_S: Final = 60.0
_BACKLOG: Final = 16
# Peers that are heard at a time; only one of them can be the successor.
_PEERS: Final = 16

_Message = TypeVar("_Message", bound=msgspec.Struct)


class Proof(Protocol):
    """One end of a handshake, such as those of `deployments.lane.handshake`."""

    @property
    def is_done(self) -> bool:
        """Whether the peer has proved itself."""

    def open(self) -> bytes:
        """Return what is sent before anything is received."""

    def feed(self, data: bytes) -> bytes:
        """Take a message and return the next; raises if the peer fails."""


class Want(msgspec.Struct, frozen=True):
    """What a successor asks for."""

    build: str
    addresses: dict[str, Address]


class Offer(msgspec.Struct, frozen=True):
    """Protocols in the order of the sockets that come along, and whether their giver is healthy."""

    names: list[str]
    has_started: bool = False


class Serves(msgspec.Struct, frozen=True):
    """Protocols that the successor serves with the sockets it got."""

    names: list[str]


class Bequest:
    """The side of a replica that runs: gives its sockets to at most one successor.

    Args:
        prefix: First part of the Unix sockets' names; the same for all replicas that may follow
            each other.
        build: Name of this replica's build; a replica of the same one is no successor.
        make_proof: Makes the accepting end of a handshake.
        find: Returns address and listening socket of each protocol whose socket can be given.
        has_started: Says whether load balancers are told to send requests here.
    """

    def __init__(
        self,
        prefix: str,
        build: str,
        make_proof: Callable[[], Proof],
        find: Callable[[], Mapping[str, tuple[Address, socket.socket]]],
        has_started: Callable[[], bool] = lambda: False,
    ) -> None:
        self._prefix = prefix
        self._build = build
        self._make_proof = make_proof
        self._find = find
        self._has_started = has_started
        self._supervisor = Supervisor("handover")
        self._listening: socket.socket | None = None
        self._peer_count = 0
        self._has_claim = False
        self._served: frozenset[str] = frozenset()
        self._taken = asyncio.Event()

    def open(self) -> bool:
        """Let successors connect; False when every name is taken."""
        for name in _names(self._prefix):
            listening = _unix_socket()
            try:
                listening.bind(name)
            except OSError:
                listening.close()
                continue
            listening.listen(_BACKLOG)
            self._listening = listening
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)
            return True
        _log.warning("no name is left for handing listening sockets on")
        return False

    async def wait_taken(self, timeout_s: float) -> bool:
        """Wait until a successor serves; False when that takes longer."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._taken.wait()
        except TimeoutError:
            return False
        return True

    async def end(self) -> frozenset[str] | None:
        """Give nothing from now on.

        Returns:
            The protocols whose sockets a successor serves; None without a successor.
        """
        served = self._served if self._taken.is_set() else None
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        await self._supervisor.close()
        return served

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            if self._peer_count >= _PEERS:
                connection.close()
                return
            connection.setblocking(False)
            self._peer_count += 1
            serving = self._supervisor.spawn("give to a successor", self._serve(connection))
            serving.add_done_callback(self._served_peer)

    def _served_peer(self, _: "asyncio.Task[None]") -> None:
        self._peer_count -= 1

    async def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                    await _prove(connection, self._make_proof())
                    want = _decode(await _receive(connection), Want)
            except Exception as error:
                # Whatever a stranger sends is no more than a line in the log.
                _log.info("no sockets are handed on: %r", error)
                return
            if self._has_claim or want.build == self._build:
                return
            self._has_claim = True
            try:
                await self._hand_on(connection, want)
            except (OSError, TimeoutError, msgspec.DecodeError) as error:
                _log.warning("the successor is lost: %r", error)
            finally:
                self._has_claim = False
                self._taken.clear()

    async def _hand_on(self, connection: socket.socket, want: Want) -> None:
        """Give the sockets, then wait until the successor has gone."""
        found = {
            name: sock
            for name, (address, sock) in self._find().items()
            if want.addresses.get(name) == address
        }
        offer = msgspec.msgpack.encode(Offer(list(found), self._has_started()))
        socket.send_fds(connection, [offer], [sock.fileno() for sock in found.values()])
        async with asyncio.timeout(_START_TIMEOUT_S):
            self._served = frozenset(_decode(await _receive(connection), Serves).names)
        self._taken.set()
        _log.info("a successor serves too: %s", ", ".join(sorted(self._served)) or "other ports")
        await _receive(connection)


class Inheritance:
    """The side of a replica that starts: what it got from its predecessor.

    Attributes:
        sockets: Listening sockets by protocol; whoever serves one takes it out.
        has_predecessor: Whether there is one.
        has_started: Whether load balancers were told to send requests to it.
        has_peers: Whether any replica runs on this node already.
    """

    def __init__(
        self,
        connection: socket.socket | None = None,
        sockets: Mapping[str, socket.socket] | None = None,
        *,
        has_started: bool = False,
        has_peers: bool = False,
    ) -> None:
        self._connection = connection
        self.sockets = dict(sockets or {})
        self.has_predecessor = connection is not None
        self.has_started = has_started
        self.has_peers = has_peers or self.has_predecessor

    def serves(self, names: list[str]) -> None:
        """Tell the predecessor that the sockets of these protocols are served; close the others.

        The connection stays open for as long as this object lives: its end would tell the
        predecessor that this process has died.
        """
        for sock in self.sockets.values():
            sock.close()
        self.sockets.clear()
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.send(msgspec.msgpack.encode(Serves(names)))

    def close(self) -> None:
        """Give up: the predecessor may have another successor."""
        self.serves([])
        if self._connection is not None:
            self._connection.close()


async def inherit(
    prefix: str, build: str, addresses: Mapping[str, Address], make_proof: Callable[[], Proof]
) -> Inheritance:
    """Ask the replicas of this node for their listening sockets until one gives them.

    Args:
        prefix: As that of their `Bequest`.
        build: Name of this replica's build.
        addresses: Where this replica will serve, by protocol.
        make_proof: Makes the connecting end of a handshake.
    """
    want = Want(build, dict(addresses))
    has_peers = False
    for name in _names(prefix):
        connection = _unix_socket()
        try:
            connection.connect(name)
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                sockets, has_started = await _ask(connection, want, make_proof())
        except ConnectionRefusedError:
            connection.close()
            continue
        except Exception as error:
            # One of the same build, one with a successor, or a stranger that squats on the name.
            _log.info("no sockets from the replica at %r: %r", name, error)
            connection.close()
            has_peers = True
            continue
        return Inheritance(connection, sockets, has_started=has_started)
    return Inheritance(has_peers=has_peers)


async def _ask(
    connection: socket.socket, want: Want, proof: Proof
) -> tuple[dict[str, socket.socket], bool]:
    await _prove(connection, proof)
    connection.send(msgspec.msgpack.encode(want))
    message, sockets = await _receive_with_sockets(connection)
    try:
        offer = _decode(message, Offer)
        return dict(zip(offer.names, sockets, strict=True)), offer.has_started
    except BaseException:
        for sock in sockets:
            sock.close()
        raise


async def _prove(connection: socket.socket, proof: Proof) -> None:
    if opening := proof.open():
        connection.send(opening)
    while not proof.is_done:
        if answer := proof.feed(await _receive(connection)):
            connection.send(answer)


async def _receive(connection: socket.socket) -> bytes:
    """Return the next message; empty once the peer has closed the connection."""

    def read() -> bytes:
        return connection.recv(_MESSAGE_BYTES)

    return await _when_readable(connection, read)


async def _receive_with_sockets(
    connection: socket.socket,
) -> tuple[bytes, list[socket.socket]]:
    def read() -> tuple[bytes, list[socket.socket]]:
        message, fds, _, _ = socket.recv_fds(connection, _MESSAGE_BYTES, _SOCKETS)
        sockets = [socket.socket(fileno=fd) for fd in fds]
        for sock in sockets:
            # Else whatever this process starts would have them too.
            sock.set_inheritable(False)
        return message, sockets

    return await _when_readable(connection, read)


_Read = TypeVar("_Read")


async def _when_readable(connection: socket.socket, read: Callable[[], _Read]) -> _Read:
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(BlockingIOError, InterruptedError):
            return read()
        readable = asyncio.Event()
        loop.add_reader(connection, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(connection)


def _decode(message: bytes, kind: type[_Message]) -> _Message:
    if not message:
        raise ConnectionResetError("the peer has closed the connection")
    return msgspec.msgpack.decode(message, type=kind)


def _names(prefix: str) -> Iterator[str]:
    return (f"\0{prefix}-{place}" for place in range(PLACES))


def _unix_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
