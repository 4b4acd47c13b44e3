# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An instance as its pool's queue sees it."""

from typing import Final, Generic

from deployments.scheduling.scheduler import Item

# How much one execution counts in a mean over the latest.
RECENT: Final = 0.125


class PoolInstance(Generic[Item]):
    """An instance as its pool's queue sees it.

    Attributes:
        name: Its name.
        batches: What lies there, by the batches' numbers; empty ones are leases.
        foreign_count: Batches of an earlier queue that lie there.
        mean_execution_ns: How long executions take; 0.0 before the first.
        is_leaving: Whether nothing is to start there but what its sequences need.
        is_limited: Whether it executes under the rate limiter.
        is_asked: Whether it was asked for its grant.
        is_granted: Whether it holds its grant and no batch yet.
    """

    __slots__ = (
        "batches",
        "foreign_count",
        "is_asked",
        "is_granted",
        "is_leaving",
        "is_limited",
        "mean_execution_ns",
        "name",
    )

    def __init__(self, name: str, foreign_count: int, *, is_limited: bool) -> None:
        self.name = name
        self.batches: dict[int, list[Item]] = {}
        self.foreign_count = foreign_count
        self.mean_execution_ns = 0.0
        self.is_leaving = False
        self.is_limited = is_limited
        self.is_asked = False
        self.is_granted = False

    @property
    def batch_count(self) -> int:
        """Batches that lie there."""
        return len(self.batches) + self.foreign_count

    def note_execution(self, execution_ns: int) -> None:
        """Count an execution in the mean."""
        mean_ns = self.mean_execution_ns
        self.mean_execution_ns = (
            mean_ns + (execution_ns - mean_ns) * RECENT if mean_ns else execution_ns
        )
