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

    Attributes:
        left: What can be spent without a look at the clock.
    """

    __slots__ = ("_capacity", "_per_s", "_refilled_ns", "left")

    def __init__(self, capacity: int, per_s: int, now_ns: int) -> None:
        self._capacity = capacity
        self.left = capacity
        self._per_s = per_s
        self._refilled_ns = now_ns

    def spend(self, cost: int, now_ns: int) -> bool:
        """Take credit; False when there is not enough, and then the peer is hostile."""
        if self.left < cost:
            self._refill(now_ns)
            if self.left < cost:
                return False
        self.left -= cost
        return True

    def refund(self, amount: int) -> None:
        """Give credit back for work done."""
        left = self.left + amount
        # Not min: this runs several times per call.
        self.left = self._capacity if left > self._capacity else left  # noqa: FURB136

    def _refill(self, now_ns: int) -> None:
        earned = (now_ns - self._refilled_ns) * self._per_s // NS_PER_S
        if earned > 0:
            self._refilled_ns = now_ns
            self.refund(earned)
