# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An event loop whose timers are right to some ten microseconds.

Timers of epoll, and so those of asyncio and uvloop, are as coarse as a millisecond, which is the
latency of a whole request. ``select`` knows microseconds; here it waits for the one descriptor of
epoll, so the number of connections has no bound.
"""

import asyncio
import select
import selectors
from typing import Any


class PreciseSelector(selectors.EpollSelector):
    """A selector that wakes up on time."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        """Return what is ready; waits for ``timeout`` seconds, for ever with None."""
        if timeout is not None and timeout > 0:
            ready, _, _ = select.select((self.fileno(),), (), (), timeout)
            if not ready:
                return []
            timeout = 0
        return super().select(timeout)


def precise_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop on such a selector."""
    return asyncio.SelectorEventLoop(PreciseSelector())
