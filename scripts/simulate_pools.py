# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How close the pools of ten nodes come to one central queue, in virtual time.

Prints for each cell (scheduler, spread of the arrivals, service times, load) the mean and the 99th
percentile of the response time of the pools; both as multiples of one central queue for each node
with that node's arrivals, and of one for the whole cluster, which need no messages; for requests
that do not batch the mean wait and way of the pools, of the one central queue, and of one that is
reached by messages; and for each request how
many were executed on another node, sent by a lease, taken back, and how many messages were sent
only to ask and to tell. Usage: simulate_pools.py [--requests 100000] [--seed 1] [--only TEXT]
"""

import argparse
import math
import sys
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.simulated_load import SERVICES, Cell, Comparison, compare

COUNTS = ("remote", "lease", "move", "message")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    columns = ("mean", "p99", "/node", "p99", "/all", "p99", "wait", "all", "msgs")
    print(f"{'':34}", *(f"{each:>7}" for each in (*columns, *COUNTS)))
    for is_batching, is_uneven, service, load in product(
        (False, True), (False, True), SERVICES, (0.5, 0.7, 0.9)
    ):
        words = ("batching",) * is_batching + ("uneven",) * is_uneven
        name = " ".join((*words, service, f"{load:.0%}"))
        if arguments.only in name:
            cell = Cell(load, service, is_uneven, is_batching)
            result = compare(cell, arguments.requests, arguments.seed)
            print(f"{name:34}", *(f"{each:7.2f}" for each in _row(cell, result)), flush=True)


def _row(cell: Cell, result: Comparison) -> list[float]:
    queues = (result.pools, result.central, result.with_messages)
    waits = [each.mean_ms - result.service_ms for each in queues]
    return [
        *result.pools,
        *result.pools.over(result.by_node),
        *result.pools.over(result.central),
        *([math.nan] * 3 if cell.is_batching else waits),
        *(result.counts[name] for name in COUNTS),
    ]


if __name__ == "__main__":
    main()
