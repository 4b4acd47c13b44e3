# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tasks of which a few begin at once.

A poll has a task for each model of the repositories. Most come to nothing, in a millisecond of the
loop's; if thousands begin together, what others ask of the loop waits for seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

AT_ONCE: Final = 32
# One that takes long holds up the next for this long.
TURN_S: Final = 0.02


class Turns:
    """Such tasks; none begins before `run`."""

    def __init__(self) -> None:
        self._turns: list[asyncio.Event] = []
        self._tasks: list[asyncio.Task[None]] = []

    def spawn(self, call: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Return a task that makes a call when its turn comes."""
        if len(self._tasks) % AT_ONCE == 0:
            self._turns.append(asyncio.Event())
        task = asyncio.create_task(_in_turn(self._turns[-1], call))
        self._tasks.append(task)
        return task

    async def run(self) -> None:
        """Have all begin, and wait for their ends; what they raise is theirs."""
        try:
            for number, turn in enumerate(self._turns):
                turn.set()
                these = self._tasks[number * AT_ONCE : (number + 1) * AT_ONCE]
                await asyncio.wait(these, timeout=TURN_S)
            await asyncio.gather(*self._tasks, return_exceptions=True)
        except asyncio.CancelledError:
            for each in self._tasks:
                each.cancel()
            raise


async def _in_turn(turn: asyncio.Event, call: Callable[[], Awaitable[None]]) -> None:
    await turn.wait()
    await call()
