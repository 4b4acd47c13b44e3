# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The key-value store of the cluster, the one task that writes to it, and the fence around it.

Writes of one key never overtake each other, and of several that wait only the last is made: there
is one writer, and what waits is a dictionary by key. Nothing blocks the event loop.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Protocol, Self

from backends.api.errors import UnavailableError
from cluster.actors.file_registry import Rows
from cluster.threads import GCS
from deployments.supervision.supervisor import Supervisor

# Makes the bytes to write when they are written; a deletion in its place is None.
Content = Callable[[], bytes]
_PREFIX = b"controller/epoch/"
_TOKEN_BYTES = 8


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


class SupersededError(UnavailableError):
    """Another controller has taken over."""


class FencedStore:
    """Implements `Store`; reads always, and writes while the controller has no successor.

    A node that the cluster has given up may live on, and the controller on it. Ray has started the
    controller anew elsewhere by then. Each controller therefore takes a number when it starts, one
    higher than any before, and the rows of the earlier numbers go before it reads anything. Whoever
    misses its own row has a successor: it writes nothing any more, and its process ends. A write
    that was under way meanwhile does no harm where the key carries the number, as that of the state
    does.

    Made by `claim`. With a successor all that writes raises a `SupersededError`.

    Args:
        store: What is behind it.
        number: Higher than that of any controller before.
        token: Tells the number's row from another one of the same number.
        on_superseded: Called when there is another controller.

    Attributes:
        number: As given.
    """

    def __init__(
        self, store: Store, number: int, token: bytes, on_superseded: Callable[[], None]
    ) -> None:
        self.number = number
        self.get = store.get
        self.keys = store.keys
        self._store = store
        self._token = token
        self._on_superseded = on_superseded

    @classmethod
    async def claim(cls, store: Store, on_superseded: Callable[[], None] = lambda: None) -> Self:
        """Take the next number; whoever had the one before writes nothing from now on."""
        token = secrets.token_bytes(_TOKEN_BYTES)
        while True:
            number = max(await _numbers(store), default=0) + 1
            if not await store.create(_row(number), token):
                continue
            taken = await _numbers(store)
            # A row of the same number may have come and gone since the first look.
            if number == max(taken, default=0):
                break
            await store.delete(_row(number))
        for each in taken:
            if each < number:
                await store.delete(_row(each))
        return cls(store, number, token, on_superseded)

    async def create(self, key: bytes, value: bytes) -> bool:
        """See `Store`."""
        await self.check()
        return await self._store.create(key, value)

    async def put(self, key: bytes, content: Content) -> None:
        """See `Store`."""
        await self.check()
        await self._store.put(key, content)

    async def delete(self, key: bytes) -> None:
        """See `Store`."""
        await self.check()
        await self._store.delete(key)

    async def check(self) -> None:
        """Make sure that there is no successor.

        Raises:
            SupersededError: There is one, and that was told.
        """
        if await self._store.get(_row(self.number)) != self._token:
            self._on_superseded()
            raise SupersededError(
                f"this controller, number {self.number} of the cluster, was replaced by another"
            )


def _row(number: int) -> bytes:
    return b"%s%020d" % (_PREFIX, number)


async def _numbers(store: Store) -> list[int]:
    return [int(key.removeprefix(_PREFIX)) for key in await store.keys(_PREFIX)]
