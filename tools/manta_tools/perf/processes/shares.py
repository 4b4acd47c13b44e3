# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which part of a load one of several processes sends; all parts together are the load."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from manta_tools.perf.data.sequences import SequencePlan
from manta_tools.perf.options.checks import is_rate
from manta_tools.perf.options.table import PerfOptions


@dataclass(frozen=True, slots=True)
class Share:
    """One of so many parts.

    Attributes:
        index: Which part, from 0.
        count: How many parts there are.
    """

    index: int = 0
    count: int = 1

    def of(self, total: int) -> int:
        """Return this part of a number; parts differ by one at most."""
        return total // self.count + (self.index < total % self.count)

    def of_schedule(self, offsets: Iterator[int]) -> Iterator[int]:
        """Return every so-manieth instant, from the one of this part's number on."""
        return islice(offsets, self.index, None, self.count)

    def of_sequences(self, plan: SequencePlan) -> SequencePlan:
        """Return a plan whose ids no other part has; its lengths are drawn anew."""
        id_count = plan.id_count // self.count
        return replace(
            plan,
            first_id=plan.first_id + self.index * id_count,
            id_count=id_count,
            seed=plan.seed + self.index,
        )


def shares_of(
    options: PerfOptions, level: float, limit: int, *, is_sequence: bool
) -> tuple[Share, ...]:
    """Return the parts of a level's load, at most as many as there are processes.

    Args:
        options: Of the run.
        level: Concurrency or requests a second.
        limit: How many requests are sent; 0 for any number.
        is_sequence: Whether the model takes sequences.
    """
    bounds = [options.processes]
    if limit:
        bounds.append(limit)
    if not is_rate(options):
        bounds.append(int(level))
    elif is_sequence:
        bounds.append(options.num_of_sequences)
    count = max(min(bounds), 1)
    return tuple(Share(index, count) for index in range(count))
