# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The bound on how many versions load at a time."""

import asyncio


class LoadSlot:
    """A place among the versions that may load at a time; given back early by who must wait."""

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore = semaphore
        self._held = False

    async def __aenter__(self) -> "LoadSlot":
        await self._semaphore.acquire()
        self._held = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Give the place back; a second call does nothing."""
        if self._held:
            self._held = False
            self._semaphore.release()


class LoadSlots:
    """The places there are: ``--model-load-thread-count``."""

    def __init__(self, count: int) -> None:
        self._semaphore = asyncio.Semaphore(count)

    def one(self) -> LoadSlot:
        """Return a place, to be entered."""
        return LoadSlot(self._semaphore)
