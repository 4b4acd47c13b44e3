# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes have which contents, and which one of them asks the store."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Protocol

# A node that asks the store gets a part of 4 MiB in far less, or it gets nowhere.
STALE_AFTER_S: Final = 30.0


class Registry(Protocol):
    """What nodes know of each other's caches. Used from several threads; calls may block.

    Nodes are named by the addresses of their `PeerServer`, contents by `blobs.content_key`.
    """

    def claim(self, key: str, node: str) -> bool:
        """Note that a node is getting a content, and say whether it is the one to ask the store.

        The first is, until it leaves or makes no progress; nobody is while others have it.
        """

    def progressed(self, key: str, node: str) -> None:
        """Note that the node that asks the store has got a part."""

    def holders(self, key: str) -> tuple[str, ...]:
        """Return the nodes that have a content or are getting it."""

    def tell(self, key: str, node: str, sha256: str) -> None:
        """Note the digest of a content that a node has read from the store as a whole."""

    def announce(self, key: str, node: str, sha256: str) -> None:
        """Note that a node has a whole content from an earlier time, and what digest it has.

        What another has told of it stays.
        """

    def told(self, key: str) -> str:
        """Return the digest that was told; empty while there is none."""

    def leave(self, key: str, node: str) -> None:
        """Note that a node does not have a content, or does not get it."""


@dataclass(slots=True)
class _Entry:
    claimant: str = ""
    progressed_s: float = 0.0
    sha256: str = ""
    holders: set[str] = field(default_factory=set)


class MemoryRegistry:
    """Implements `Registry` in one process.

    Args:
        clock: Returns seconds.
        stale_after_s: How long a claim lasts without progress.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, stale_after_s: float = STALE_AFTER_S
    ) -> None:
        self._clock = clock
        self._stale_after_s = stale_after_s
        self._lock = Lock()
        self._entries: dict[str, _Entry] = {}

    def claim(self, key: str, node: str) -> bool:
        """See `Registry.claim`."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            entry.holders.add(node)
            if entry.sha256 and entry.holders != {node}:
                return False
            is_free = not entry.claimant or (
                self._clock() - entry.progressed_s >= self._stale_after_s
            )
            if is_free and entry.claimant != node:
                entry.claimant = node
                entry.progressed_s = self._clock()
            return entry.claimant == node

    def progressed(self, key: str, node: str) -> None:
        """See `Registry.progressed`."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.claimant == node:
                entry.progressed_s = self._clock()

    def holders(self, key: str) -> tuple[str, ...]:
        """See `Registry.holders`."""
        with self._lock:
            entry = self._entries.get(key)
            return () if entry is None else tuple(sorted(entry.holders))

    def tell(self, key: str, node: str, sha256: str) -> None:
        """See `Registry.tell`."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.claimant == node:
                entry.sha256 = sha256

    def announce(self, key: str, node: str, sha256: str) -> None:
        """See `Registry.announce`."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            entry.sha256 = entry.sha256 or sha256
            entry.holders.add(node)

    def told(self, key: str) -> str:
        """See `Registry.told`."""
        with self._lock:
            entry = self._entries.get(key)
            return "" if entry is None else entry.sha256

    def leave(self, key: str, node: str) -> None:
        """See `Registry.leave`."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return
            entry.holders.discard(node)
            if entry.claimant == node:
                entry.claimant = ""
            if not entry.holders:
                del self._entries[key]
