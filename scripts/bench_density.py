# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Many small models: how long they take to load, to answer first, and what each takes of memory.

Usage: bench_density.py [--models 100] [--flag=--no-fork-server]... Prints one table. Models are of
the Python backend; with the same repository on demand, a request to each is sent at once.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import psutil
import tritonclient.http as triton_http
from bench_servers import Target, manta
from bench_starts import SETTLE_S, write_python_model

POOL: Final = 8
ROUNDS: Final = 10
TIMEOUT_S: Final = 300


def infer(target: Target, name: str) -> float:
    """Return the seconds until a model's answer."""
    client = triton_http.InferenceServerClient(
        f"127.0.0.1:{target.http}", network_timeout=TIMEOUT_S
    )
    x = triton_http.InferInput("INPUT0", [1], "FP32")
    x.set_data_from_numpy(np.zeros(1, np.float32))
    began_s = time.monotonic()
    client.infer(name, [x])
    taken_s = time.monotonic() - began_s
    client.close()
    return taken_s


def memory_mb(target: Target) -> float:
    """Return the PSS of all processes of a server."""
    time.sleep(SETTLE_S)
    return sum(psutil.Process(pid).memory_full_info().pss for pid in target.processes()) / 1e6


def first_answers(target: Target, names: Sequence[str]) -> list[float]:
    """Return the seconds to the answers of requests that are sent at once, a model each."""
    together = threading.Barrier(len(names))

    def ask(name: str) -> float:
        together.wait()
        return infer(target, name)

    with ThreadPoolExecutor(len(names)) as threads:
        return sorted(threads.map(ask, names))


def measure(count: int, flags: Sequence[str]) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="manta-density-") as folder:
        work, one, many = (Path(folder, name) for name in ("work", "one", "many"))
        work.mkdir()
        write_python_model(one, "pool")
        config = one / "pool" / "config.pbtxt"
        config.write_text(config.read_text() + f"instance_group [ {{ count: {POOL} }} ]\n")
        names = [f"m{number:04}" for number in range(count)]
        for name in names:
            write_python_model(many, name)
        print("| what | seconds | MB |\n|---|---|---|")
        with manta([one], work, "--model-control-mode=explicit", *flags) as target:
            before = memory_mb(target)
            client = triton_http.InferenceServerClient(
                f"127.0.0.1:{target.http}", network_timeout=TIMEOUT_S
            )
            began_s = time.monotonic()
            client.load_model("pool")
            taken_s, grown = time.monotonic() - began_s, memory_mb(target) - before
            print(f"| load of a pool of {POOL} | {taken_s:.2f} | {grown / POOL:.1f} each |")
        began_s = time.monotonic()
        with manta([many], work, *flags) as target:
            taken_s, grown = time.monotonic() - began_s, memory_mb(target) - before
            print(f"| start with {count} models | {taken_s:.1f} | {grown / count:.1f} each |")
        with manta([many], work, "--model-control-mode=ondemand", *flags) as target:
            single = [infer(target, name) for name in names[:ROUNDS]]
            taken_s = statistics.median(single)
            print(f"| first answer of one, median of {ROUNDS} | {taken_s:.2f} | |")
            found = first_answers(target, names[ROUNDS:])
            asked = f"first answers of {len(found)} at once"
            print(f"| {asked}, p50 and last | {statistics.median(found):.2f}, {found[-1]:.2f} | |")


def main() -> int:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--flag", action="append", default=[])
    given = parser.parse_args()
    measure(given.models, given.flag)
    return 0


if __name__ == "__main__":
    sys.exit(main())
