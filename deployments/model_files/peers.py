# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a model's files from nodes that have them or are getting them, and else from the store.

The first node that wants a file asks the store; the others ask it, and each other, for parts that
are written already. Nodes of a cluster are known to each other, but disks and memories err: what
came from others counts once its SHA-256 is the one that was told, by the listing or by the node
that has read all of it from the store. On anything wrong the store is asked.
"""

import random
import socket
import ssl
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Final

from deployments.model_files.blobs import content_key
from deployments.model_files.contracts import FileSource, ModelFile, Write
from deployments.model_files.counters import CacheCounters, Clock
from deployments.model_files.download import NotYetError, stream_from
from deployments.model_files.partial import PART_BYTES
from deployments.model_files.peer_server import prove, receive
from deployments.model_files.peer_wire import (
    ANSWER,
    Proof,
    There,
    request,
    require_answer,
)
from deployments.model_files.registry import Registry

# Smaller files cost a store less than nodes' asking each other.
SMALLEST_BYTES: Final = 64 << 10
# A node that sends nothing for as long is not waited for.
_TIMEOUT_S: Final = 10.0
# Connections that may break, for each file, until a node is not asked for it any more.
_BREAKS: Final = 3
_IDLE_CONNECTIONS: Final = 8
_DIGEST_POLL_S: Final = 0.2
# How long the registry is not asked again for the same content, by all threads of a download.
_KNOWN_FOR_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Known:
    """What the registry has said of a content: whether this node asks the store, and who has it."""

    until_s: float
    is_first: bool
    holders: tuple[str, ...]


class Peers:
    """Connections of this process to other nodes' caches.

    Args:
        make_proof: Makes the connecting end of a handshake.
        tls: Context for connections; None for clear text.
        timeout_s: How long a node may be silent.
    """

    def __init__(
        self,
        make_proof: Callable[[], Proof],
        tls: ssl.SSLContext | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._make_proof = make_proof
        self._tls = tls
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._idle: defaultdict[str, list[socket.socket]] = defaultdict(list)

    def read(self, address: str, key: str, offset: int, length: int) -> tuple[There, bytes]:
        """Ask a node for a part of a content.

        Raises:
            OSError: It cannot be reached, went away, or is silent.
            RefusedError: It answers something else.
            HandshakeError: It does not know the secret.
        """
        kept = self._take(address)
        if kept is not None:
            try:
                return self._ask(address, kept, key, offset, length)
            except OSError:
                # The node may have closed it while it was idle.
                pass
        return self._ask(address, self._connect(address), key, offset, length)

    def close(self) -> None:
        """Close all connections that are idle."""
        with self._lock:
            idle = [connection for kept in self._idle.values() for connection in kept]
            self._idle.clear()
        for connection in idle:
            connection.close()

    def _ask(
        self, address: str, connection: socket.socket, key: str, offset: int, length: int
    ) -> tuple[There, bytes]:
        try:
            connection.sendall(request(key, offset, length))
            state, count = ANSWER.unpack(receive(connection, ANSWER.size))
            there = require_answer(state, count, length)
            data = receive(connection, length) if there == There.ALL else b""
        except BaseException:
            connection.close()
            raise
        self._keep(address, connection)
        return there, data

    def _connect(self, address: str) -> socket.socket:
        host, _, port = address.rpartition(":")
        connection = socket.create_connection((host, int(port)), self._timeout_s)
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_hostname=host)
            prove(connection, self._make_proof())
        except BaseException:
            connection.close()
            raise
        return connection

    def _take(self, address: str) -> socket.socket | None:
        with self._lock:
            kept = self._idle[address]
            return kept.pop() if kept else None

    def _keep(self, address: str, connection: socket.socket) -> None:
        with self._lock:
            kept = self._idle[address]
            if len(kept) < _IDLE_CONNECTIONS:
                kept.append(connection)
                return
        connection.close()


class PeeredSource:
    """Implements `FileSource` and `JudgingSource` over other nodes and a store.

    Args:
        peers: Connections to other nodes.
        registry: Who has what.
        own_address: Of this node's `PeerServer`.
        location: Of the model.
        store: Reads the model's files from its store.
        counters: Where bytes from others count.
        wait: Waits for so many seconds.
        clock: Returns seconds.
    """

    def __init__(
        self,
        peers: Peers,
        registry: Registry,
        own_address: str,
        location: str,
        store: FileSource,
        counters: CacheCounters,
        wait: Callable[[float], None] = time.sleep,
        clock: Clock = time.monotonic,
    ) -> None:
        self._peers = peers
        self._registry = registry
        self._own_address = own_address
        self._location = location
        self._store = store
        self._counters = counters
        self._wait = wait
        self._clock = clock
        # By contents' keys. Each change is one call, which threads see as a whole.
        self._known: dict[str, _Known] = {}
        self._breaks: Counter[tuple[str, str]] = Counter()
        self._shunned: set[tuple[str, str]] = set()
        self._from_peers: set[str] = set()
        self._store_only: set[str] = set()

    def read(self, file: ModelFile, offset_bytes: int, length_bytes: int) -> bytes:
        """See `FileSource.read`.

        Raises:
            NotYetError: Another node is getting this part.
        """
        if file.size_bytes < SMALLEST_BYTES:
            return self._store.read(file, offset_bytes, length_bytes)
        key = content_key(self._location, file)
        known = self._look_up(key)
        if known.is_first or key in self._store_only:
            return self._read_store(key, file, offset_bytes, length_bytes)
        return self._read_others(key, known, file, offset_bytes, length_bytes)

    def stream(self, file: ModelFile, offset_bytes: int, length_bytes: int, write: Write) -> int:
        """See `StreamingSource.stream`; other nodes give a part at a time.

        Raises:
            NotYetError: Another node is getting the next part.
        """
        if file.size_bytes < SMALLEST_BYTES:
            return stream_from(self._store, file, offset_bytes, length_bytes, write)
        key = content_key(self._location, file)
        known = self._look_up(key)
        if not known.is_first and key not in self._store_only:
            part_bytes = min(length_bytes, PART_BYTES)
            data = self._read_others(key, known, file, offset_bytes, part_bytes)
            write(data, offset_bytes)
            return len(data)

        def tell(data: bytes, at: int) -> None:
            write(data, at)
            self._registry.progressed(key, self._own_address)

        with self._leaving(key):
            return stream_from(self._store, file, offset_bytes, length_bytes, tell)

    def accept(self, file: ModelFile, sha256: str) -> bool:
        """See `JudgingSource.accept`."""
        if file.size_bytes < SMALLEST_BYTES:
            return True
        key = content_key(self._location, file)
        if key not in self._from_peers:
            if sha256 == (file.sha256 or sha256):
                # Also after going on with what an earlier process had read, which claimed nothing.
                self._registry.claim(key, self._own_address)
                self._registry.tell(key, self._own_address, sha256)
            else:
                self._registry.leave(key, self._own_address)
            return True
        if sha256 == (file.sha256 or self._told(key)):
            return True
        self._store_only.add(key)
        self._from_peers.discard(key)
        return False

    def _read_others(
        self, key: str, known: _Known, file: ModelFile, offset: int, length: int
    ) -> bytes:
        """Read from nodes that have it; from the store when none can be asked."""
        data = self._read_peers(key, known.holders, offset, length)
        if data is None:
            return self._read_store(key, file, offset, length)
        self._from_peers.add(key)
        self._counters.count(from_peers_bytes=length)
        return data

    def _read_store(self, key: str, file: ModelFile, offset: int, length: int) -> bytes:
        with self._leaving(key):
            data = self._store.read(file, offset, length)
        self._registry.progressed(key, self._own_address)
        return data

    @contextmanager
    def _leaving(self, key: str) -> Iterator[None]:
        """Leave the content to other nodes if the store fails."""
        try:
            yield
        except BaseException:
            self._registry.leave(key, self._own_address)
            self._known.pop(key, None)
            raise

    def _look_up(self, key: str) -> _Known:
        """Ask the registry, or say what it said just now: many parts are under way."""
        known = self._known.get(key)
        if known is None or self._clock() >= known.until_s:
            is_first = self._registry.claim(key, self._own_address)
            holders = () if is_first else self._registry.holders(key)
            known = _Known(self._clock() + _KNOWN_FOR_S, is_first, holders)
            self._known[key] = known
        return known

    def _read_peers(
        self, key: str, nodes: tuple[str, ...], offset: int, length: int
    ) -> bytes | None:
        """Return a part; None when no node can be asked for it."""
        holders = [
            address
            for address in nodes
            if address != self._own_address and (key, address) not in self._shunned
        ]
        random.shuffle(holders)
        is_coming = False
        for address in holders:
            there, data = self._ask(address, key, offset, length)
            if there == There.ALL:
                return data
            is_coming = is_coming or there == There.LATER
        if is_coming:
            raise NotYetError
        return None

    def _ask(self, address: str, key: str, offset: int, length: int) -> tuple[There, bytes]:
        try:
            there, data = self._peers.read(address, key, offset, length)
        except ConnectionRefusedError:
            # Nobody listens any more: who claimed it has ended.
            there, data = There.NOTHING, b""
        except ConnectionError:
            # A busy node may do this too; one that has ended refuses the next connection.
            self._breaks[key, address] += 1
            if self._breaks[key, address] < _BREAKS:
                return There.LATER, b""
            self._shunned.add((key, address))
            return There.NOTHING, b""
        except Exception:
            # Whatever is wrong with it, there are others.
            self._shunned.add((key, address))
            return There.NOTHING, b""
        if there == There.NOTHING:
            self._registry.leave(key, address)
            self._known.pop(key, None)
        return there, data

    def _told(self, key: str) -> str:
        """Wait for the digest of a content; empty when this node is to read it from the store."""
        while not (sha256 := self._registry.told(key)):
            if self._registry.claim(key, self._own_address):
                return ""
            self._wait(_DIGEST_POLL_S)
        return sha256
