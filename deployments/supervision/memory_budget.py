# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How many bytes all connections of one process may hold together. Pure.

Limits of a single connection say nothing about ten thousand of them. Whatever buffers a client's
bytes, or bytes for a client, beyond a small free amount takes them from the budget of its process
first and gives them back when the buffer goes; who is refused answers its client "too busy".
"""

from typing import Final

# What one connection may hold without asking: keeps small requests off the books.
FREE_BYTES: Final = 64 << 10
# Refusals that wait for their turn may pass the limit by this part of it, as a power of two.
_REFUSALS_SHIFT: Final = 6


class MemoryBudget:
    """A count of bytes with a limit. For one thread.

    Args:
        limit_bytes: How much may be taken at one time.

    Attributes:
        limit_bytes: The same.
        used_bytes: What is taken now.
        peak_bytes: The most that was taken at one time.
        recent_peak_bytes: The same, since `forget_peak`.
        refused_count: How often `try_take` has refused.
    """

    __slots__ = ("limit_bytes", "peak_bytes", "recent_peak_bytes", "refused_count", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.peak_bytes = 0
        self.recent_peak_bytes = 0
        self.refused_count = 0

    def try_take(self, count_bytes: int) -> bool:
        """Take bytes; False, and nothing is taken, when that many are not left."""
        used_bytes = self.used_bytes + count_bytes
        if used_bytes > self.limit_bytes:
            self.refused_count += 1
            return False
        self.used_bytes = used_bytes
        if used_bytes > self.recent_peak_bytes:
            self._rise(used_bytes)
        return True

    def take(self, count_bytes: int) -> None:
        """Take bytes that exist already, such as a response; the limit may be passed by them."""
        self.used_bytes += count_bytes
        if self.used_bytes > self.recent_peak_bytes:
            self._rise(self.used_bytes)

    def give_back(self, count_bytes: int) -> None:
        """Give back bytes that were taken.

        Raises:
            ValueError: More is given back than was taken.
        """
        if count_bytes > self.used_bytes:
            raise ValueError(f"{count_bytes} bytes given back of {self.used_bytes} taken")
        self.used_bytes -= count_bytes

    @property
    def has_room_for_refusals(self) -> bool:
        """Whether another answer may be kept that says that `try_take` has refused."""
        return self.used_bytes < self.limit_bytes + (self.limit_bytes >> _REFUSALS_SHIFT)

    def forget_peak(self) -> None:
        """Have `recent_peak_bytes` begin anew, with what is taken now."""
        self.recent_peak_bytes = self.used_bytes

    def _rise(self, used_bytes: int) -> None:
        self.recent_peak_bytes = used_bytes
        self.peak_bytes = max(self.peak_bytes, used_bytes)
