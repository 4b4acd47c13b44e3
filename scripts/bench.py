# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Manta and a real Triton side by side: one repository, one machine, interleaved runs.

Both servers run for the whole time and are loaded in turn, so that noise of the machine hits both.
Only the ratios of the medians mean something. Usage: bench.py [--rounds 5] [--only REGEX]
"""

import argparse
import contextlib
import csv
import json
import os
import platform
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench_models import REPEAT_COUNT, write_repository

ROOT = Path(__file__).resolve().parent.parent
WINDOW_MS = 1500  # perf_analyzer averages three such windows
READY = 200
IDENTITY_ELEMENTS = 150_528  # 602 KB of FP32, one 3x224x224 image


@dataclass(frozen=True, slots=True)
class Case:
    """One load: perf_analyzer's model, protocol and concurrency."""

    name: str
    model: str
    protocol: str
    concurrency: int
    extra: tuple[str, ...] = ()


def _cases() -> list[Case]:
    shape = ("--shape", f"INPUT0:{IDENTITY_ELEMENTS}")
    in_memory = (
        *shape,
        "--shared-memory=system",
        f"--output-shared-memory-size={IDENTITY_ELEMENTS * 4}",
    )
    protocols = ("http", "grpc")
    return (
        [
            Case(f"add_sub {protocol} c={concurrency}", "add_sub", protocol, concurrency)
            for protocol in protocols
            for concurrency in (1, 16, 64)
        ]
        + [
            Case(
                f"identity 602 KB grpc shared memory c={concurrency}",
                "identity",
                "grpc",
                concurrency,
                in_memory,
            )
            for concurrency in (1, 16)
        ]
        + [
            Case(
                f"identity 602 KB {protocol} c={concurrency}",
                "identity",
                protocol,
                concurrency,
                shape,
            )
            for protocol in protocols
            for concurrency in (1, 16)
        ]
        + [
            Case(f"ensemble of 3 {protocol} c={concurrency}", "chain", protocol, concurrency)
            for protocol in protocols
            for concurrency in (1, 16)
        ]
        + [
            # infer/s here are requests of that many responses each
            Case(
                f"decoupled {REPEAT_COUNT} responses grpc stream c={concurrency}",
                "repeat",
                "grpc",
                concurrency,
                ("--streaming",),
            )
            for concurrency in (1, 16)
        ]
    )


@dataclass(frozen=True, slots=True)
class Result:
    """One run: infer/s and latencies in microseconds."""

    throughput: float
    p50_us: float
    p99_us: float


@dataclass(frozen=True, slots=True)
class Target:
    """A server under load."""

    name: str
    http: int
    grpc: int


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _wait_ready(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"server ended early:\n{log.read_text()[-4000:]}")
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready") as answer,
        ):
            if answer.status == READY:
                return
        time.sleep(0.2)
    sys.exit(f"server not ready in time:\n{log.read_text()[-4000:]}")


@contextlib.contextmanager
def server(name: str, command: list[str], ports: list[int], work: Path) -> Iterator[Target]:
    log = work / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT)
        try:
            _wait_ready(ports[0], process, log)
            yield Target(name, ports[0], ports[1])
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()


