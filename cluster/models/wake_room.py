# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How many wakes may begin, where the number of versions with instances is bounded.

Whoever looks after the bound says after each look how many more may begin; until the next look that
many do at once, and the others wait, first come first served, until versions have come to rest. A
wake that has waited too long is given up: its requests have as well. What they are told is what
holds the room, which is kept in the model's record until a wake begins.

Requests that running requests wait for, as those of models that call models, are let in at once:
who calls is in use, so that nobody could rest for what it waits for.
"""

import asyncio
from dataclasses import replace
from typing import Final

from cluster.models.records import Records

_Key = tuple[str, int]

# What holds the room is known better after the next look. What is in use changes from look to look
# afterwards; the records need not.
_FIRST_TELL_S: Final = 1.0
_MOST_TELL_S: Final = 16.0


class WakeRoom:
    """The wakes that have begun, and those that wait for room.

    Args:
        records: Where it is kept what a wake waits for.

    Attributes:
        wait_s: How long a wake waits for room.
    """

    def __init__(self, records: Records) -> None:
        self.wait_s = 120.0
        self._records = records
        self._left: int | None = None
        self._holders = ""
        self._begun: set[_Key] = set()
        self._waiting: dict[_Key, asyncio.Future[None]] = {}

    @property
    def begun_count(self) -> int:
        """How many wakes have begun and not ended."""
        return len(self._begun)

    def looked(self, left: int | None, holders: str = "") -> None:
        """Let as many wakes begin as there is room for.

        Args:
            left: How many more may begin; None for any number.
            holders: What holds the room, for those who have to wait.
        """
        self._holders = holders
        for key in list(self._waiting):
            if left is not None and left <= 0:
                break
            self.let_in(key)
            left = None if left is None else left - 1
        self._left = left

    def let_in(self, key: tuple[str, int]) -> None:
        """Let a wake begin that waits, whatever room there is; any other is left alone."""
        turn = self._waiting.pop(key, None)
        if turn is not None and not turn.done():
            self._begun.add(key)
            turn.set_result(None)

    async def enter(self, key: tuple[str, int], *, is_urgent: bool = False) -> bool:
        """Wait until a wake may begin; `leave` comes when it has ended.

        Args:
            key: Model key and version number.
            is_urgent: Whether it begins whatever room there is.

        Returns:
            Whether it may; False when there was no room for too long.
        """
        if is_urgent or self._left is None or (self._left > 0 and not self._waiting):
            self._begun.add(key)
            self._left = None if self._left is None else self._left - 1
            self._tell(key[0], "")
            return True
        loop = asyncio.get_running_loop()
        turn = self._waiting[key] = loop.create_future()
        until_s, tell_s = loop.time() + self.wait_s, _FIRST_TELL_S
        try:
            while not turn.done() and loop.time() < until_s:
                self._tell(key[0], self._holders)
                await asyncio.wait({turn}, timeout=min(tell_s, until_s - loop.time()))
                tell_s = min(2 * tell_s, _MOST_TELL_S)
        finally:
            self._waiting.pop(key, None)
        if turn.done():
            self._tell(key[0], "")
        # Else routers tell it to those whose time is up a moment later.
        return turn.done()

    def leave(self, key: tuple[str, int]) -> None:
        """Note that a wake has ended, or will not begin."""
        self._begun.discard(key)

    def _tell(self, name: str, text: str) -> None:
        record = self._records.of(name)
        if record.waits_for != text:
            self._records.put(replace(record, waits_for=text))
