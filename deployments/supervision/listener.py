# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The sockets a server listens on, and the connections that came through them.

Theory of operation. The listener accepts by itself, because a loop's own server cannot end well:
`asyncio.Server.close` resets what waits in the kernel's accept queue, and forgets whoever is still
in a TLS handshake. Here a server goes through four stages, and each includes those before it:

    accepting   every connection is served; after `turn_newcomers_away` those that had begun;
    stopped     `stop_accepting` takes what the accept queue holds, then closes the socket, or
                `release` leaves the queue to the process that has the same socket;
    ended       no connection is open and none is in a handshake: `wait_ended` returns;
    closed      `close` drops the handshakes; open connections are the server's to drop.
"""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Generic, TypeVar

from deployments.supervision.last_calls import turn_newcomers_away
from deployments.supervision.supervisor import Supervisor
from deployments.supervision.unix_sockets import bind_unix, is_unix, remove_file

_log = logging.getLogger(__name__)

Connection = TypeVar("Connection")

# Connections the kernel completes for us while the loop is busy; Triton listens with as many.
BACKLOG: Final = 1024
# Accepted in one turn of the loop, so that a flood leaves time for those that are open.
_ACCEPTED_AT_ONCE: Final = 64
# With no file descriptor left, accepting again at once would only spin.
_PAUSE_S: Final = 1.0
_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
# What accept(2) reports of a connection that failed before it was accepted.
_GONE: Final = frozenset(
    (errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH)
)
# Of an address that a name stands for and this machine lacks, such as ::1 without IPv6.
_LACKING: Final = frozenset((errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT))


class Listener(Generic[Connection]):
    """Accepts a server's connections and holds those that are open. For one event loop.

    Args:
        name: What is served, for the log: "gRPC", "HTTP".
        make_protocol: Called for each accepted connection; returns its asyncio protocol.
        most_arriving: So many may be in a handshake of TLS at a time, others are closed; 0 for any.

    Attributes:
        connections: The open ones, in the order they opened; kept by `opened` and `closed`.
    """

    def __init__(
        self, name: str, make_protocol: Callable[[], asyncio.BaseProtocol], most_arriving: int = 0
    ) -> None:
        self._name = name
        self._most_arriving = most_arriving
        self._supervisor = Supervisor(f"{name} listener")
        self._make_protocol = make_protocol
        self._encryption: Callable[[], Mapping[str, Any]] = dict
        self._sockets: list[socket.socket] = []
        # Whether another process may have the socket.
        self._is_shared = False
        self._arriving: dict[asyncio.Task[None], socket.socket] = {}
        self._pause: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self.connections: dict[Connection, None] = {}

    async def start(
        self,
        host: str,
        port: int,
        *,
        reuse_port: bool = False,
        sock: socket.socket | None = None,
        encryption: Callable[[], Mapping[str, Any]] | None = None,
    ) -> int:
        """Listen.

        Args:
            host: The address to bind, or a name that stands for one or several, all on one port;
                or a Unix socket, see `deployments.supervision.unix_sockets`.
            port: The port; 0 takes a free one.
            reuse_port: Share the port with other processes (SO_REUSEPORT).
            sock: A listening socket to take over in place of binding one.
            encryption: Called for each connection; returns what makes it TLS, as
                `TlsFiles.listen_options` does.

        Returns:
            The port; 0 of a Unix socket.

        Raises:
            OSError: The address cannot be bound.
        """
        if sock is None and is_unix(host):
            sock = bind_unix(host)
        sockets = [sock] if sock is not None else await _bind(host, port, reuse_port=reuse_port)
        self.listen(sockets, encryption)
        if sockets[0].family == socket.AF_UNIX:
            return 0
        bound: int = sockets[0].getsockname()[1]
        return bound

    def listen(
        self,
        sockets: list[socket.socket],
        encryption: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        """Listen on sockets that are bound, from now on this listener's; see `start`."""
        self._encryption = encryption or dict
        for listening in sockets:
            listening.setblocking(False)
            # Inherited by what is accepted: of idle peers only the kernel sees that they died.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            listening.listen(BACKLOG)
        self._sockets = sockets
        self._watch()

    @property
    def is_accepting(self) -> bool:
        """Whether connections are accepted."""
        return bool(self._sockets)

    @property
    def arriving_count(self) -> int:
        """Accepted connections whose protocol has not begun: those in a TLS handshake."""
        return len(self._arriving)

    def listening_socket(self) -> socket.socket | None:
        """Return the socket, to be handed to a successor.

        None if the listener has stopped, or has several because its host name has several
        addresses.
        """
        self._is_shared = True
        return self._sockets[0] if len(self._sockets) == 1 else None

    def turn_newcomers_away(self) -> None:
        """Drop the first packet of every connection; those that are being made are accepted."""
        for listening in self._sockets:
            # Of a shared socket the other process's newcomers would be turned away too.
            if not self._is_shared and listening.family != socket.AF_UNIX:
                with contextlib.suppress(OSError):
                    turn_newcomers_away(listening)

    def stop_accepting(self) -> None:
        """Accept what the accept queue holds at this moment, then close the socket."""
        self.turn_newcomers_away()
        for listening in list(self._sockets):
            self._accept(listening, BACKLOG + 1)
        self.release()

    def release(self) -> None:
        """Accept no more. The accept queue lives on if another process has the socket."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        sockets, self._sockets = self._sockets, []
        for listening in sockets:
            asyncio.get_running_loop().remove_reader(listening)
            if not self._is_shared:
                remove_file(listening)
            listening.close()
        self._check_ended()

    def close(self) -> None:
        """Accept no more and drop the connections that are in a handshake."""
        self.release()
        for arrival in list(self._arriving):
            arrival.cancel()

    async def wait_ended(self, timeout_s: float) -> bool:
        """Stop accepting and wait until no connection is left; False when that takes longer."""
        self.stop_accepting()
        try:
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def opened(self, connection: Connection) -> None:
        """Note an open connection. Called by its protocol."""
        self.connections[connection] = None
        self._ended.clear()

    def closed(self, connection: Connection) -> None:
        """Forget a connection. Called by its protocol, also for one that was never noted."""
        self.connections.pop(connection, None)
        self._check_ended()

    def _accept(self, listening: socket.socket, count: int) -> None:
        for _ in range(count):
            try:
                accepted, _address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _GONE:
                    continue
                if error.errno not in _EXHAUSTED:
                    raise
                self._wait_for_descriptors(error)
                return
            if self._most_arriving and len(self._arriving) >= self._most_arriving:
                accepted.close()
                continue
            arrival = self._supervisor.spawn("set up a connection", self._connect(accepted))
            self._arriving[arrival] = accepted
            self._ended.clear()
            arrival.add_done_callback(self._arrived)

    async def _connect(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(self._make_protocol, accepted, **self._encryption())
        except OSError as error:  # A client's handshake that fails is its own affair.
            accepted.close()
            _log.debug("%s connection failed before it began: %s", self._name, error)

    def _arrived(self, arrival: asyncio.Task[None]) -> None:
        accepted = self._arriving.pop(arrival)
        if arrival.cancelled() or arrival.exception() is not None:
            accepted.close()
        self._check_ended()

    def _wait_for_descriptors(self, error: OSError) -> None:
        if self._pause is not None:
            return
        _log.error("%s connections have to wait %g s: %s", self._name, _PAUSE_S, error.strerror)
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening)
        self._pause = loop.call_later(_PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._watch()

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.add_reader(listening, self._accept, listening, _ACCEPTED_AT_ONCE)

    def _check_ended(self) -> None:
        if not self._sockets and not self._arriving and not self.connections:
            self._ended.set()


async def _bind(host: str, port: int, *, reuse_port: bool) -> list[socket.socket]:
    """Bind every address that the host stands for and this machine has, all on one port."""
    bound: list[socket.socket] = []
    lacking: OSError | None = None
    try:
        for family, _, _, _, address in await _resolve(host, port):
            # Port 0: the first address chooses for all.
            chosen = port or (bound[0].getsockname()[1] if bound else 0)
            try:
                bound.append(_bind_one(family, (address[0], chosen, *address[2:]), reuse_port))
            except OSError as error:
                if error.errno not in _LACKING:
                    raise
                lacking = error
    except OSError:
        for each in bound:
            each.close()
        raise
    if lacking is not None and not bound:
        raise lacking
    return bound


async def _resolve(host: str, port: int) -> list[tuple[Any, ...]]:
    look_up = partial(socket.getaddrinfo, host or None, port, type=socket.SOCK_STREAM)
    try:
        found = look_up(flags=socket.AI_PASSIVE | socket.AI_NUMERICHOST)
    except socket.gaierror:
        # A name: looking it up takes time.
        found = await asyncio.to_thread(look_up, flags=socket.AI_PASSIVE)
    # The same address twice is no second address.
    return list(dict.fromkeys(found))


def _bind_one(family: int, address: tuple[Any, ...], reuse_port: bool) -> socket.socket:
    sock: socket.socket | None = None
    try:
        # With its protocol named, or asyncio leaves accepted connections without TCP_NODELAY.
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # IPv4 has a socket of its own.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        if sock is not None:
            sock.close()
        text = f"cannot listen on {address[:2]}: {error.strerror}"
        raise OSError(error.errno, text) from None
    return sock
