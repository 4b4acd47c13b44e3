# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which regions requests of this process use, so that none is unregistered under a request.

Inputs are copied out of regions, here or at an instance; the copies are in the memory budget of the
process that has the request, since a message of a few bytes can name any part of a region.

Triton: server/src/shared_memory_manager.cc UnregisterHelper @0395be2, which counts the requests
that hold a region; here each ingress counts its own.
"""

from collections.abc import Callable, Collection

from backends.api.errors import ResourceExhaustedError
from deployments.supervision.memory_account import UNLIMITED_BYTES
from deployments.supervision.memory_budget import MemoryBudget


class RegionUses:
    """Counts the requests that use each region.

    Args:
        on_unused: Called with the name of a region that was to be left, once nothing uses it.

    Attributes:
        budget: What copies of inputs are taken from; to be set where there is one.
    """

    def __init__(self, on_unused: Callable[[str], None]) -> None:
        self._on_unused = on_unused
        self.budget = MemoryBudget(UNLIMITED_BYTES)
        self._counts: dict[str, int] = {}
        self._leaving: set[str] = set()

    def begin(self, names: Collection[str], copied_bytes: int = 0) -> None:
        """Count a request that uses regions; `end` takes the same arguments.

        Args:
            names: The regions.
            copied_bytes: How much of them its inputs are.

        Raises:
            ResourceExhaustedError: The memory budget has no room for them.
        """
        if not self.budget.try_take(copied_bytes):
            raise ResourceExhaustedError(
                f"Server is too busy to copy {copied_bytes} bytes out of shared memory regions: "
                f"{self.budget.used_bytes} of {self.budget.limit_bytes} bytes for messages of "
                f"all connections are in use, try again later"
            )
        for name in names:
            self._counts[name] = self._counts.get(name, 0) + 1

    def end(self, names: Collection[str], copied_bytes: int = 0) -> None:
        """Take the end of a request."""
        self.budget.give_back(copied_bytes)
        for name in names:
            left = self._counts[name] - 1
            if left:
                self._counts[name] = left
                continue
            del self._counts[name]
            if name in self._leaving:
                self._leaving.discard(name)
                self._on_unused(name)

    def leave(self, name: str) -> bool:
        """Have a region left when its last request ends; False when no request uses it."""
        if name not in self._counts:
            return False
        self._leaving.add(name)
        return True
