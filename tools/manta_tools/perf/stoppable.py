# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What all runs have in common: they open what they need, and can be told to stop."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from typing import Self

from manta_tools.perf.profiler import Profiler


class StoppableRun(ABC):
    """A run against a server; a context, in which it has all that it needs."""

    def __init__(self) -> None:
        self._exits = AsyncExitStack()
        self._profiler: Profiler | None = None
        self._task: asyncio.Task[object] | None = None
        self._interrupts = 0

    async def __aenter__(self) -> Self:
        """Connect, and prepare what is sent.

        Raises:
            UnavailableError: The server cannot be reached or does not have the model.
            InvalidArgumentError: The data does not fit the model.
        """
        try:
            await self._prepare()
        except BaseException:
            await self._exits.aclose()
            raise
        return self

    async def __aexit__(self, *ignored: object) -> None:
        """Close connections, and whatever else was opened."""
        await self._exits.aclose()

    @property
    def is_interrupted(self) -> bool:
        """Whether the run was told to stop."""
        return self._interrupts > 0

    def interrupt(self) -> None:
        """Stop after the current window, or a run of so many requests at once; then for good."""
        self._interrupts += 1
        if self._profiler is not None:
            self._profiler.is_stopping = True
        if (self._interrupts > 1 or self._profiler is None) and self._task is not None:
            self._task.cancel()

    @abstractmethod
    async def _prepare(self) -> None:
        """Open what is needed, each with its end in ``_exits``; raises as entering does."""
