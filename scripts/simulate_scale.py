# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the control plane's decisions cost in a large cluster, without Ray, network or clock.

Prints a row for each event: milliseconds of CPU time, the least of some runs, at a quarter, at half
and at the whole of the size; the exponent k of the growth n^k from the first to the last; and the
bytes that leave the process. Garbage is collected before each run and not in it.

Usage: simulate_scale.py [--nodes 1000] [--runs 5] [--only TEXT] [--profile]
"""

import argparse
import cProfile
import gc
import math
import pstats
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import scale_events
from tests.support.large_cluster import Size
from tests.support.scale_events import Event

EVENTS: tuple[Callable[[Size], Event], ...] = (
    scale_events.plan,
    scale_events.assign_gpu,
    scale_events.assign_mig,
    scale_events.assign_idle_mig,
    scale_events.resize,
    scale_events.drain,
    scale_events.take_report,
    scale_events.autoscale,
    scale_events.autoscale_part,
    scale_events.rest_one_node,
    scale_events.rest_all_nodes,
    scale_events.change,
    scale_events.lose_node,
    scale_events.change_large_pool,
    scale_events.whole_table,
    scale_events.take_change,
    scale_events.choose_node,
    scale_events.choose_unheard,
    scale_events.move_requests,
    scale_events.index,
    scale_events.status,
)
# Differences of less are the clock's.
_LEAST_MS = 0.001


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    sizes = [Size(arguments.nodes // part) for part in (4, 2, 1)]
    last = sizes[-1]
    print(f"{last.nodes} nodes, {last.gpus} GPUs, {last.models} models\n")
    print("| event | ms at n/4 | n/2 | n | growth | bytes |\n|---|---|---|---|---|---|")
    for prepare in EVENTS:
        if arguments.only in prepare.__name__:
            results = [_measured(prepare(size), arguments.runs) for size in sizes]
            print(_row(prepare, results), flush=True)
            if arguments.profile:
                _profile(prepare(last))


def _measured(event: Event, runs: int) -> tuple[float, int]:
    """Return the least milliseconds of an event, and its bytes."""
    gc.collect()
    gc.freeze()
    gc.disable()
    times_s, size_bytes = [], 0
    for _ in range(runs):
        gc.collect()
        began_s = time.process_time()
        size_bytes = event()
        times_s.append(time.process_time() - began_s)
    gc.enable()
    gc.unfreeze()
    return min(times_s) * 1e3, size_bytes


def _row(prepare: Callable[[Size], Event], results: list[tuple[float, int]]) -> str:
    milliseconds = [max(_LEAST_MS, each) for each, _ in results]
    growth = math.log(milliseconds[-1] / milliseconds[0]) / math.log(4)
    shown = " | ".join(f"{each:.3f}" for each in milliseconds)
    what = (prepare.__doc__ or prepare.__name__).removesuffix(".")
    return f"| {what} | {shown} | {growth:.1f} | {results[-1][1] or ''} |"


def _profile(event: Event) -> None:
    profile = cProfile.Profile()
    profile.runcall(event)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(25)


if __name__ == "__main__":
    main()
