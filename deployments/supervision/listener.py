# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The sockets a server listens on, and the connections that came through them.

Theory of operation. The listener accepts by itself, because a loop's own server cannot end well:
`asyncio.Server.close` resets what waits in the kernel's accept queue, and forgets whoever is still
in a TLS handshake. Here a server goes through four stages, and each includes those before it:

    accepting   every connection is served;
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

_log = logging.getLogger(__name__)

Connection = TypeVar("Connection")

# Connections the kernel completes for us while the loop is busy; Triton listens with as many.
BACKLOG: Final = 1024
# Accepted in one turn of the loop, so that a flood leaves time for those that are open.
_ACCEPTED_AT_ONCE: Final = 64
# With no file descriptor left, accepting again at once would only spin.
_PAUSE_S: Final = 1.0
_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Listener(Generic[Connection]):
    """Accepts a server's connections and holds those that are open. For one event loop.

    Args:
        name: What is served, for the log: "gRPC", "HTTP".
        make_protocol: Called for each accepted connection; returns its asyncio protocol.

    Attributes:
        connections: The open ones, in the order they opened; kept by `opened` and `closed`.
    """

    def __init__(self, name: str, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._name = name
        self._make_protocol = make_protocol
        self._encryption: Mapping[str, Any] = {}
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
        encryption: Mapping[str, Any] | None = None,
    ) -> int:
        """Listen.

        Args:
            host: The address to bind, or a name that stands for one or several.
            port: The port; 0 takes a free one.
            reuse_port: Share the port with other processes (SO_REUSEPORT).
            sock: A listening socket to take over in place of binding one.
            encryption: What makes connections TLS, as `TlsFiles.listen_options` returns it.

        Returns:
            The port.

        Raises:
            OSError: The address cannot be bound.
        """
        self._encryption = encryption or {}
        sockets = [sock] if sock is not None else await _bind(host, port, reuse_port=reuse_port)
        loop = asyncio.get_running_loop()
        for listening in sockets:
            listening.setblocking(False)
            # Inherited by what is accepted: of idle peers only the kernel sees that they died.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            listening.listen(BACKLOG)
            loop.add_reader(listening, self._accept, listening, _ACCEPTED_AT_ONCE)
        self._sockets = sockets
        bound: int = sockets[0].getsockname()[1]
        return bound

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

    def stop_accepting(self) -> None:
        """Accept what the accept queue holds at this moment, then close the socket."""
        for listening in list(self._sockets):
            # Of a shared socket the other process's newcomers would be turned away too.
            if not self._is_shared:
                with contextlib.suppress(OSError):
                    turn_newcomers_away(listening)
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
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._wait_for_descriptors(error)
                return
            accepted.setblocking(False)
            arrival = asyncio.get_running_loop().create_task(self._connect(accepted))
            self._arriving[arrival] = accepted
            self._ended.clear()
            arrival.add_done_callback(self._arrived)

    async def _connect(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(self._make_protocol, accepted, **self._encryption)

    def _arrived(self, arrival: asyncio.Task[None]) -> None:
        accepted = self._arriving.pop(arrival)
        if arrival.cancelled():
            accepted.close()
        elif (error := arrival.exception()) is not None:
            accepted.close()
            # A client's handshake that fails is its own affair, anything else is ours.
            level = logging.DEBUG if isinstance(error, OSError) else logging.ERROR
            _log.log(level, "%s connection failed before it began", self._name, exc_info=error)
        self._check_ended()

    def _wait_for_descriptors(self, error: OSError) -> None:
        _log.error("%s connections have to wait: %s", self._name, error)
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening)
        if self._pause is None:
            self._pause = loop.call_later(_PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._pause = None
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.add_reader(listening, partial(self._accept, listening, _ACCEPTED_AT_ONCE))

    def _check_ended(self) -> None:
        if not self._sockets and not self._arriving and not self.connections:
            self._ended.set()


async def _bind(host: str, port: int, *, reuse_port: bool) -> list[socket.socket]:
    """Bind every address of a host, as a loop's own server does."""
    bound = await asyncio.get_running_loop().create_server(
        asyncio.Protocol,
        host,
        port,
        # None, not False: asyncio refuses even False where the option is missing.
        reuse_port=reuse_port or None,
        start_serving=False,
    )
    try:
        return [each.dup() for each in bound.sockets]
    finally:
        bound.close()
