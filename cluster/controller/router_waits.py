# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Waits for all routers to get somewhere: to a version of the table, or to a report.

What a router says costs O(waits), and a wait O(routers) altogether: thousands of routers answer.
"""

import asyncio
from collections.abc import Iterable


class RouterWaits:
    """The waits that go on."""

    def __init__(self) -> None:
        self._waits: dict[asyncio.Event, tuple[int, set[str]]] = {}

    def said(self, router_id: str, number: int) -> None:
        """Learn how far a router is; one that is new is waited for, too, if it is behind."""
        for done, (wanted, behind) in self._waits.items():
            if number < wanted:
                behind.add(router_id)
            else:
                behind.discard(router_id)
            if not behind:
                done.set()

    def gone(self, router_ids: Iterable[str]) -> None:
        """Wait for some routers no more."""
        names = set(router_ids)
        for done, (_, behind) in self._waits.items():
            behind.difference_update(names)
            if not behind:
                done.set()

    async def wait(self, behind: Iterable[str], number: int, timeout_s: float) -> set[str]:
        """Wait until routers have said at least a number.

        Returns:
            Those that have not said so in time.
        """
        names = set(behind)
        if not names:
            return names
        done = asyncio.Event()
        self._waits[done] = number, names
        try:
            async with asyncio.timeout(timeout_s):
                await done.wait()
        except TimeoutError:
            return names
        finally:
            del self._waits[done]
        return set()
