# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A listening socket that can be drained and handed on.

Theory of operation. The kernel completes connections and queues them behind the listening socket
before anybody accepts them, so a client may have sent its request while its connection still stands
in that queue. Closing the socket resets all of them. A server that stops therefore takes what the
queue holds first, or leaves the socket open in the process that goes on with it.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any, Final

from deployments.supervision.supervisor import Supervisor

_log = logging.getLogger(__name__)

# Connections the kernel completes for us while the loop is busy; Triton listens with as many.
BACKLOG: Final = 1024
# Connections accepted before the loop looks after those that are open.
_BATCH: Final = 64
# For which nothing is accepted when the process has no file descriptor left.
_EXHAUSTED_PAUSE_S: Final = 1.0
_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
# What Linux reports of a connection that has failed before it was accepted.
_GONE: Final = frozenset(
    (errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH)
)


async def bind(host: str, port: int, *, reuse_port: bool) -> socket.socket:
    """Return a listening socket.

    Args:
        host: Address or name; of several addresses the first IPv4 one is taken.
        port: Port, or 0 for any.
        reuse_port: Share the port with other processes (SO_REUSEPORT).

    Raises:
        OSError: The address cannot be bound.
    """
    found = await _resolve(host, port)
    family, kind, protocol, _, address = min(found, key=lambda row: row[0] != socket.AF_INET)
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {address[:2]}: {error.strerror}") from None
    return sock


async def _resolve(host: str, port: int) -> list[Any]:
    flags = socket.AI_PASSIVE | socket.AI_NUMERICHOST
    try:
        return socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    except socket.gaierror:
        # A name: looking it up takes time, and a thread.
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)


class Listener:
    """Accepts connections on the running loop.

    Args:
        sock: A listening socket; the listener closes it.
        make: Makes the protocol object of a connection.
        options: Arguments of the loop's ``connect_accepted_socket``, such as those of TLS.
        on_change: Called when `pending_count` has changed.

    Attributes:
        sock: The socket, while it is open.
    """

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[], asyncio.BaseProtocol],
        options: dict[str, Any],
        on_change: Callable[[], None],
    ) -> None:
        self.sock: socket.socket | None = sock
        self._make = make
        self._options = options
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._supervisor = Supervisor("HTTP listener")
        self._setting_up: dict[asyncio.Task[None], socket.socket] = {}
        self._pause: asyncio.TimerHandle | None = None
        sock.setblocking(False)
        # Inherited by what is accepted: only the kernel notices that an idle peer has died.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._loop.add_reader(sock.fileno(), self._accept)

    @property
    def pending_count(self) -> int:
        """Connections accepted and not yet set up."""
        return len(self._setting_up)

    def stop(self) -> None:
        """Take every connection that the kernel has completed, then close the socket."""
        if self.sock is not None:
            while self._accept_batch():
                pass
        self.release()

    def release(self) -> None:
        """Close this process's handle; the queue stays with those that share the socket."""
        sock, self.sock = self.sock, None
        if sock is None:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(sock.fileno())
        sock.close()

    def abort(self) -> None:
        """Close, and drop the connections that are not set up."""
        self.release()
        for task in list(self._setting_up):
            task.cancel()

    def _accept(self) -> None:
        self._accept_batch()

    def _accept_batch(self) -> bool:
        """Accept some connections; whether there may be more."""
        for _ in range(_BATCH):
            if self.sock is None:
                return False
            try:
                accepted, _address = self.sock.accept()
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                if error.errno in _GONE:
                    continue
                if error.errno not in _EXHAUSTED:
                    raise
                self._rest(error)
                return False
            task = self._supervisor.spawn("set up a connection", self._set_up(accepted))
            self._setting_up[task] = accepted
            task.add_done_callback(self._settled)
            self._on_change()
        return True

    async def _set_up(self, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            if accepted.family in (socket.AF_INET, socket.AF_INET6):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._make, accepted, **self._options)
        except OSError as error:  # a failed TLS handshake among them
            accepted.close()
            _log.debug("an accepted connection could not be set up: %s", error)

    def _settled(self, task: asyncio.Task[None]) -> None:
        accepted = self._setting_up.pop(task)
        if task.cancelled() or task.exception() is not None:
            accepted.close()
        self._on_change()

    def _rest(self, error: OSError) -> None:
        """Accept nothing for a while: the socket would stay readable and the loop would spin."""
        if self.sock is None or self._pause is not None:
            return
        _log.error("no connection can be accepted for %g s: %s", _EXHAUSTED_PAUSE_S, error.strerror)
        self._loop.remove_reader(self.sock.fileno())
        self._pause = self._loop.call_later(_EXHAUSTED_PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        if self.sock is not None:
            self._loop.add_reader(self.sock.fileno(), self._accept)
