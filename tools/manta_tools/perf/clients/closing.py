# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The end of a client's connections."""

import asyncio
from collections.abc import Iterable
from typing import Protocol


class Closable(Protocol):
    """A connection."""

    def close(self) -> None:
        """Close it."""


async def close_all(
    opening: Iterable["asyncio.Task[None] | None"], connections: Iterable[Closable]
) -> None:
    """Give up connections that are being opened, and close those that are."""
    tasks = [task for task in opening if task is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for connection in list(connections):
        connection.close()
    # Transports close in the loop's next turn.
    await asyncio.sleep(0)
