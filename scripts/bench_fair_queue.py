# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a queue costs a request, in this process: for one tenant and for several.

Each round queues and takes a thousand requests, and its CPU time counts; of the rounds the fastest
does, since what else runs on the machine only adds. It runs against any checkout that is first on
the path, so that two can be compared. Usage: bench_fair_queue.py [--rounds 200]
"""

import argparse
import time

from deployments.scheduling.dynamic_batcher import DynamicBatcher

COUNT, BACKLOG = 1000, 32


class Item:
    """A request."""

    __slots__ = ("batch_size", "enqueue_ns", "is_cancelled", "signature", "tenant", "weight")
    request_id = ""
    timeout_us = priority = 0

    def __init__(self, tenant: str) -> None:
        self.batch_size, self.enqueue_ns, self.signature = 1, 0, None
        self.is_cancelled = False
        self.tenant, self.weight = tenant, 1.0


def _round(tenants: int, backlog: int) -> float:
    """Return what a request cost, in microseconds, with so many queued."""
    batcher: DynamicBatcher[Item] = DynamicBatcher(8)
    items = [Item(f"t{at % tenants}") for at in range(COUNT)]
    start = time.thread_time()
    for at, item in enumerate(items):
        batcher.enqueue(item, at)
        if batcher.pending_count > backlog:
            batcher.next_batch(at)
    return (time.thread_time() - start) * 1e6 / COUNT


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    for tenants in (1, 2, 10):
        for backlog in (0, BACKLOG):
            fastest = min(_round(tenants, backlog) for _ in range(rounds))
            print(f"{tenants:3} tenants, {backlog:3} queued: {fastest:6.2f} us a request")


if __name__ == "__main__":
    main()
