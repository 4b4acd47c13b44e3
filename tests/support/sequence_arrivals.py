# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences as clients send them: each request at its instant; and those upstream's tests use.

Triton: server/qa/L0_sequence_batcher/sequence_batcher_test.py @e1db8a6
"""

from tests.support.sequence_items import END, START, SequenceRequest, part

S = 1_000_000

Arrivals = list[tuple[float, SequenceRequest]]

FULL = ((1001, 1, 2, 3), (1002, 11, 12, 13), (1003, 111, 112, 113), (1004, 1111, 1112, 1113))
FULL_TOTALS = {1001: 6, 1002: 36, 1003: 336, 1004: 3336}
FIFTH = (1005, 11111, 11112, 11113)
SHORT = ((1001, 1, 2, 3), (1002, 11, 13), (1003, 111, 113), (1004, 1111, 1112, 1113))
SHORT_TOTALS = {1001: 6, 1002: 24, 1003: 224, 1004: 3336}


def sequence(
    correlation_id: int | str,
    *values: int,
    at: float = 0,
    after: tuple[float, ...] = (),
    ends: bool = True,
    **fields: object,
) -> Arrivals:
    """Return a sequence's requests.

    Args:
        at: When the first comes, in µs.
        after: How long before each of the last requests the client waits, in µs.
        ends: Whether the last has the END flag.
    """
    waits = [0.0] * (len(values) - len(after)) + list(after)
    arrivals = []
    for index, value in enumerate(values):
        flags = START if index == 0 else 0
        if ends and index == len(values) - 1:
            flags |= END
        at += waits[index]
        arrivals.append((at, part(correlation_id, flags, value=value, **fields)))
    return arrivals
