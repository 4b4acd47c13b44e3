# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""When the requests of an open loop are due: offsets from its start, in nanoseconds, for ever.

Triton: perf_analyzer/src/request_rate_manager.cc GenerateSchedule, custom_load_manager.cc @263c5f6
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Final

from backends.api.errors import InvalidArgumentError

_NS_PER_S: Final = 1e9
_NS_PER_MS: Final = 10**6
_NS_PER_US: Final = 1000


def constant(rate: float) -> Iterator[int]:
    """Yield equal distances; ``rate`` is requests a second."""
    period_ns = _NS_PER_S / rate
    # Multiplied, not added up: an error would grow.
    return (round(index * period_ns) for index in itertools.count())


def poisson(rate: float, seed: int) -> Iterator[int]:
    """Yield arrivals that know nothing of each other: distances are exponential."""
    draws = random.Random(seed)  # noqa: S311 - the same load again, no secret
    offset_ns = 0.0
    while True:
        offset_ns += draws.expovariate(rate) * _NS_PER_S
        yield round(offset_ns)


def replayed(intervals_us: Sequence[int]) -> Iterator[int]:
    """Yield the distances of a file, over and over; the first request is due after the first."""
    return itertools.accumulate(
        interval_us * _NS_PER_US for interval_us in itertools.cycle(intervals_us)
    )


def fixed(due_ms: Sequence[int]) -> Iterator[int]:
    """Yield the instants of a trace, in milliseconds; after the last one it stays at that."""
    offsets = [each * _NS_PER_MS for each in due_ms]
    return itertools.chain(offsets, itertools.repeat(offsets[-1]))


def read_intervals(text: str, path: str) -> tuple[int, ...]:
    """Read a file of distances, whole microseconds, a line each.

    Raises:
        InvalidArgumentError: A line is no such number, all are zero, or there is none.
    """
    intervals = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if not line.strip().isdecimal():
            raise InvalidArgumentError(
                f"{path}: line {number} is '{line.strip()}', expected microseconds, a whole number "
                "from 0 on"
            )
        intervals.append(int(line))
    if not any(intervals):
        raise InvalidArgumentError(
            f"{path}: no interval above 0; write the microseconds between requests, a line each"
        )
    return tuple(intervals)


def mean_rate(intervals_us: Sequence[int]) -> float:
    """Return the requests a second of intervals that are replayed."""
    return len(intervals_us) * 1e6 / sum(intervals_us)
