# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How close the pools of ten nodes come to one central queue, in virtual time.

Prints a row for each cell: scheduler, spread of the arrivals, service times, load. All numbers are
means over the seeds. The *wait* is the response time without the execution: waiting, and on the
way; where requests batch it is not known, and one of less than 10 us is not compared with. First
the pools' mean response, mean wait and 99th percentile of the response in milliseconds. Then these
as multiples of one central queue on each node, for that node's arrivals, and of one for the whole
cluster: neither needs messages. Then the mean waits of those two, of the least that is possible
with messages, and of the informed queue (`tests.support.simulated_load`). Last, for each request,
how many were executed on another node, sent by a lease, taken back, and how many messages only
asked and told.

Usage: simulate_pools.py [--requests 30000] [--seeds 1,2,3] [--network-us 200] [--only TEXT]
"""

import argparse
import sys
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.simulated_load import SERVICES, Cell, Comparison, Outcome, compare

_LEAST_WAIT_MS = 0.01
COUNTS = ("remote", "lease", "move", "message")
COLUMNS = (
    "mean ms", "wait ms", "p99 ms",
    "mean / node", "wait / node", "p99 / node",
    "mean / all", "wait / all", "p99 / all",
    "node: wait ms", "all: wait ms", "bound: wait ms", "informed: wait ms",
    *COUNTS,
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=30_000)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--network-us", type=int, default=200)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    seeds = [int(each) for each in arguments.seeds.split(",")]
    print("| cell |", " | ".join(COLUMNS), "|")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for is_batching, is_uneven, service, load in product(
        (False, True), (False, True), SERVICES, (0.5, 0.7, 0.9)
    ):
        words = ("batching",) * is_batching + ("uneven",) * is_uneven
        name = " ".join((*words, service, f"{load:.0%}"))
        if arguments.only in name:
            cell = Cell(load, service, is_uneven, is_batching, arguments.network_us * 1000)
            results = [compare(cell, arguments.requests, seed) for seed in seeds]
            print(f"| {name} |", " | ".join(_row(cell, results)), "|", flush=True)


def _row(cell: Cell, results: list[Comparison]) -> list[str]:
    pools = _mean([each.pools for each in results])
    by_node, central, bound, informed = (
        _mean([getattr(each, name) for each in results])
        for name in ("by_node", "central", "bound", "informed")
    )

    def wait(value: float) -> str:
        return "" if cell.is_batching else f"{value:.2f}"

    row = [f"{pools.mean_ms:.2f}", wait(pools.wait_ms), f"{pools.p99_ms:.1f}"]
    for other in (by_node, central):
        mean, p99 = pools.over(other)
        is_measure = other.wait_ms >= _LEAST_WAIT_MS
        row += [f"{mean:.2f}", wait(pools.wait_ms / other.wait_ms) if is_measure else ""]
        row += [f"{p99:.2f}"]
    row += [wait(each.wait_ms) for each in (by_node, central, bound, informed)]
    counts = [sum(each.counts[name] for each in results) / len(results) for name in COUNTS]
    return [*row, *(f"{each:.2f}" for each in counts)]


def _mean(outcomes: list[Outcome]) -> Outcome:
    return Outcome(*(sum(values) / len(values) for values in zip(*outcomes, strict=True)))


if __name__ == "__main__":
    main()
