# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sockets of a `Reactor`: those that listen and those that carry a lane.

They keep asyncio's promises to a protocol: writes never raise, ``connection_lost`` comes exactly
once and never from within a call that the protocol makes.
"""

import errno
import itertools
import logging
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from deployments.reactor.reactor import Reactor
from deployments.reactor.transport import LaneEnd

logger = logging.getLogger(__name__)

# A buffer beyond malloc's 128 KB is mapped and unmapped for each read, which costs more than the
# read. It pays only while the peer sends more than the small one takes.
_READ_BYTES: Final = 64 << 10
_LARGE_READ_BYTES: Final = 1 << 20
# TLS gives at most one record at a time, and none in part to whoever takes a whole one.
_RECORD_BYTES: Final = 16 << 10
_READ: Final = select.EPOLLIN
_READ_AND_WRITE: Final = select.EPOLLIN | select.EPOLLOUT
_WRITE: Final = select.EPOLLOUT
# The kernel takes up to 1024 of them.
_BUFFERS_PER_SEND: Final = 256
_NOT_NOW: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

_ACCEPTS_PER_TURN: Final = 64
# Out of descriptors or memory: others may give some back.
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_ACCEPT_PAUSE_S: Final = 1.0


class ReactorSocket:
    """A lane's socket; implements `deployments.reactor.transport.LaneTransport`.

    Args:
        reactor: What watches it.
        sock: Connected and non-blocking, perhaps a TLS one. It belongs to this object from now on.
        end: The lane; hears of its connection before this returns.
    """

    __slots__ = (
        "_end",
        "_gather",
        "_high_bytes",
        "_is_closed",
        "_is_closing",
        "_is_paused",
        "_reactor",
        "_read_bytes",
        "_recv",
        "_send",
        "_sock",
        "_unsent",
        "_unsent_bytes",
    )

    def __init__(self, reactor: Reactor, sock: socket.socket, end: LaneEnd) -> None:
        self._reactor = reactor
        self._sock = sock
        self._recv = sock.recv
        self._send = sock.send
        # TLS makes records of one buffer each.
        self._gather = None if isinstance(sock, ssl.SSLSocket) else sock.sendmsg
        self._end = end
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._high_bytes = 64 << 10
        self._read_bytes = _READ_BYTES
        self._is_paused = False
        self._is_closing = False
        self._is_closed = False
        reactor.watch(sock.fileno(), _READ, self._on_event)
        end.connection_made(self)

    # LaneTransport

    def write(self, data: bytes | memoryview, /) -> None:
        """Send bytes, at once as far as the peer takes them."""
        if self._is_closing or not data:
            return
        if self._unsent:
            self._keep(memoryview(data).cast("B"))
            return
        try:
            sent_bytes = self._send(data)
        except _NOT_NOW:
            sent_bytes = 0
        except OSError as error:
            self._drop(error)
            return
        view = memoryview(data)
        if sent_bytes < view.nbytes:
            self._reactor.change(self._sock.fileno(), _READ_AND_WRITE)
            self._keep(view.cast("B")[sent_bytes:])

    def writelines(self, buffers: list[bytes | memoryview], /) -> None:
        """Send several buffers, one behind the other, without joining them."""
        if self._gather is None or self._unsent or len(buffers) > _BUFFERS_PER_SEND:
            for data in buffers:
                self.write(data)
            return
        if self._is_closing:
            return
        try:
            sent_bytes = self._gather(buffers)
        except _NOT_NOW:
            sent_bytes = 0
        except OSError as error:
            self._drop(error)
            return
        left: list[memoryview] = []
        for data in buffers:
            view = memoryview(data).cast("B")
            if sent_bytes < view.nbytes:
                left.append(view[sent_bytes:])
            sent_bytes = max(0, sent_bytes - view.nbytes)
        if left:
            self._reactor.change(self._sock.fileno(), _READ_AND_WRITE)
            for view in left:
                self._keep(view)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the peer has not taken yet."""
        return self._unsent_bytes

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        """Set from how many unsent bytes on the lane is told to pause."""
        if high is not None:
            self._high_bytes = high

    def get_extra_info(self, name: str, /) -> Any:
        """Return the ``socket``; there is no other information."""
        return self._sock if name == "socket" else None

    def close(self) -> None:
        """Read no more and close once everything is sent."""
        if self._is_closing:
            return
        if not self._unsent:
            self._drop(None)
            return
        self._is_closing = True
        self._reactor.change(self._sock.fileno(), _WRITE)

    def abort(self) -> None:
        """Close at once."""
        self._drop(None)

    # Events

    def _on_event(self, events: int) -> None:
        if events & _WRITE:
            self._send_unsent()
        if events & ~_WRITE and not self._is_closed:
            if self._is_closing:
                # Not readable, which nobody asked for: an error or a hang-up.
                self._drop(None)
            else:
                self._receive()

    def _receive(self) -> None:
        if self._gather is None:
            self._receive_records()
            return
        try:
            data = self._recv(self._read_bytes)
        except _NOT_NOW:
            return
        except OSError as error:
            self._drop(error)
            return
        if not data:
            self._drop(None)
            return
        self._read_bytes = _READ_BYTES if len(data) < _READ_BYTES else _LARGE_READ_BYTES
        self._end.data_received(data)

    def _receive_records(self) -> None:
        records: list[bytes] = []
        error: OSError | None = None
        is_over = False
        # Together: a trip through the poll for each would cost more than the record.
        for _ in range(_LARGE_READ_BYTES // _RECORD_BYTES):
            try:
                record = self._recv(_RECORD_BYTES)
            except _NOT_NOW:
                break
            except OSError as failure:
                error = failure
                is_over = True
                break
            if not record:
                is_over = True
                break
            records.append(record)
        if records:
            self._end.data_received(records[0] if len(records) == 1 else b"".join(records))
        if is_over:
            self._drop(error)

    def _send_unsent(self) -> None:
        unsent = self._unsent
        while unsent:
            try:
                if self._gather is None or len(unsent) == 1:
                    sent_bytes = self._send(unsent[0])
                else:
                    sent_bytes = self._gather(list(itertools.islice(unsent, _BUFFERS_PER_SEND)))
            except _NOT_NOW:
                break
            except OSError as error:
                self._drop(error)
                return
            self._unsent_bytes -= sent_bytes
            while unsent and sent_bytes >= len(unsent[0]):
                sent_bytes -= len(unsent.popleft())
            if sent_bytes:
                unsent[0] = unsent[0][sent_bytes:]
                break
        if self._is_paused and self._unsent_bytes <= self._high_bytes // 4:
            self._is_paused = False
            self._end.resume_writing()
        if unsent or self._is_closed:
            return
        if self._is_closing:
            self._drop(None)
        else:
            self._reactor.change(self._sock.fileno(), _READ)

    def _keep(self, view: memoryview) -> None:
        self._unsent.append(view)
        self._unsent_bytes += len(view)
        if not self._is_paused and self._unsent_bytes > self._high_bytes:
            self._is_paused = True
            self._end.pause_writing()

    def _drop(self, error: Exception | None) -> None:
        if self._is_closed:
            return
        self._is_closed = self._is_closing = True
        self._unsent.clear()
        self._unsent_bytes = 0
        self._reactor.forget(self._sock.fileno())
        self._sock.close()
        self._reactor.call_soon(self._end.connection_lost, error)


class ListeningSocket:
    """Accepts connections.

    Args:
        reactor: What watches it.
        sock: Listening and non-blocking. It belongs to this object from now on.
        make_end: Makes the lane of a new connection.
        tls: Context of the connections, if they are encrypted.
    """

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        make_end: Callable[[], LaneEnd],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._reactor = reactor
        self._sock = sock
        self._make_end = make_end
        self._tls = tls
        self._is_watched = True
        reactor.watch(sock.fileno(), _READ, self._on_event)

    def close(self) -> None:
        """Accept no more."""
        if self._is_watched:
            self._is_watched = False
            self._reactor.forget(self._sock.fileno())
        self._sock.close()

    def _on_event(self, _: int) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, _address = self._sock.accept()
            except _NOT_NOW:
                return
            except OSError as error:
                # Anything else is the trouble of one connection that is gone already.
                if error.errno in _EXHAUSTED:
                    self._pause(error)
                    return
                continue
            self._accepted(sock)

    def _accepted(self, sock: socket.socket) -> None:
        try:
            sock.setblocking(False)
            if self._tls is not None:
                # The handshake happens as part of the first reads.
                sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except OSError as error:
            logger.warning("a connection could not be taken: %s", error)
            sock.close()
            return
        ReactorSocket(self._reactor, sock, self._make_end())

    def _pause(self, error: OSError) -> None:
        logger.error("no connections for %.0f s: %s", _ACCEPT_PAUSE_S, error)
        self._is_watched = False
        self._reactor.forget(self._sock.fileno())
        self._reactor.call_later(_ACCEPT_PAUSE_S, self._resume)

    def _resume(self) -> None:
        if self._sock.fileno() >= 0:
            self._is_watched = True
            self._reactor.watch(self._sock.fileno(), _READ, self._on_event)
