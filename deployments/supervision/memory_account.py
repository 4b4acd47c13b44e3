# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What one connection holds of its process's memory budget. Pure."""

from typing import Final

from deployments.supervision.memory_budget import FREE_BYTES, MemoryBudget

# A budget that refuses nothing.
UNLIMITED_BYTES: Final = 1 << 62


class MemoryAccount:
    """Counts what a connection holds and takes from the budget what is over a free amount.

    Args:
        budget: The process's budget.
        free_bytes: What is held without asking it.

    Attributes:
        held_bytes: What the connection holds now.
    """

    __slots__ = ("_budget", "_free_bytes", "_taken_bytes", "held_bytes")

    def __init__(self, budget: MemoryBudget, free_bytes: int = FREE_BYTES) -> None:
        self._budget = budget
        self._free_bytes = free_bytes
        self._taken_bytes = 0
        self.held_bytes = 0

    def try_hold(self, count_bytes: int) -> bool:
        """Hold more; False, and nothing changes, when the budget refuses."""
        held_bytes = self.held_bytes + count_bytes
        missing_bytes = held_bytes - self._free_bytes - self._taken_bytes
        if missing_bytes > 0:
            if not self._budget.try_take(missing_bytes):
                return False
            self._taken_bytes += missing_bytes
        self.held_bytes = held_bytes
        return True

    def hold(self, count_bytes: int) -> None:
        """Hold what exists already, whether or not the budget has room for it."""
        self.held_bytes += count_bytes
        missing_bytes = self.held_bytes - self._free_bytes - self._taken_bytes
        if missing_bytes > 0:
            self._budget.take(missing_bytes)
            self._taken_bytes += missing_bytes

    def let_go(self, count_bytes: int) -> None:
        """Hold less.

        Raises:
            ValueError: Less than nothing would be held.
        """
        if count_bytes > self.held_bytes:
            raise ValueError(f"{count_bytes} bytes let go of {self.held_bytes} held")
        self.held_bytes -= count_bytes
        excess_bytes = self._taken_bytes - max(0, self.held_bytes - self._free_bytes)
        if excess_bytes > 0:
            self._taken_bytes -= excess_bytes
            self._budget.give_back(excess_bytes)

    def explain(self, what: str) -> str:
        """Return the text that tells a client of a refusal.

        Args:
            what: What was to be held, for example "a message".
        """
        return (
            f"Server is too busy to hold {what}: {self._budget.used_bytes} of"
            f" {self._budget.limit_bytes} bytes for messages of all connections are in use, try"
            " again later"
        )
