# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How close the pools of ten nodes come to one central queue, in virtual time.

Prints, for each load, distribution of service times, spread of the arrivals and scheduler, the mean
and the 99th percentile of the response time: of the pools, and of the pools as a multiple of one
central queue for each node, and of one for the cluster. Central queues need no messages.
Usage: simulate_pools.py [--requests 100000] [--seeds 1] [--only TEXT]
"""

import argparse
import sys
import time
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.pool_workload import SERVICES, Cell, compare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    print(
        f"{'cell':40} {'mean ms':>8} {'p99 ms':>8} {'/node':>6} {'p99':>6} {'/clust':>6} {'p99':>6}"
        f" {'moves':>6} {'asks':>6} {'remote':>6}"
    )
    for batching, uneven, service, load in product(
        (False, True), (False, True), SERVICES, (0.5, 0.7, 0.9)
    ):
        name = f"{'batching ' if batching else ''}{'uneven ' if uneven else ''}{service} {load:.0%}"
        if arguments.only and arguments.only not in name:
            continue
        begun = time.process_time()
        result = compare(Cell(load, service, uneven, batching), arguments.requests, arguments.seed)
        ours, node, cluster = result[:3]
        print(
            f"{name:40} {ours.mean_ms:8.2f} {ours.p99_ms:8.2f}"
            f" {ours.mean_ms / node.mean_ms:6.3f} {ours.p99_ms / node.p99_ms:6.3f}"
            f" {ours.mean_ms / cluster.mean_ms:6.3f} {ours.p99_ms / cluster.p99_ms:6.3f}"
            f" {result.moves:6.3f} {result.messages:6.3f} {result.remote:6.3f}"
            f" {time.process_time() - begun:5.1f}s",
            flush=True,
        )


if __name__ == "__main__":
    main()
