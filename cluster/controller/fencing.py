# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Of several controllers that believe they are the one, only the latest writes.

A node that the cluster has given up may live on, and the controller on it. Ray has started the
controller anew elsewhere by then. Each controller therefore takes a number when it starts, one
higher than any before, and the rows of the earlier numbers go before it reads anything. Whoever
misses its own row has a successor: it writes nothing any more, and its process ends. A write that
was under way meanwhile does no harm where the key carries the number, as that of the state does.
"""

import secrets
from collections.abc import Callable
from typing import Self

from backends.api.errors import UnavailableError
from cluster.controller.store import Content, Store

_PREFIX = b"controller/epoch/"
_TOKEN_BYTES = 8


class SupersededError(UnavailableError):
    """Another controller has taken over."""


class FencedStore:
    """Implements `Store`; reads always, and writes while the controller has no successor.

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
