# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether dynamic batching pays: against the same model batched by hand in a bare loop.

A network that reads 200 MB of weights for each execution is served with and without dynamic
batching under 32 clients, and run in a bare loop with batches of 32 and of one; all with one
thread. The gains are compared. What batching costs a single client is measured with a small
network.
Usage: bench_batching.py [--rounds 5]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench import Case, Result, Target, free_ports, manta_command, run, server
from bench_models import MLP_CONFIG, write_mlp

CLIENTS = 32
# Waits for all clients, though not for long.
BATCHING = f"""
dynamic_batching {{
  preferred_batch_size: [ {CLIENTS} ]
  max_queue_delay_microseconds: 10000
}}
"""
BARE_LOOP = """
import sys, time
import numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options)
for rows in map(int, sys.argv[2:]):
    feed = {"X": np.random.default_rng(0).random((rows, 64), np.float32)}
    for _ in range(3): session.run(None, feed)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < 3: session.run(None, feed); count += rows
    print(count / (time.perf_counter() - start))
"""


def _write_repository(root: Path) -> Path:
    for size, width, layers in (("large", 2048, 12), ("small", 64, 2)):
        source = root.parent / f"{size}.onnx"
        write_mlp(source, width, layers)
        batching = BATCHING if size == "large" else "dynamic_batching { }"
        for name, extra in ((size, ""), (f"{size}_batching", batching)):
            folder = root / name / "1"
            folder.mkdir(parents=True)
            (folder / "model.onnx").hardlink_to(source)
            (root / name / "config.pbtxt").write_text(f'name: "{name}"{MLP_CONFIG}{extra}\n')
    return root.parent / "large.onnx"


def _loaded(model: str, concurrency: int, target: Target, work: Path) -> Result:
    return run(Case(model, model, "http", concurrency), target, work)


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    gains: dict[str, list[float]] = {"bare loop": [], "served": []}
    rates: dict[str, list[float]] = {}
    p50_us: dict[str, list[float]] = {"small": [], "small_batching": []}
    with tempfile.TemporaryDirectory(prefix="manta-bench-") as folder:
        work = Path(folder)
        model = _write_repository(work / "models")
        ports = free_ports(3)
        with server("manta", manta_command(work / "models", ports), ports, work) as target:
            for _ in range(rounds):
                bare = subprocess.run(
                    [sys.executable, "-c", BARE_LOOP, str(model), str(CLIENTS), "1"],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                batched, single = map(float, bare.stdout.split())
                served_batched = _loaded("large_batching", CLIENTS, target, work).throughput
                served_single = _loaded("large", CLIENTS, target, work).throughput
                gains["bare loop"].append(batched / single)
                gains["served"].append(served_batched / served_single)
                row = (batched, single, served_batched, served_single)
                for name, rate in zip(
                    ("bare batched", "bare single", "served batched", "served single"),
                    row,
                    strict=True,
                ):
                    rates.setdefault(name, []).append(rate)
                for name, seen in p50_us.items():
                    seen.append(_loaded(name, 1, target, work).p50_us)
                print(row, {k: v[-1] for k, v in p50_us.items()}, file=sys.stderr, flush=True)
    served, loop = median(gains["served"]), median(gains["bare loop"])
    print(f"\n{os.cpu_count()} cores, median of {rounds} interleaved runs, infer/s")
    print("| | a row at a time | batches of 32 | gain |")
    print("|---|---|---|---|")
    for name, gain in (("bare", loop), ("served", served)):
        single, batched = (median(rates[f"{name} {kind}"]) for kind in ("single", "batched"))
        print(f"| {name} | {single:,.0f} | {batched:,.0f} | {gain:.2f} |")
    print(f"served gain / bare gain: **{served / loop:.2f}**")
    without, with_batching = median(p50_us["small"]), median(p50_us["small_batching"])
    print(
        f"p50 at c=1: {without:.0f} us without, {with_batching:.0f} us with dynamic batching: "
        f"**{with_batching - without:+.0f} us**"
    )


if __name__ == "__main__":
    main()