def run(case: Case, target: Target, work: Path) -> Result:
    report = work / "report.csv"
    report.unlink(missing_ok=True)
    port = target.http if case.protocol == "http" else target.grpc
    command = [
        str(ROOT / "scripts/perf_analyzer.sh"),
        "-m",
        case.model,
        "-u",
        f"127.0.0.1:{port}",
        "-i",
        case.protocol,
        "--concurrency-range",
        str(case.concurrency),
        "-p",
        str(WINDOW_MS),
        "-r",
        "3",
        "-s",
        "999",
        "-f",
        str(report),
        *case.extra,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode or not report.exists():
        sys.exit(f"perf_analyzer failed on {target.name}, {case.name}:\n{done.stdout}{done.stderr}")
    row = next(csv.DictReader(report.open()))
    return Result(
        float(row["Inferences/Second"]), float(row["p50 latency"]), float(row["p99 latency"])
    )


def median(results: list[Result]) -> Result:
    return Result(
        statistics.median(r.throughput for r in results),
        statistics.median(r.p50_us for r in results),
        statistics.median(r.p99_us for r in results),
    )


_BARE_LOOP = """
import sys, time
import numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = ort.InferenceSession(sys.argv[1], options)
feed = {i.name: np.zeros([1 if not isinstance(d, int) else d for d in i.shape], np.float32)
        for i in session.get_inputs()}
for _ in range(10): session.run(None, feed)
count, start = 0, time.perf_counter()
while time.perf_counter() - start < 4: session.run(None, feed); count += 1
print(count / (time.perf_counter() - start))
"""


def _model_bound(work: Path, rounds: int) -> dict[str, float]:
    source = ROOT / "configs/models/densenet_shaped"
    repository = work / "onnx"
    (repository / "densenet_shaped").mkdir(parents=True)
    (repository / "densenet_shaped/1").symlink_to(source / "1")
    config = (source / "config.pbtxt").read_text()
    # One session with one thread on either side.
    config += '\nparameters { key: "intra_op_thread_count" value { string_value: "1" } }\n'
    config += "instance_group [ { kind: KIND_CPU count: 1 } ]\n"
    (repository / "densenet_shaped/config.pbtxt").write_text(config)
    ports = free_ports(3)
    bare: list[float] = []
    served: list[Result] = []
    with server("manta-onnx", manta_command(repository, ports), ports, work) as target:
        case = Case("densenet_shaped http c=2", "densenet_shaped", "http", 2)
        for _ in range(rounds):
            model = str(source / "1/model.onnx")
            done = subprocess.run(
                [sys.executable, "-c", _BARE_LOOP, model],
                check=True,
                capture_output=True,
                text=True,
            )
            bare.append(float(done.stdout))
            served.append(run(case, target, work))
    return {
        "bare loop infer/s": statistics.median(bare),
        "served infer/s": median(served).throughput,
        "ratio": median(served).throughput / statistics.median(bare),
    }


def manta_command(repository: Path, ports: list[int]) -> list[str]:
    return [
        str(Path(sys.executable).parent / "manta"),
        "serve",
        f"--model-repository={repository}",
        f"--http-port={ports[0]}",
        f"--grpc-port={ports[1]}",
        f"--metrics-port={ports[2]}",
        "--http-address=127.0.0.1",
        "--grpc-address=127.0.0.1",
        "--allow-client-shm=true",
        *os.environ.get("MANTA_BENCH_FLAGS", "").split(),
    ]


def main() -> None:
    """Run the comparison and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="manta-bench-") as folder:
        work = Path(folder)
        write_repository(work / "models")
        cases = [case for case in _cases() if re.search(args.only, case.name)]
        if cases:
            rows = _compare(cases, work, args.rounds)
        bound = (
            _model_bound(work, args.rounds) if re.search(args.only, "densenet_shaped onnx") else {}
        )
    print(
        f"\n{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {platform.machine()}, "
        f"median of {args.rounds} interleaved runs\n"
    )
    print("| case | Triton infer/s | Manta infer/s | ratio | p50 us T / M | ratio | p99 ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, triton, manta in rows:
        print(
            f"| {name} | {triton.throughput:,.0f} | {manta.throughput:,.0f} | "
            f"**{manta.throughput / triton.throughput:.2f}** | {triton.p50_us:.0f} / "
            f"{manta.p50_us:.0f} | **{manta.p50_us / triton.p50_us:.2f}** | "
            f"{manta.p99_us / triton.p99_us:.2f} |"
        )
    if bound:
        print(
            "\ndensenet_shaped, 1 thread, HTTP c=2: "
            + ", ".join(f"{key} {value:.2f}" for key, value in bound.items())
        )
    if args.json:
        table = {
            name: {
                "triton": [t.throughput, t.p50_us, t.p99_us],
                "manta": [m.throughput, m.p50_us, m.p99_us],
            }
            for name, t, m in rows
        }
        args.json.write_text(json.dumps({"cases": table, "onnx": bound}, indent=1))


def _compare(cases: list[Case], work: Path, rounds: int) -> list[tuple[str, Result, Result]]:
    triton_ports, manta_ports = free_ports(3), free_ports(3)
    repository = work / "models"
    triton_command = [
        str(ROOT / "scripts/reference_triton.sh"),
        str(repository),
        *map(str, triton_ports),
    ]
    rows = []
    with (
        server("triton", triton_command, triton_ports, work) as triton,
        server("manta", manta_command(repository, manta_ports), manta_ports, work) as manta,
    ):
        for case in cases:
            results: dict[str, list[Result]] = {triton.name: [], manta.name: []}
            for target in (triton, manta):  # a first run of each warms caches and is not counted
                run(case, target, work)
            for _ in range(rounds):
                for target in (triton, manta):
                    results[target.name].append(run(case, target, work))
            rows.append((case.name, median(results["triton"]), median(results["manta"])))
            print(f"{case.name}: {rows[-1][1]} {rows[-1][2]}", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    main()
