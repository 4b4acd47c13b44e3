# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One run of a case against one server: what its clients saw and which CPU time it took."""

import contextlib
import csv
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import grpc
from bench_cases import Case
from bench_load import closed_loop
from bench_servers import ROOT, Target, certificate

# perf_analyzer averages three such windows.
WINDOW_MS = 1500
WARM_UP_MS = 500
PATIENCE_S = 240
TRIES = 2


@dataclass(frozen=True, slots=True)
class Result:
    """What one run has measured, or the medians of several.

    Attributes:
        throughput: Inferences, which are rows, per second.
        p50_us: Of the latency of a request.
        p99_us: Of the latency of a request.
        cpu_us: User and system time of the server's processes per request that it counted.
        requests: That it counted.
    """

    throughput: float
    p50_us: float
    p99_us: float
    cpu_us: float = 0.0
    requests: float = 0.0


def _command(case: Case, target: Target, work: Path, window_ms: int, report: Path) -> list[str]:
    url, options = f"127.0.0.1:{target.http if case.protocol == 'http' else target.grpc}", []
    # Certificates are of a name.
    secure_url = url.replace("127.0.0.1", "localhost")
    if case.protocol == "http" and target.scheme == "https":
        url = f"https://{secure_url}"
        options = [f"--ssl-https-ca-certificates-file={certificate(work)[0]}"]
    elif case.protocol == "grpc" and target.secure_grpc:
        url = secure_url
        options = [
            "--ssl-grpc-use-ssl",
            f"--ssl-grpc-root-certifications-file={certificate(work)[0]}",
        ]
    return [
        str(ROOT / "scripts/perf_analyzer.sh"),
        *("-m", case.model_on(target.name)),
        *("-u", url),
        *("-i", case.protocol),
        *("--concurrency-range", str(case.concurrency)),
        *("-p", str(window_ms)),
        # It reports nothing when its windows differ by more than this.
        *("-r", "3", "-s", "999"),
        *("-f", str(report)),
        *options,
        *(each.replace("{work}", str(work)) for each in case.options),
    ]


def perf_analyzer(case: Case, target: Target, work: Path, window_ms: int) -> Result | None:
    """Return what perf_analyzer measures; None when it does not report anything."""
    report = work / "report.csv"
    report.unlink(missing_ok=True)
    command = _command(case, target, work, window_ms, report)
    output = ""
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env={**os.environ, **case.environment},
        )
        output = done.stdout + done.stderr
    with contextlib.suppress(OSError, StopIteration, KeyError, ValueError):
        row = next(csv.DictReader(report.open()))
        found = Result(
            *(float(row[name]) for name in ("Inferences/Second", "p50 latency", "p99 latency"))
        )
        if found.throughput > 0:
            return found
    print(f"{case.name}, {target.name}: no result\n{output[-2000:]}", file=sys.stderr, flush=True)
    return None


def _own(case: Case, target: Target, window_ms: int) -> Result | None:
    assert case.request is not None
    request = case.request(case.model_on(target.name))
    port = target.http if case.protocol == "http" else target.grpc
    try:
        report = closed_loop(
            case.protocol,
            port,
            [lambda: request] * case.concurrency,
            measure_s=3 * window_ms / 1e3,
        )
    except (RuntimeError, OSError, EOFError, ValueError, grpc.RpcError) as error:
        print(f"{case.name}, {target.name}: {error!r}", file=sys.stderr, flush=True)
        return None
    return Result(
        report.throughput,
        *(1e3 * report.percentile_ms(request.name, share) for share in (0.5, 0.99)),
    )


def _once(case: Case, target: Target, work: Path, window_ms: int) -> Result | None:
    if case.request is None:
        return perf_analyzer(case, target, work, window_ms)
    return _own(case, target, window_ms)


def load(case: Case, target: Target, work: Path) -> Result | None:
    """Return what the clients see, who try again when they have seen nothing."""
    runs = (_once(case, target, work, WINDOW_MS) for _ in range(TRIES))
    return next((found for found in runs if found is not None), None)


def measure(case: Case, target: Target, work: Path) -> Result | None:
    """Return what the clients see and which CPU time the server took."""
    model = case.model_on(target.name)
    requests, cpu_s = target.counts(model).requests, target.cpu_s()
    found = load(case, target, work)
    # Before the statistics are waited for, which takes time of the CPU, too.
    cpu_s = target.cpu_s() - cpu_s
    requests = target.counts(model).requests - requests
    if found is None or not requests:
        return None
    return Result(**{**asdict(found), "cpu_us": 1e6 * cpu_s / requests, "requests": requests})


def warm_up(case: Case, target: Target, work: Path) -> None:
    """Load a server for a short time that is not measured."""
    _once(case, target, work, WARM_UP_MS)


def median(results: Sequence[Result | None]) -> Result | None:
    """Return the medians of the runs that had a result; None if there are none."""
    found = [each for each in results if each is not None]
    if not found:
        return None
    return Result(
        *(
            statistics.median(getattr(each, field.name) for each in found)
            for field in fields(Result)
        )
    )
