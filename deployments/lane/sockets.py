# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Stream sockets on a reactor, with the surface of asyncio's transports.

Everything here is called with the reactor's lock held. Writes go to the socket at once; what it
does not take waits, and the protocol hears of it as from asyncio.
"""

import asyncio
import concurrent.futures
import contextlib
import errno
import logging
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from deployments.lane.reactor import Reactor

_log = logging.getLogger(__name__)

# Below what malloc would fetch from the system and return each time.
_READ_BYTES: Final = 64 << 10
_READS_PER_TURN: Final = 16
_ACCEPTS_PER_TURN: Final = 64
_BUFFERS_PER_WRITE: Final = 64
_ACCEPT_RETRY_S: Final = 1.0
_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))

_IN: Final = select.EPOLLIN
_OUT: Final = select.EPOLLOUT


class SocketTransport(asyncio.Transport):
    """A connected socket.

    Args:
        reactor: Where it lives.
        sock: A non-blocking stream socket; closed by the transport.
        protocol: Gets `connection_made` from whoever made the transport, the rest from here.
        on_closed: Called after ``connection_lost``.
    """

    __slots__ = (
        "_fd",
        "_high_bytes",
        "_is_closing",
        "_is_gone",
        "_is_paused",
        "_mask",
        "_on_closed",
        "_protocol",
        "_reactor",
        "_sock",
        "_unsent",
        "_unsent_bytes",
    )

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        protocol: asyncio.Protocol,
        on_closed: Callable[["SocketTransport"], None],
    ) -> None:
        super().__init__({"socket": sock})
        self._reactor = reactor
        self._sock = sock
        self._fd = sock.fileno()
        self._protocol = protocol
        self._on_closed = on_closed
        self._mask = _IN
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._high_bytes = _READ_BYTES
        self._is_paused = False
        self._is_closing = False
        self._is_gone = False
        reactor.watch(self._fd, self, _IN)

    # asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send, or keep what the socket does not take; it must not change until it is sent."""
        if self._is_closing or not data:
            return
        if not self._unsent:
            try:
                sent_bytes = self._sock.send(data)
            except BlockingIOError:
                sent_bytes = 0
            except OSError as error:
                self._end(error)
                return
            if sent_bytes == len(data):
                return
            data = memoryview(data)[sent_bytes:]
        self._unsent.append(memoryview(data))
        self._unsent_bytes += len(data)
        self._watch(self._mask | _OUT)
        if self._unsent_bytes > self._high_bytes and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """Close after what is unsent is sent."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._unsent:
            self._watch(_OUT)
        else:
            self._end(None)

    def abort(self) -> None:
        """Close at once."""
        self._end(None)

    def is_closing(self) -> bool:
        """Return whether it is closed or about to be."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Leave what the peer sends in the socket."""
        self._watch(self._mask & ~_IN)

    def resume_reading(self) -> None:
        """Undo `pause_reading`."""
        if not self._is_closing:
            self._watch(self._mask | _IN)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set how many unsent bytes pause the protocol; it resumes at a quarter."""
        del low
        if high is not None:
            self._high_bytes = high

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are unsent."""
        return self._unsent_bytes

    # Watched

    def on_ready(self, mask: int) -> None:
        """Send and read what can be."""
        if self._unsent and mask & ~_IN:
            self._send_unsent()
        if mask & ~_OUT and not self._is_closing:
            self._read()

    def _read(self) -> None:
        recv, data_received = self._sock.recv, self._protocol.data_received
        for _ in range(_READS_PER_TURN):
            try:
                data = recv(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self._end(error)
                return
            if not data:
                self._end(None)
                return
            data_received(data)
            if len(data) < _READ_BYTES or self._mask != _IN or self._is_closing:
                return

    def _send_unsent(self) -> None:
        unsent = self._unsent
        try:
            while unsent:
                buffers = [unsent[n] for n in range(min(len(unsent), _BUFFERS_PER_WRITE))]
                sent_bytes = self._sock.sendmsg(buffers)
                self._unsent_bytes -= sent_bytes
                while unsent and sent_bytes >= len(unsent[0]):
                    sent_bytes -= len(unsent.popleft())
                if sent_bytes:
                    unsent[0] = unsent[0][sent_bytes:]
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(error)
            return
        if self._is_paused and self._unsent_bytes <= self._high_bytes // 4:
            self._is_paused = False
            self._protocol.resume_writing()
        if not unsent:
            if self._is_closing:
                self._end(None)
            else:
                self._watch(self._mask & ~_OUT)

    def _watch(self, mask: int) -> None:
        if mask != self._mask and not self._is_gone:
            self._mask = mask
            self._reactor.change(self._fd, mask)

    def _end(self, error: OSError | None) -> None:
        if self._is_gone:
            return
        self._is_closing = self._is_gone = True
        self._unsent.clear()
        self._unsent_bytes = 0
        self._reactor.unwatch(self._fd)
        # Later: whoever writes does not expect to lose the connection in the middle of it.
        self._reactor.call_soon(self._lost, error)

    def _lost(self, error: OSError | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._sock.close()
            self._on_closed(self)


class SocketListener:
    """A listening socket and the connections it brought.

    Args:
        reactor: Where they live.
        sock: A non-blocking, listening stream socket; closed by the listener.
        make_protocol: Makes the protocol of a new connection.
    """

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
    ) -> None:
        self._reactor = reactor
        self._sock = sock
        self._make_protocol = make_protocol
        self._open: set[SocketTransport] = set()
        self._is_closed = False
        self._all_closed: concurrent.futures.Future[None] = concurrent.futures.Future()
        reactor.watch(sock.fileno(), self, _IN)

    def close(self) -> None:
        """Accept nothing more; connections stay."""
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(KeyError, FileNotFoundError):  # not watched during a pause
            self._reactor.unwatch(self._sock.fileno())
        self._sock.close()
        self._settle()

    async def wait_closed(self) -> None:
        """Wait, on an asyncio loop, until the listener and all its connections are closed."""
        await asyncio.shield(asyncio.wrap_future(self._all_closed))

    def on_ready(self, mask: int) -> None:
        """Accept."""
        del mask
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, _address = self._sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                _log.warning("lanes cannot be accepted for %s s: %s", _ACCEPT_RETRY_S, error)
                self._reactor.unwatch(self._sock.fileno())
                self._reactor.call_later(_ACCEPT_RETRY_S, self._resume)
                return
            sock.setblocking(False)
            self._adopt(sock)

    def _adopt(self, sock: socket.socket) -> None:
        protocol = self._make_protocol()
        transport = SocketTransport(self._reactor, sock, protocol, self._forget)
        self._open.add(transport)
        protocol.connection_made(transport)

    def _forget(self, transport: SocketTransport) -> None:
        self._open.discard(transport)
        self._settle()

    def _resume(self) -> None:
        if not self._is_closed:
            self._reactor.watch(self._sock.fileno(), self, _IN)

    def _settle(self) -> None:
        if self._is_closed and not self._open and not self._all_closed.done():
            self._all_closed.set_result(None)
