# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How often, and after how long, a request to a store is made again. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cluster.repository.stores.errors import Failure


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Full jitter between nothing and a bound that doubles.

    Attributes:
        attempts: Requests at most.
        base_s: Bound of the first wait.
        cap_s: Bound of any wait, also of what the store asks for.
        deadline_s: After this no further attempt is begun.
    """

    attempts: int = 8
    base_s: float = 0.2
    cap_s: float = 10.0
    deadline_s: float = 60.0

    def wait_s(
        self, attempt: int, elapsed_s: float, failure: Failure, random: Callable[[], float]
    ) -> float | None:
        """Return how long to wait before the next attempt; None when there is none.

        Args:
            attempt: Attempts made; the first is 1.
            elapsed_s: Since the first began.
            failure: What the last one ended with.
            random: Gives numbers in [0, 1).
        """
        if not failure.is_passing or attempt >= self.attempts:
            return None
        bound_s = min(self.cap_s, self.base_s * 2 ** (attempt - 1))
        wait = max(bound_s * random(), min(failure.retry_after_s, self.cap_s))
        return wait if elapsed_s + wait < self.deadline_s else None


DEFAULT_POLICY: Final = RetryPolicy()
