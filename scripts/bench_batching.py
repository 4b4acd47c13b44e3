# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What serving an ONNX model costs, and whether dynamic batching pays: against bare loops.

A large network is served to two clients and run in a bare loop; both with one session of one
thread. And with dynamic batching:

A network that reads 200 MB of weights for each execution is served with and without dynamic
batching under 32 clients, and run in a bare loop with as large batches and with single rows; all
with one thread. The gains are compared. With batches of 16 half of the clients are in a batch while
the others are answered; with 32 the model is idle meanwhile. What batching costs a single client is
measured with a small network. Usage: bench_batching.py [--rounds 5]
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench_cases import Case
from bench_measure import Result, load
from bench_models import MLP_CONFIG, ONE_THREAD, write_mlp
from bench_report import header, heading, verdict
from bench_servers import ROOT, Target, manta

CLIENTS = 32
SIZES = (16, 32)
# Of the bare loop's gain, and of its throughput.
GAIN_BAR, BOUND_BAR = 0.9, 0.95
# What serving adds to the p50 of a small network, in microseconds.
COST_BAR_US = 50
BOUND = "densenet_shaped"
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
    feed = {i.name: np.random.default_rng(0).random(
        [d if isinstance(d, int) else rows for d in i.shape], np.float32)
        for i in session.get_inputs()}
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
    source = ROOT / "configs/models" / BOUND
    (root / BOUND).mkdir()
    (root / BOUND / "1").symlink_to(source / "1")
    config = (source / "config.pbtxt").read_text()
    config += f"\n{ONE_THREAD}instance_group [ {{ kind: KIND_CPU count: 1 }} ]\n"
    (root / BOUND / "config.pbtxt").write_text(config)
    return large


def _loaded(model: str, concurrency: int, target: Target, work: Path) -> Result:
    found = load(Case(model, model, "http", concurrency), target, work)
    if found is None:
        sys.exit(f"{model}: no result")
    return found


def _bare(model: Path, *rows: int) -> list[float]:
    """Return the rows per second of batches of so many rows."""
    done = subprocess.run(
        [sys.executable, "-c", BARE_LOOP, str(model), *map(str, rows)],
        check=True,
        capture_output=True,
        text=True,
    )
    return list(map(float, done.stdout.split()))


def _round(model: Path, target: Target, work: Path) -> dict[str, float]:
    """Return infer/s by what was measured and batch size; the latencies, too."""
    sizes = (1, *SIZES)
    found = {f"bare {size}": rate for size, rate in zip(sizes, _bare(model, *sizes), strict=True)}
    [found["bare bound"]] = _bare(ROOT / "configs/models" / BOUND / "1/model.onnx", 1)
    found["served bound"] = _loaded(BOUND, 2, target, work).throughput
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
        with manta([work / "models"], work) as target:
            for _ in range(rounds):
                rows.append(_round(model, target, work))
                print(
                    {key: round(x, 2) for key, x in rows[-1].items()}, file=sys.stderr, flush=True
                )
    of = {key: median(row[key] for row in rows) for key in rows[0]}
    print(heading(rounds))
    print(
        header(
            ("served over HTTP", "bare loop rows/s", "gain", "served", "gain", "of the bare", "bar")
        )
    )
    bare, served = of["bare bound"], of["served bound"]
    met = verdict(f">= {BOUND_BAR}", met=served / bare >= BOUND_BAR)
    print(f"| {BOUND}, c=2 | {bare:,.1f} | | {served:,.1f} | | **{served / bare:.2f}** | {met} |")
    single = f"{of['bare 1']:,.0f} | | {of['served 1']:,.0f}"
    print(f"| network of 200 MB, c={CLIENTS}, no batches | {single} | | | |")
    for size in SIZES:
        bare, served = (of[f"{kind} gain {size}"] for kind in ("bare", "served"))
        met = verdict(f">= {GAIN_BAR}", met=served / bare >= GAIN_BAR)
        print(
            f"| the same, batches of {size} | {of[f'bare {size}']:,.0f} | {bare:.2f} | "
            f"{of[f'served {size}']:,.0f} | {served:.2f} | **{served / bare:.2f}** | {met} |"
        )
    without, batching = of["small"], of["small_batching"]
    cost_us = batching - without
    met = verdict(f"<= {COST_BAR_US} us", met=cost_us <= COST_BAR_US)
    print(
        f"\np50 of a small network at c=1: {without:.0f} us without, {batching:.0f} us with "
        f"dynamic batching: **{cost_us:+.0f} us**, {met}"
    )


if __name__ == "__main__":
    main()
