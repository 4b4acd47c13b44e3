# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs Triton's own tests (qa in triton-inference-server/server), in place, against Manta.

    TRITON_SERVER_SRC=/path/to/server python -m tests.conformance.upstream_qa [NAME...]

Prints a line for each case; the exit status is 1 when one of them failed. NAME chooses suites by
a part of their title, or cases by a part of CLASS.CASE.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

from tests.conformance import scheduler_models, upstream_models
from tests.conformance.scheduler_suites import SCHEDULER_SUITES
from tests.conformance.upstream_suites import NOT_RUN, SUITES, Suite
from tests.support.server import RunningServer

SOURCE_VARIABLE: Final = "TRITON_SERVER_SRC"
REDIRECTED: Final = Path(__file__).with_name("redirected.py")
CASES: Final = Path(__file__).with_name("unittest_cases.py")
TRACES: Final = "traces.json"
MODELS: Final = upstream_models.MODELS | scheduler_models.MODELS


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case ended; ``wrong`` is empty when it passed."""

    case: str
    elapsed_s: float
    wrong: str


@contextmanager
def inherited(variables: tuple[tuple[str, str], ...]) -> Iterator[None]:
    """Have processes that are started meanwhile inherit variables."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def serving(suite: Suite, folder: Path) -> Iterator[RunningServer]:
    """Serve models of a repository made for them in ``folder``, where traces are kept too."""
    repository = folder / "models"
    repository.mkdir()
    for name in suite.models:
        MODELS[name].write(repository)
    traces = (f"--trace-file={folder / TRACES}",) if suite.verifier else ()
    with inherited(suite.server_environment):
        server = RunningServer(repository, *suite.flags, *traces)
    try:
        yield server
    finally:
        server.terminate()


def post(server: RunningServer, path: str) -> None:
    """Send an empty POST."""
    url = f"http://{server.http}/v2/{path}"
    urllib.request.urlopen(urllib.request.Request(url, b"{}", method="POST"), timeout=60).close()


def forget_regions(server: RunningServer, _models: tuple[str, ...]) -> None:
    """Unregister all shared memory."""
    post(server, "systemsharedmemory/unregister")


def reload_models(server: RunningServer, models: tuple[str, ...]) -> None:
    """Unload and load the models."""
    for action in ("unload", "load"):
        for name in models:
            post(server, f"repository/models/{MODELS[name].name}/{action}")


ANEW: Final = {"regions": forget_regions, "models": reload_models}


def measured_pid(server: RunningServer) -> int:
    """Return the process that stands for tritonserver where a test measures memory."""
    ingresses = server.processes("ray::ServeReplica:manta:Ingress")
    return ingresses[0].pid if ingresses else server.pid


