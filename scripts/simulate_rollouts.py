#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Leads canaries in virtual time and counts how they end: the tables of docs/rollouts.md.

Good versions, versions 20 % slower and versions with 2 % more failures, for shapes of latencies,
noise and rates of requests; by the defaults of the analysis and three steps of two minutes.
"""

import argparse
import sys
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from deployments.rollouts.spec import Phase
from tests.support.rollout_world import LIVELY, QUIET, SHAPES, Latencies, Version, run

CANDIDATES = {
    "good": (Version(), Phase.PROMOTED),
    "+20 % latency": (Version(slower=1.2), Phase.ROLLED_BACK),
    "2 % failures more": (Version(failures=0.02), Phase.ROLLED_BACK),
    "2 % five times slower": (Version(stalls=0.02), Phase.ROLLED_BACK),
}
NOISES = {"quiet": QUIET, "lively": LIVELY}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rates", type=float, nargs="+", default=[30.0, 100.0, 1000.0])
    parser.add_argument("--noises", nargs="+", choices=NOISES, default=list(NOISES))
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--candidates", nargs="+", choices=CANDIDATES, default=list(CANDIDATES))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| latencies | noise | requests/s | candidate | as it should | median s | p95 s |")
    print("|---|---|---|---|---|---|---|")
    for shape, noise, rate in product(options.shapes, options.noises, options.rates):
        latencies = Latencies(shape)
        for name in options.candidates:
            candidate, wanted = CANDIDATES[name]
            ends = [
                run(latencies, candidate, options.seed + at, rate=rate, noise=NOISES[noise])
                for at in range(options.runs)
            ]
            right = sum(end.phase is wanted for end in ends)
            median, late = np.quantile([end.active_s for end in ends], (0.5, 0.95))
            print(
                f"| {shape} | {noise} | {rate:g} | {name} | {right} of {options.runs} | "
                f"{median:.0f} | {late:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
