# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The key-value store of the cluster, and the one task that writes to it.

Writes of one key never overtake each other, and of several that wait only the last is made: there
is one writer, and what waits is a dictionary by key. Nothing blocks the event loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from cluster.actors.file_registry import Rows
from cluster.threads import GCS
from deployments.supervision.supervisor import Supervisor

# Makes the bytes to write when they are written; a deletion in its place is None.
Content = Callable[[], bytes]


class Store(Protocol):
    """A store as durable as the cluster is. Any call may raise what its client raises."""

    async def get(self, key: bytes) -> bytes | None:
        """Return a value; None when the key is not there."""

    async def keys(self, prefix: bytes) -> Sequence[bytes]:
        """Return the keys that begin so."""

    async def create(self, key: bytes, value: bytes) -> bool:
        """Write a value unless there is one; whether the key has this value now."""

    async def put(self, key: bytes, content: Content) -> None:
        """Write a value. ``content`` is called where it may take its time."""

    async def delete(self, key: bytes) -> None:
        """Remove a key; one that is not there is no error."""


class GcsStore:
    """Ray's own store; its calls block, so they are made on threads."""

    def __init__(self) -> None:
        self._rows = rows = Rows()
        self.get = GCS.wrapped(rows.get)
        self.keys = GCS.wrapped(rows.keys)
        self.delete = GCS.wrapped(rows.delete)

    async def create(self, key: bytes, value: bytes) -> bool:
        """See `Store`."""
        await GCS.run(self._rows.put, key, value, overwrite=False)
        # Not by what the call says: one made twice, over a restart of the GCS, found its own value.
        return await self.get(key) == value

    async def put(self, key: bytes, content: Content) -> None:
        """See `Store`."""
        await GCS.run(lambda: self._rows.put(key, content()))


class StoreWriter:
    """Writes to a store behind the caller's back; `written` waits for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[bytes, Content | None] = {}
        self._scheduled = 0
        self._written = 0
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._supervisor = Supervisor("durable state")
        self._supervisor.keep("writer", self._write)

    def put(self, key: bytes, content: Content) -> None:
        """Have a value written, in place of any that waits for the same key."""
        self._schedule(key, content)

    def delete(self, key: bytes) -> None:
        """Have a key removed."""
        self._schedule(key, None)

    async def written(self) -> None:
        """Wait until all that was scheduled before this call is in the store."""
        upto = self._scheduled
        while self._written < upto:
            await self._progress.wait()

    async def close(self) -> None:
        """Stop writing; what waits is dropped."""
        await self._supervisor.close()

    def _schedule(self, key: bytes, content: Content | None) -> None:
        self._waiting[key] = content
        self._scheduled += 1
        self._wake.set()

    async def _write(self) -> None:
        while True:
            while self._waiting:
                await self._write_waiting()
            self._wake.clear()
            await self._wake.wait()

    async def _write_waiting(self) -> None:
        upto, batch = self._scheduled, self._waiting
        self._waiting = {}
        try:
            for key, content in list(batch.items()):
                if content is None:
                    await self._store.delete(key)
                else:
                    await self._store.put(key, content)
                del batch[key]
        finally:
            # After a failure the supervisor starts the writer again; newer values win.
            self._waiting = {**batch, **self._waiting}
        self._written = upto
        self._progress.set()
        self._progress = asyncio.Event()
