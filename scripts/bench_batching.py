# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether dynamic batching pays: against the same model batched by hand in a bare loop.

A network that reads 200 MB of weights for each execution is served with and without dynamic
batching under 32 clients, and run in a bare loop with as large batches and with single rows; all
with one thread. The gains are compared. With batches of 16 half of the clients are in a batch while
the others are answered; with 32 the model is idle meanwhile. What batching costs a single client is
measured with a small network. Usage: bench_batching.py [--rounds 5]
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
SIZES = (16, 32)
# Waits for a full batch, though not for long.
BATCHING = """
max_batch_size: {0}
dynamic_batching {{ preferred_batch_size: [ {0} ] max_queue_delay_microseconds: 10000 }}
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
    plain = f"max_batch_size: {CLIENTS}\n"
    large, small = root.parent / "large.onnx", root.parent / "small.onnx"
    write_mlp(large, 2048, 12)
    write_mlp(small, 64, 2)
    models = [("small", small, plain), ("small_batching", small, plain + "dynamic_batching { }")]
    models.append(("large", large, plain))
    models += [(f"large_{size}", large, BATCHING.format(size)) for size in SIZES]
    for name, source, extra in models:
        folder = root / name / "1"
        folder.mkdir(parents=True)
        (folder / "model.onnx").hardlink_to(source)
        (root / name / "config.pbtxt").write_text(f'name: "{name}"{MLP_CONFIG}{extra}\n')
    return large


def _loaded(model: str, concurrency: int, target: Target, work: Path) -> Result:
    return run(Case(model, model, "http", concurrency), target, work)


def _round(model: Path, target: Target, work: Path) -> dict[str, float]:
    """Return infer/s by what was measured and batch size; the latencies, too."""
    bare = subprocess.run(
        [sys.executable, "-c", BARE_LOOP, str(model), "1", *map(str, SIZES)],
        check=True,
        capture_output=True,
        text=True,
    )
    found = {
        f"bare {size}": float(text)
        for size, text in zip((1, *SIZES), bare.stdout.split(), strict=True)
    }
    found["served 1"] = _loaded("large", CLIENTS, target, work).throughput
    for size in SIZES:
        found[f"served {size}"] = _loaded(f"large_{size}", CLIENTS, target, work).throughput
    for name in ("small", "small_batching"):
        found[name] = _loaded(name, 1, target, work).p50_us
    for size in SIZES:
        for kind in ("bare", "served"):
            found[f"{kind} gain {size}"] = found[f"{kind} {size}"] / found[f"{kind} 1"]
    return found


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="manta-bench-") as folder:
        work = Path(folder)
        model = _write_repository(work / "models")
        ports = free_ports(3)
        with server("manta", manta_command(work / "models", ports), ports, work) as target:
            for _ in range(rounds):
                rows.append(_round(model, target, work))
                print(
                    {key: round(x, 2) for key, x in rows[-1].items()}, file=sys.stderr, flush=True
                )
    of = {key: median(row[key] for row in rows) for key in rows[0]}
    print(f"\n{os.cpu_count()} cores, median of {rounds} interleaved runs, c={CLIENTS}, infer/s\n")
    print("| rows in a batch | bare loop | gain | served | gain | served gain / bare gain |")
    print("|---|---|---|---|---|---|")
    print(f"| 1 | {of['bare 1']:,.0f} | | {of['served 1']:,.0f} | | |")
    for size in SIZES:
        bare, served = (of[f"{kind} gain {size}"] for kind in ("bare", "served"))
        print(
            f"| {size} | {of[f'bare {size}']:,.0f} | {bare:.2f} | {of[f'served {size}']:,.0f} | "
            f"{served:.2f} | **{served / bare:.2f}** |"
        )
    without, batching = of["small"], of["small_batching"]
    print(
        f"\np50 at c=1: {without:.0f} us without, {batching:.0f} us with dynamic batching: "
        f"**{batching - without:+.0f} us**"
    )


if __name__ == "__main__":
    main()
