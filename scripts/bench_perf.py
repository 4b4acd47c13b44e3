# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The load generator beside perf_analyzer 2.51: whether they agree, and what a request costs them.

Both load one server, Manta with an adding model, in turn and with the same options; a round runs
each of them once, and which comes first changes from round to round. Per round the ratio of what
they measured is taken, so that what else the machine does counts for both.

CPU time is that of the whole program: of a run with windows less that of a short one, over the
requests that the server counted of the one more than of the other. So what starting costs is left
out. `manta perf` is Python and not compiled: mypyc compiles only the server's request path.

Under a closed loop on few cores the cheaper program leaves the server more of them, and measures
more. So whether both agree is seen where the client's cost is no part of it: a model that sleeps,
and requests at a rate that all can hold.

Usage: bench_perf.py [--rounds 5] [--only REGEX] [--window-ms 1500]
"""

import argparse
import contextlib
import csv
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench_models import write_repository, write_sleeper
from bench_report import header, heading
from bench_servers import ROOT, Target, manta

MODEL: Final = "add_sub"
SLEEPER: Final = "sleeper"
SLEEP_MS: Final = 10.0
SLEEPERS: Final = 2
OWN, THEIRS = "manta perf", "perf_analyzer"
PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    OWN: (sys.executable, "-m", "cluster", "perf"),
    THEIRS: (str(ROOT / "scripts/perf_analyzer.sh"),),
}
PATIENCE_S: Final = 240
# It takes longer than the server's statistics take to tell of it.
SHORT: Final = ("--request-count", "2000")
# They report nothing when their windows differ by more than this.
WINDOWS: Final = ("-r", "3", "-s", "99999")


@dataclass(frozen=True, slots=True)
class Case:
    """One load.

    Attributes:
        name: In the table.
        protocol: ``http`` or ``grpc``.
        options: Of both programs.
        model: Which one is asked.
    """

    name: str
    protocol: str
    options: tuple[str, ...]
    model: str = MODEL


CASES: Final = (
    Case("HTTP, 1 in flight", "http", ("--concurrency-range", "1")),
    Case("HTTP, 16 in flight", "http", ("--concurrency-range", "16")),
    Case("gRPC, 16 in flight", "grpc", ("--concurrency-range", "16")),
    Case("gRPC stream, 16 in flight", "grpc", ("--concurrency-range", "16", "--streaming", "-a")),
    Case("HTTP, 4 in flight, 10 ms", "http", ("--concurrency-range", "4"), SLEEPER),
    Case("gRPC, 4 in flight, 10 ms", "grpc", ("--concurrency-range", "4"), SLEEPER),
    Case("HTTP, 150 a second, 10 ms", "http", ("--request-rate-range", "150"), SLEEPER),
    Case("gRPC, 1,000 a second", "grpc", ("--request-rate-range", "1000")),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What one program said of one run, and what it cost.

    Attributes:
        throughput: Inferences a second.
        mean_us: Mean latency.
        p50_us: Of the latency.
        p99_us: Of the latency.
        cpu_us: CPU time of the program for each request.
    """

    throughput: float
    mean_us: float
    p50_us: float
    p99_us: float
    cpu_us: float


COLUMNS: Final = ("Inferences/Second", "Avg latency", "p50 latency", "p99 latency")
RATIOS: Final[dict[str, Callable[[Measured], float]]] = {
    "throughput": lambda each: each.throughput,
    "mean latency": lambda each: each.mean_us,
    "p50": lambda each: each.p50_us,
    "p99": lambda each: each.p99_us,
}


def run(program: str, arguments: Sequence[str]) -> float | None:
    """Run a program; return its CPU seconds and those of what it started, None when it failed."""
    command = [*PROGRAMS[program], *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    before = os.times()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        print(f"{program} takes longer than {PATIENCE_S} s", file=sys.stderr)
        return None
    after = os.times()
    if done.returncode not in (0, 2):
        print(f"{program}: {done.stdout[-1000:]}{done.stderr[-1000:]}", file=sys.stderr)
        return None
    user_s = after.children_user - before.children_user
    return user_s + after.children_system - before.children_system


def measure(
    case: Case, program: str, target: Target, work: Path, window_ms: int
) -> Measured | None:
    """Return what a program measures; None when it reports nothing."""
    report = work / "report.csv"
    report.unlink(missing_ok=True)
    port = target.http if case.protocol == "http" else target.grpc
    load = ("-m", case.model, "-u", f"127.0.0.1:{port}", "-i", case.protocol, *case.options)
    cpu_s, requests = 0.0, 0
    windows = ("-p", str(window_ms), *WINDOWS, "-f", str(report), "--verbose-csv")
    for sign, more in ((-1, SHORT), (1, windows)):
        before = target.counts(case.model).requests
        took_s = run(program, (*load, *more))
        if took_s is None:
            return None
        cpu_s += sign * took_s
        requests += sign * (target.counts(case.model).requests - before)
    with contextlib.suppress(OSError, StopIteration, KeyError):
        row = next(csv.DictReader(report.open()))
        return Measured(*(float(row[name]) for name in COLUMNS), 1e6 * cpu_s / max(requests, 1))
    return None


def line(name: str, rounds: Sequence[dict[str, Measured]]) -> str:
    """Return a row of the table: medians of the rounds' ratios, and how far those lie apart."""
    cells = [name]
    for value in RATIOS.values():
        ratios = [value(each[OWN]) / max(value(each[THEIRS]), 1e-9) for each in rounds]
        middle = statistics.median(ratios)
        cells.append(f"{middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    costs = (statistics.median(each[program].cpu_us for each in rounds) for program in PROGRAMS)
    cells.extend(f"{cost_us:.0f}" for cost_us in costs)
    return f"| {' | '.join(cells)} |"


def compare(case: Case, target: Target, work: Path, options: argparse.Namespace) -> str:
    """Return the row of a case."""
    rounds = []
    for number in range(options.rounds):
        order = list(PROGRAMS) if number % 2 == 0 else list(reversed(PROGRAMS))
        found = {each: measure(case, each, target, work, options.window_ms) for each in order}
        complete = {name: each for name, each in found.items() if each is not None}
        if len(complete) == len(PROGRAMS):
            rounds.append(complete)
        print(f"{case.name}, round {number + 1}: {found}", file=sys.stderr, flush=True)
    return line(case.name, rounds) if rounds else f"| {case.name} | no result |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--window-ms", type=int, default=1500)
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_repository(work / "models", {MODEL})
        write_sleeper(work / "models", SLEEPER, SLEEPERS, "", SLEEP_MS)
        with manta([work / "models"], work) as target:
            # The first run of a server is slower than those after it.
            measure(CASES[0], OWN, target, work, 300)
            cases = [each for each in CASES if re.search(options.only, each.name)]
            lines = [compare(each, target, work, options) for each in cases]
    titles = [f"{name}, ratio" for name in RATIOS]
    print(heading(options.rounds))
    print(f"{time.strftime('%H:%M')}, load average {load_before:.0f} before\n")
    print(header(("case", *titles, *(f"CPU of {each}, us/request" for each in PROGRAMS))))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
