# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Accepts connections of a listening socket on the event loop.

Unlike a server of asyncio or uvloop it lets go of the socket the moment it is closed, so that the
name of an abstract socket is free when `Listener.close` returns.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from deployments.reactor.transport import Cancellable
from deployments.supervision.supervisor import Supervisor

logger = logging.getLogger(__name__)

# How long to leave strangers waiting when there are no descriptors left.
_PAUSE_S: Final = 0.1
# Handshakes of TLS at the same time.
_MAX_PENDING_COUNT: Final = 256


class Listener:
    """A socket that accepts.

    Args:
        sock: The socket, which listens and does not block; it is closed with this.
        make_end: Makes the end of each connection.
        tls: Context of the connections; None for clear text.
        handshake_timeout_s: How long a handshake of TLS may take.
    """

    def __init__(
        self,
        sock: socket.socket,
        make_end: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None = None,
        handshake_timeout_s: float = 5.0,
    ) -> None:
        self._sock = sock
        self._make_end = make_end
        self._tls = tls
        self._timeout_s = handshake_timeout_s if tls is not None else None
        self._loop = asyncio.get_running_loop()
        self._supervisor = Supervisor("listener")
        self._pending_count = 0
        self._pause: Cancellable | None = None
        self._loop.add_reader(sock.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more; what has been accepted goes on, and may become a connection yet."""
        if self._sock.fileno() < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            logger.warning("cannot accept connections for a while: %s", error)
            self._loop.remove_reader(self._sock.fileno())
            self._pause = self._loop.call_later(_PAUSE_S, self._resume)
            return
        if self._pending_count == _MAX_PENDING_COUNT:
            sock.close()
            return
        sock.setblocking(False)
        self._pending_count += 1
        self._supervisor.spawn("connection", self._connect(sock))

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._sock.fileno(), self._accept)

    async def _connect(self, sock: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make_end,
                sock,
                ssl=self._tls,
                ssl_handshake_timeout=self._timeout_s,
            )
        except OSError as error:  # also ssl.SSLError
            logger.info("a connection came to nothing: %s", error)
            sock.close()
        finally:
            self._pending_count -= 1
