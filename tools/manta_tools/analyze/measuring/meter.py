# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a server's processes take while models are under load."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final, Self

from manta_tools.analyze.measuring.metrics import BYTES_PER_MB, CPU_PER_INFERENCE
from manta_tools.analyze.measuring.processes import Processes, spent_ns
from manta_tools.analyze.measuring.repository import Repository

_NS_PER_MS: Final = 1e6

Pids = frozenset[int]


class Meter:
    """Looks at processes before, during and after what is done in its context.

    Args:
        processes: The server's; None where they cannot be seen, and nothing is known of them.
        repository: The server's.
        parts: For each model that is asked itself and the models that it calls.
        interval_s: Between two readings of memory.

    Attributes:
        died: How many instances have ended meanwhile.
    """

    def __init__(
        self,
        processes: Processes | None,
        repository: Repository,
        parts: Mapping[str, frozenset[str]],
        interval_s: float = 1.0,
    ) -> None:
        self._processes, self._repository = processes, repository
        self._parts, self._interval_s = parts, interval_s
        self._watching: asyncio.Task[None] | None = None
        self._is_over = asyncio.Event()
        self._pids: Mapping[str, Pids] = {}
        self._cpu_ns: Mapping[int, int] = {}
        self._spent_ns = self._count = 0
        # The most that each model's instances took, and the least that was left.
        self._memory_bytes = dict.fromkeys(parts, 0)
        self._available_bytes: int | None = None
        self.died = 0

    async def __aenter__(self) -> Self:
        """Note what there is before the load."""
        if self._processes is not None:
            await self._begin(self._processes)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *ignored: object) -> None:
        """Look at what has changed, unless the load ended with an error."""
        self._is_over.set()
        if self._watching is not None:
            await self._watching
        if self._processes is not None and kind is None:
            await self._end(self._processes)

    def metrics(self, model: str) -> dict[str, float]:
        """Return the metrics of a model's processes; none where they are not seen."""
        if self._processes is None:
            return {}
        found = {
            "cpu_used_ram": self._memory_bytes[model] / BYTES_PER_MB,
            "cpu_available_ram": (self._available_bytes or 0) / BYTES_PER_MB,
        }
        if self._count > 0:
            found[CPU_PER_INFERENCE] = self._spent_ns / self._count / _NS_PER_MS
        return found

    async def _begin(self, processes: Processes) -> None:
        self._pids = {model: processes.pids(parts) for model, parts in self._parts.items()}
        self._count = await self._repository.inference_count(frozenset(self._parts))
        self._cpu_ns = processes.cpu_ns()
        self._watching = asyncio.create_task(self._watch(processes))

    async def _end(self, processes: Processes) -> None:
        self._spent_ns = spent_ns(self._cpu_ns, processes.cpu_ns())
        asked = frozenset(self._parts)
        self._count = await self._repository.inference_count(asked) - self._count
        left = {model: processes.pids(parts) for model, parts in self._parts.items()}
        await asyncio.to_thread(self._read, processes, left)
        self.died = len(_all(self._pids) - _all(left))

    async def _watch(self, processes: Processes) -> None:
        """Read memory again and again, of the processes that there were before the load.

        To look for others would take the load generator's time.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._is_over.wait()
            if self._is_over.is_set():
                return
            await asyncio.to_thread(self._read, processes, self._pids)

    def _read(self, processes: Processes, pids: Mapping[str, Pids]) -> None:
        for model, each in pids.items():
            read_bytes = processes.memory_bytes(each)
            self._memory_bytes[model] = max(self._memory_bytes[model], read_bytes)
        left_bytes = processes.available_bytes()
        least = self._available_bytes
        self._available_bytes = left_bytes if least is None else min(least, left_bytes)


def _all(pids: Mapping[str, Pids]) -> Pids:
    return frozenset().union(*pids.values())
