# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the control plane's decisions cost in a large cluster, without Ray, network or clock.

Prints a row for each event: milliseconds of CPU time of the loop's thread, the least of some runs,
at a quarter, at half and at the whole of the size; the exponent k of the growth n^k from the first
to the last; and the bytes that leave the process. Garbage is collected before each run, not in it.

Usage: simulate_scale.py [--nodes 1000] [--runs 3] [--only TEXT] [--profile]
"""

import argparse
import cProfile
import gc
import math
import pstats
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import scale_of_control, scale_of_controller, scale_of_routing
from tests.support.large_cluster import Prepare, Size, prepared

EVENTS = (*scale_of_control.EVENTS, *scale_of_controller.EVENTS, *scale_of_routing.EVENTS)
# Differences of less are the clock's.
_LEAST_MS = 0.001


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    sizes = [Size(arguments.nodes // part) for part in (4, 2, 1)]
    last = sizes[-1]
    print(f"{last.nodes} nodes, {last.gpus} GPUs, {last.models} models\n")
    print("| event | ms at n/4 | n/2 | n | growth | bytes |\n|---|---|---|---|---|---|")
    for prepare in EVENTS:
        if arguments.only in prepare.__name__:
            print(_row(prepare, [_measured(prepare, each, arguments.runs) for each in sizes]))
            sys.stdout.flush()
            if arguments.profile:
                _profile(prepare, last)


def _measured(prepare: Prepare, size: Size, runs: int) -> tuple[float, int]:
    """Return the least milliseconds of an event, and its bytes."""
    times_s, size_bytes = [], 0
    with prepared(prepare, size) as event:
        gc.collect()
        gc.freeze()
        gc.disable()
        for _ in range(runs):
            gc.collect()
            began_s = time.thread_time()
            size_bytes = event()
            times_s.append(time.thread_time() - began_s)
        gc.enable()
        gc.unfreeze()
    return min(times_s) * 1e3, size_bytes


def _row(prepare: Prepare, results: list[tuple[float, int]]) -> str:
    milliseconds = [max(_LEAST_MS, each) for each, _ in results]
    growth = math.log(milliseconds[-1] / milliseconds[0]) / math.log(4)
    shown = " | ".join(f"{each:.3f}" for each in milliseconds)
    what = (prepare.__doc__ or prepare.__name__).removesuffix(".")
    return f"| {what} | {shown} | {growth:.1f} | {results[-1][1] or ''} |"


def _profile(prepare: Prepare, size: Size) -> None:
    profile = cProfile.Profile()
    with prepared(prepare, size) as event:
        profile.runcall(event)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(25)


if __name__ == "__main__":
    main()
