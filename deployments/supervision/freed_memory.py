# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Gives memory of large messages that have ended back to the kernel.

malloc keeps what is freed for its next use, in an arena for each thread: up to 64 MiB each once a
process has freed something large, and more where a small object lies behind it. That is right while
large messages come, and nobody else's memory for ever after one hostile body otherwise.
"""

import asyncio
import contextlib
import ctypes
from collections.abc import Callable
from typing import Final

from deployments.supervision.memory_budget import MemoryBudget

# How often it looks. Large messages that come faster find the memory of those before them.
INTERVAL_S: Final = 10.0
# What messages have to have taken at one time: what less of them leaves is not worth a look.
WORTH_BYTES: Final = 16 << 20


def trim_malloc() -> None:
    """Give back every free page of glibc's malloc; with another C library nothing happens.

    Takes some milliseconds. Threads that allocate meanwhile wait for the arena they use.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class FreedMemory:
    """Has memory given back once large messages are gone. For the loop's thread.

    Args:
        budget: Tells what messages hold and have held.
        trim: Gives back free memory; runs on a thread.
    """

    def __init__(self, budget: MemoryBudget, trim: Callable[[], None] = trim_malloc) -> None:
        self._budget = budget
        self._trim = trim

    async def run(self) -> None:
        """Look from time to time, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            budget = self._budget
            # Messages have held much since the last time, and hold under half of that now.
            if budget.recent_peak_bytes >= max(WORTH_BYTES, 2 * budget.used_bytes):
                budget.forget_peak()
                await asyncio.to_thread(self._trim)