def run_process(
    suite: Suite, cases: tuple[str, ...], only: list[str], source: Path, server: RunningServer
) -> list[Outcome]:
    """Run cases in a process of their own; one that hangs or dies is an outcome too."""
    qa = source / "qa"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report")
        command = [sys.executable, REDIRECTED, server.http, server.grpc, server.metrics]
        command += [CASES, report, qa / suite.program, *cases, "--only", *only]
        environment = os.environ | {
            "PYTHONPATH": str(qa / "common"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CLIENT_TYPE": suite.client_type,
            "SERVER_PID": str(measured_pid(server)),
            **dict(suite.environment + suite.server_environment),
        }
        died = ""
        try:
            ended = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=suite.timeout_s,
                check=False,
                cwd=folder,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            died = f"did not end within {suite.timeout_s:.0f} s"
        else:
            if ended.returncode not in {0, 1} or not report.exists():
                last = (ended.stderr.strip().splitlines() or [""])[-1]
                died = f"exit status {ended.returncode}: {last}"
        lines = report.read_text().splitlines() if report.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    return [*outcomes, Outcome(" ".join(cases) or "…", 0.0, died)] if died else outcomes


def run_suite(
    suite: Suite, only: list[str], source: Path, server: RunningServer, *, is_used: bool
) -> Iterator[Outcome]:
    """Run the cases of a suite, all in one process or each in its own.

    Args:
        suite: The suite.
        only: Parts of names of cases; empty for all cases.
        source: Checkout of triton-inference-server/server.
        server: Serves the suite's models.
        is_used: Whether other cases have run against the server, so that the first undoes them.
    """
    if not suite.anew:
        yield from run_process(suite, suite.cases, only, source, server)
        return
    for case in suite.cases:
        if not only or any(part in case for part in only):
            if is_used:
                ANEW[suite.anew](server, suite.models)
            is_used = True
            yield from run_process(suite, (case,), [], source, server)


def number_traces(path: Path) -> None:
    """Give the traces of a file ids from 1 on, by when their requests were received.

    Triton counts so. Manta's ids are unique among the processes of a node, and begin elsewhere.
    """
    records = json.loads(path.read_text())
    received: dict[int, int] = {}
    for record in records:
        for instant in record.get("timestamps", ()):
            received[record["id"]] = min(received.get(record["id"], instant["ns"]), instant["ns"])
    order = sorted(received, key=lambda each: received[each])
    ids = {each: position for position, each in enumerate(order, 1)}
    path.write_text(json.dumps([record | {"id": ids[record["id"]]} for record in records]))


def verify(suite: Suite, source: Path, traces: Path) -> Outcome:
    """Have a suite's verifier judge the traces that its server has left."""
    program, *arguments = suite.verifier
    number_traces(traces)
    command = [sys.executable, source / "qa" / program, *arguments, traces]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    last = (f"{ended.stdout}{ended.stderr}".strip().splitlines() or [""])[-1]
    return Outcome(" ".join(suite.verifier), 0.0, last if ended.returncode else "")


def run_all(suites: list[Suite], only: list[str], source: Path) -> Iterator[tuple[Suite, Outcome]]:
    """Run suites; those with the same models, flags and environment share a server."""
    for _, group in groupby(suites, key=attrgetter("models", "flags", "server_environment")):
        sharing = list(group)
        with tempfile.TemporaryDirectory() as folder:
            try:
                with serving(sharing[0], Path(folder)) as server:
                    for suite in sharing:
                        is_used = suite is not sharing[0]
                        for outcome in run_suite(suite, only, source, server, is_used=is_used):
                            yield suite, outcome
            except AssertionError as error:
                reason = (str(error).strip().splitlines() or [""])[-1]
                for suite in sharing:
                    yield suite, Outcome("…", 0.0, f"server ended at start: {reason}")
            else:
                for suite in sharing:
                    if suite.verifier:
                        yield suite, verify(suite, source, Path(folder, TRACES))


def has_cases(suite: Suite, only: list[str]) -> bool:
    """Return whether a suite may have cases that are asked for."""
    return not (only and suite.cases) or any(part in case for part in only for case in suite.cases)


def main() -> int:
    """Run the suites and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of titles of suites or of names of cases")
    names = parser.parse_args().names
    if not os.environ.get(SOURCE_VARIABLE):
        parser.error(f"set {SOURCE_VARIABLE} to a checkout of triton-inference-server/server")
    source = Path(os.environ[SOURCE_VARIABLE]).resolve()
    suites = (*SUITES, *SCHEDULER_SUITES)
    titles = [name for name in names if any(name in suite.title for suite in suites)]
    only = [name for name in names if name not in titles]
    chosen = [each for each in suites if not titles or any(name in each.title for name in titles)]
    chosen = [each for each in chosen if has_cases(each, only)]
    lacking = {
        each.title: f"{each.package} is not installed"
        for each in chosen
        if each.package and importlib.util.find_spec(each.package) is None
    }
    count = failures = 0
    runnable = [each for each in chosen if each.title not in lacking]
    for suite, outcome in run_all(runnable, only, source):
        count += 1
        failures += bool(outcome.wrong)
        verdict = "FAIL" if outcome.wrong else "pass"
        line = f"{verdict} {outcome.elapsed_s:6.1f} s  {suite.title}: {outcome.case}"
        print(line, outcome.wrong[:300], flush=True)
    for title, reason in (NOT_RUN | lacking).items():
        print(f"not run        {title}  {reason}")
    print(f"{count - failures} of {count} cases passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
