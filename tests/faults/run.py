# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs one fault against a server of its own."""

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil

from tests.faults.models import BUSY, OTHER, write_model
from tests.faults.report import Report, judge
from tests.faults.scene import Options, Scene
from tests.faults.table import FAULTS, Fault
from tests.support.busy_clients import Outcome
from tests.support.server import RunningServer

_WARM_ANSWERS: Final = 20
_WARM_TIMEOUT_S: Final = 60.0
# How much longer than its rule allows a server is watched.
_WATCHED_TIMES: Final = 2
# The load goes on for so long once the server is whole again.
_TAIL_S: Final = 2.0
_EXIT_TIMEOUT_S: Final = 60.0
_TRACEBACK: Final = "Traceback (most recent call last)"


def run_fault(name: str, options: Options) -> Report:
    """Start a server, put it under load, do this to it, and judge what became of the requests.

    Raises:
        AssertionError: The server did not start, or is not built as this package believes.
        TimeoutError: The fault could not be brought about.
    """
    fault = FAULTS[name]
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        repository = Path(folder)
        fault.write(repository, BUSY, fault.shape)
        write_model(repository, OTHER)
        more_flags = fault.prepare(repository, options) if fault.prepare else ()
        server = RunningServer(
            repository,
            "--model-control-mode=explicit",
            f"--load-model={BUSY}",
            *fault.flags,
            *more_flags,
            start_timeout_s=fault.start_timeout_s,
        )
        breaches = []
        try:
            scene, outcomes = _under_load(fault, server, repository, options)
        finally:
            breaches += _end(server)
            if options.logs is not None:
                options.logs.mkdir(parents=True, exist_ok=True)
                (options.logs / f"{name}.log").write_text("".join(server.lines))
        scene.breaches += breaches
        scene.notes += _said(server)
        return judge(name, fault.rule, scene.observe(outcomes))


def _under_load(
    fault: Fault, server: RunningServer, repository: Path, options: Options
) -> tuple[Scene, list[Outcome]]:
    clients = fault.clients(
        server.http,
        server.grpc,
        BUSY,
        concurrency=options.concurrency,
        patience_s=fault.patience_s,
    )
    watch_s = fault.rule.heal_s * _WATCHED_TIMES
    scene = Scene(server, clients, repository, options, fault.shape, watch_s)
    try:
        clients.wait_warm(_WARM_ANSWERS, _WARM_TIMEOUT_S)
        fault.inject(scene)
        time.sleep(_TAIL_S)
    finally:
        outcomes = clients.stop()
    return scene, outcomes


def _said(server: RunningServer) -> list[str]:
    count = sum(_TRACEBACK in line for line in server.lines)
    return [f"{count} tracebacks in what the server printed"] if count else []


def _end(server: RunningServer) -> list[str]:
    """End the server; return what is wrong with its end."""
    tree = [] if server.process.poll() is not None else server.tree()
    try:
        code = server.terminate(_EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.wait(30)
        for each in tree:
            if each.is_running():
                each.kill()
        return [f"still there {_EXIT_TIMEOUT_S:g} s after SIGTERM"]
    _, alive = psutil.wait_procs(tree, timeout=10)
    for each in alive:
        each.kill()
    return [f"exit code {code}"] if code else []
