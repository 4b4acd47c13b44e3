# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A token bucket against floods of frames that are legal one by one."""

from deployments.http2.limits import NS_PER_S


class Credit:
    """Credit that useless frames spend, and that time and useful work give back.

    Args:
        capacity: The burst that is allowed, in frames.
        per_s: Frames allowed per second in the long run.
        now_ns: The clock.
    """

    __slots__ = ("_capacity", "_left", "_per_s", "_refilled_ns")

    def __init__(self, capacity: int, per_s: int, now_ns: int) -> None:
        self._capacity = capacity
        self._left = capacity
        self._per_s = per_s
        self._refilled_ns = now_ns

    def spend(self, cost: int, now_ns: int) -> bool:
        """Take credit; False when there is not enough, and then the peer is hostile."""
        if self._left < cost:
            self._refill(now_ns)
            if self._left < cost:
                return False
        self._left -= cost
        return True

    def refund(self, amount: int) -> None:
        """Give credit back for work done."""
        left = self._left + amount
        self._left = min(self._capacity, left)

    def _refill(self, now_ns: int) -> None:
        earned = (now_ns - self._refilled_ns) * self._per_s // NS_PER_S
        if earned > 0:
            self._refilled_ns = now_ns
            self.refund(earned)
