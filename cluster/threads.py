# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Threads for calls that block: a pool for each kind of what may be slow.

What waits for a node or a file takes no thread from what asks the GCS, and the other way round. So
nothing here runs on the pool that an event loop has of its own, which all kinds would share.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool:
    """A bounded number of threads, which start when they are needed.

    Args:
        name: Their name, for whoever looks at the process.
        most: How many there are at most; what comes then waits in line.
    """

    def __init__(self, name: str, most: int) -> None:
        self._executor = ThreadPoolExecutor(most, f"manta-{name}")

    def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Call something on a thread, as `asyncio.to_thread` does.

        Cancelling what is returned keeps a call from beginning, and does not end one that has.
        """
        context = contextvars.copy_context()
        work = partial(context.run, partial(call, *args, **kwargs))
        return asyncio.get_running_loop().run_in_executor(self._executor, work)

    def wrapped(self, call: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return a function that calls something on a thread; see `run`."""

        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            return await self.run(call, *args, **kwargs)

        return run


# Calls of the GCS, which wait while it is away, and what Ray does on the way to it.
GCS: Final = ThreadPool("gcs", 32)
# Calls of actors on other nodes, which wait for those.
NODES: Final = ThreadPool("nodes", 32)
# Files of this machine that are the server's own: what was made for a load, or by an agent.
FILES: Final = ThreadPool("files", 16)
# Repository agents and what tells them, which may be anybody's code.
AGENTS: Final = ThreadPool("agents", 16)
# Computing that an event loop has no time for.
COMPUTING: Final = ThreadPool("computing", 2)
