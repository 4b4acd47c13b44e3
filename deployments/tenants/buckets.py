# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Token buckets: what may be used is as much as has come in, up to a capacity. Pure.

Two ways to use one. Requests are *taken*: one token each, or nothing. Bytes and seconds of
execution are a *debt*: while there is none, a request may start whatever it will cost, and what it
cost is paid back by what comes in. So one request may cost more than the capacity, and still the
rate holds in the mean.
"""


class TokenBucket:
    """A bucket, full at first. Times are seconds of one clock that only goes forward.

    Args:
        rate: Tokens that come in, a second; above 0.
        capacity: Most tokens it holds; above 0.
        now_s: Now.

    Attributes:
        rate: The same.
        capacity: The same.
    """

    __slots__ = ("_at_s", "_level", "capacity", "rate")

    def __init__(self, rate: float, capacity: float, now_s: float) -> None:
        self.rate = rate
        self.capacity = capacity
        self._level = capacity
        self._at_s = now_s

    def level(self, now_s: float) -> float:
        """Return how many tokens there are; negative while there is debt."""
        if now_s > self._at_s:
            came_in = self._level + (now_s - self._at_s) * self.rate
            self._level = min(self.capacity, came_in)
            self._at_s = now_s
        return self._level

    def wait_s(self, needed: float, now_s: float) -> float:
        """Return in how many seconds there are so many tokens; 0.0 when there are."""
        # Rounding must not make a token that has come in one that has not.
        missing = needed - self.level(now_s)
        if missing <= 1e-9:  # noqa: PLR2004 - of a token
            return 0.0
        return missing / self.rate

    def use(self, tokens: float) -> None:
        """Take tokens, whether they are there or not."""
        self._level -= tokens

    def change(self, rate: float, capacity: float, now_s: float) -> None:
        """Let another rate and capacity count from now on; no token comes in by that."""
        self._level = min(self.level(now_s), capacity)
        self.rate = rate
        self.capacity = capacity
