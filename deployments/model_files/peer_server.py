# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Gives other nodes what this node's cache has, also of downloads that are under way.

One thread for each connection; what is asked for goes from the page cache to the socket.
"""

import contextlib
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from deployments.model_files.blobs import Blobs
from deployments.model_files.layout import Layout
from deployments.model_files.locks import is_locked
from deployments.model_files.partial import PART_BYTES, read_record
from deployments.model_files.peer_wire import (
    ANSWER,
    REQUEST,
    Proof,
    RefusedError,
    There,
    require_request,
)
from deployments.settings.port_range import ANY_PORT, PortRange

# Fifty nodes with all their parts under way at one that alone has a model.
_CONNECTIONS: Final = 400
_BACKLOG: Final = 128
_HANDSHAKE_TIMEOUT_S: Final = 30.0
# Of an asker that neither asks nor takes what it is sent; it connects again.
_IDLE_TIMEOUT_S: Final = 60.0
# How long a request waits for a part that is being written. Short: the asker's thread waits too.
_WAIT_S: Final = 0.2
_POLL_S: Final = 0.04

_log = logging.getLogger(__name__)


class PeerServer:
    """Serves a node's cache to others.

    Args:
        layout: Of the cache.
        make_proof: Makes the accepting end of a handshake.
        host: Address to bind, and to be found at.
        ports: Where to listen at that address.
        tls: Context for connections; None for clear text.

    Attributes:
        address: ``<host>:<port>``.

    Raises:
        OSError: The address cannot be bound.
        UnavailableError: All ports are in use.
    """

    def __init__(
        self,
        layout: Layout,
        make_proof: Callable[[], Proof],
        host: str,
        ports: PortRange = ANY_PORT,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._layout = layout
        self._make_proof = make_proof
        self._tls = tls
        self._listener = ports.listen(host, _BACKLOG)
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        threading.Thread(target=self._accept, name="manta-peers", daemon=True).start()

    def close(self) -> None:
        """Stop serving and break off what is under way."""
        # Closing alone would not wake the thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                # That of TLS would have the connection's own thread go on in clear text.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except ConnectionError:
                continue
            except OSError:
                return
            with self._lock:
                has_room = len(self._connections) < _CONNECTIONS
                if has_room:
                    self._connections.add(connection)
            if has_room:
                serve = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                serve.start()
            else:
                connection.close()

    def _serve(self, raw: socket.socket) -> None:
        connection = raw
        try:
            connection.settimeout(_HANDSHAKE_TIMEOUT_S)
            if self._tls is not None:
                # Wrapping empties the socket: what is under way is the wrapped one from then on.
                connection = self._tls.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
                with self._lock:
                    self._connections.discard(raw)
                    self._connections.add(connection)
                connection.do_handshake()
            prove(connection, self._make_proof())
            connection.settimeout(_IDLE_TIMEOUT_S)
            while True:
                self._answer(connection)
        except OSError:
            # It went away; it asks again or asks somebody else.
            pass
        except Exception as error:
            _log.warning("a peer's connection was refused: %s", error)
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _answer(self, connection: socket.socket) -> None:
        key_bytes, offset, length = REQUEST.unpack(receive(connection, REQUEST.size))
        key = require_request(receive(connection, key_bytes), length)
        with contextlib.ExitStack() as opened:
            there, file = self._find(key, offset, length)
            if file is None:
                connection.sendall(ANSWER.pack(there, 0))
                return
            opened.enter_context(file)
            if offset + length > os.fstat(file.fileno()).st_size:
                raise RefusedError(f"asked for {length} bytes from {offset} of '{key}'")
            connection.sendall(ANSWER.pack(there, length))
            connection.sendfile(file, offset, length)

    def _find(self, key: str, offset: int, length: int) -> tuple[There, BinaryIO | None]:
        whole = self._open_whole(key)
        if whole is not None:
            return There.ALL, whole
        path = self._layout.partial / key
        wanted = slice(offset // PART_BYTES, -(-(offset + length) // PART_BYTES))
        deadline_s = time.monotonic() + _WAIT_S
        while parts := read_record(path)[wanted]:
            file = _open(path)
            if file is not None and all(parts):
                return There.ALL, file
            if file is not None:
                file.close()
            if time.monotonic() >= deadline_s:
                is_coming = is_locked(self._layout.blob_lock(key))
                return There.LATER if is_coming else There.NOTHING, None
            time.sleep(_POLL_S)
        # It may have become whole just now.
        whole = self._open_whole(key)
        return (There.NOTHING, None) if whole is None else (There.ALL, whole)

    def _open_whole(self, key: str) -> BinaryIO | None:
        path = Blobs(self._layout).find_by_key(key)
        return None if path is None else _open(path)


def prove(connection: socket.socket, proof: Proof) -> None:
    """Go through a handshake.

    Raises:
        OSError: The peer went away or is silent.
        HandshakeError: The peer does not know the secret.
    """
    connection.sendall(proof.open())
    while not proof.is_done:
        # By the byte, of 72 or so: the first request may follow the last message at once, and
        # belongs to who reads next.
        data = connection.recv(1)
        if not data:
            raise ConnectionError("the peer closed the connection in the handshake")
        connection.sendall(proof.feed(data))


def receive(connection: socket.socket, count: int) -> bytes:
    """Receive exactly so many bytes.

    Raises:
        OSError: The peer went away, or is silent.
    """
    buffer = bytearray(count)
    view = memoryview(buffer)
    got = 0
    while got < count:
        received = connection.recv_into(view[got:])
        if not received:
            raise ConnectionError(f"the peer closed the connection after {got} of {count} bytes")
        got += received
    return bytes(buffer)


def _open(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None
