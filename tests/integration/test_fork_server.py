# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server whose processes are forked, what it prints, and what the fork server's loss costs."""

import re
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import tritonclient.http as triton_http

from cluster.fork_server import client_file
from cluster.fork_server.requests import SOCKET_VARIABLE
from tests.integration.conftest import write_add_sub
from tests.support.clients import Load, add_sub_inputs, check_add_sub
from tests.support.gates import amount, takes_minutes
from tests.support.server import RunningServer, title_of, until

# What an instance may take to start on a machine that does other things too.
PATIENCE_S = 120.0
FORK_SERVER = "manta: fork server"
RESTARTED = "The fork server had ended: another one was started."
BURST = tuple(f"burst_{each}" for each in range(amount(5, 10)))
# Loaded where clients are killed.
SLOWED = tuple(f"slowed_{each}" for each in range(10))
LINES = 40
INSTANCES = 3
# Of the standard library; nothing else imports it.
PRELOADED = "colorsys"
PRINTING = f"""
import os, sys

class TritonPythonModel:
    def initialize(self, args):
        print(f"{PRELOADED} is there: {{'{PRELOADED}' in sys.modules}}")
        for each in range({LINES}):
            print(f"line {{each}} of {{os.getpid()}}")
            print(f"error {{each}} of {{os.getpid()}}", file=sys.stderr)

    def execute(self, requests):
        return []
"""


@dataclass
class Forking:
    """A server whose output and errors can be told apart.

    Attributes:
        server: The server.
        errors: The file to which its errors go.
        seen: All of its processes; those whose fork server has died are nobody's children.
    """

    server: RunningServer
    errors: Path
    seen: set[psutil.Process] = field(default_factory=set)

    def fork_server(self) -> psutil.Process | None:
        children = psutil.Process(self.server.pid).children()
        return next((each for each in children if title_of(each).startswith(FORK_SERVER)), None)

    def raylet(self) -> psutil.Process:
        (found,) = [each for each in self.server.tree() if each.name() == "raylet"]
        return found

    def folder(self) -> Path:
        """Return that of its socket."""
        return Path(self.raylet().environ()[SOCKET_VARIABLE]).parent

    def kill_fork_server(self) -> int:
        """End it; return how often it was started anew before."""
        before = self.restarts()
        self.look()
        self.server.kill(until(self.fork_server, "no fork server"))
        return before

    def look(self) -> None:
        self.seen.update(self.server.tree())

    def restarts(self) -> int:
        return self.errors.read_text().count(RESTARTED)

    def wait_for_restart(self, before: int) -> None:
        until(lambda: self.restarts() > before, "it does not say that another was started")

    def forked(self, name: str, count: int = 1) -> list[psutil.Process]:
        """Wait for that many processes of a title which the fork server of now has forked."""

        def found() -> list[psutil.Process]:
            parent = self.fork_server()
            children = [] if parent is None else parent.children()
            there = [each for each in children if title_of(each).startswith(name)]
            return there if len(there) == count else []

        return until(found, f"not {count} forked processes {name}")

    def infer(self, model: str) -> None:
        with triton_http.InferenceServerClient(self.server.http, network_timeout=60) as client:
            check_add_sub(client.infer(model, add_sub_inputs(triton_http)))

    def load(self, model: str) -> None:
        with triton_http.InferenceServerClient(self.server.http, network_timeout=120) as client:
            client.load_model(model)


@pytest.fixture(scope="module")
def forking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forking]:
    folder = tmp_path_factory.mktemp("fork_server")
    repository = folder / "models"
    write_add_sub(repository, "add_sub", instances=2)
    write_add_sub(repository, "printing", instances=INSTANCES, code=PRINTING)
    for each in ("later", "cleaned", *BURST, *SLOWED):
        write_add_sub(repository, each)
    errors = folder / "errors"
    server = RunningServer(
        repository,
        "--model-control-mode=explicit",
        "--load-model=add_sub",
        "--exit-timeout-secs=2",
        f"--fork-server-preload={PRELOADED},no_such_module",
        manta=("sh", "-c", 'exec 2>"$0" "$@"', str(errors), sys.executable, "-m", "cluster"),
    )
    yield Forking(server, errors)
    if server.process.poll() is None:
        server.terminate()


def test_processes_are_forked_and_have_the_titles_that_ray_gives(forking: Forking) -> None:
    forking.forked("ray::add_sub/1#", 2)
    for each in ("ray::ServeController", "ray::ModelController", "ray::ServeReplica:manta:Ingress"):
        forking.forked(each)
    # Neither does what only others need run beside them.
    scripts = ("log_monitor.py", "monitor.py", "dashboard.py", "dashboard/agent.py")
    titles = [title_of(each) for each in forking.server.tree()]
    assert not [each for each in titles if any(script in each for script in scripts)]


def test_what_models_print_comes_out_line_by_line(forking: Forking) -> None:
    forking.load("printing")
    pids = [each.pid for each in forking.forked("ray::printing/1#", INSTANCES)]
    for kind, read in (
        ("line", lambda: forking.server.lines),
        ("error", lambda: forking.errors.read_text().splitlines(keepends=True)),
    ):
        wanted = Counter(f"{kind} {each} of {pid}\n" for each in range(LINES) for pid in pids)
        last = [f"{kind} {LINES - 1} of {pid}\n" for pid in pids]
        until(lambda last=last, read=read: set(last) <= set(read()), f"{last} are not printed")
        printed = [each for each in read() if re.search(rf"\b{kind} \d+ of \d+", each)]
        assert Counter(printed) == wanted
        for pid in pids:
            own = [each for each in printed if each.endswith(f" {pid}\n")]
            assert own == [f"{kind} {each} of {pid}\n" for each in range(LINES)]


def test_modules_are_imported_beforehand_and_of_what_is_none_it_is_said(forking: Forking) -> None:
    told = [each for each in forking.server.lines if each.startswith(f"{PRELOADED} is there: ")]
    assert told == [f"{PRELOADED} is there: True\n"] * INSTANCES
    said = "fork server: each process imports no_such_module itself: no_such_module: No module"
    assert said in forking.errors.read_text()


def test_an_instance_that_is_killed_is_replaced_by_a_forked_one(forking: Forking) -> None:
    victim, other = forking.forked("ray::add_sub/1#", 2)
    forking.server.kill(victim)
    found = until(
        lambda: (
            {each.pid for each in forking.forked("ray::add_sub/1#", 2)} - {victim.pid, other.pid}
        ),
        "it is not replaced",
    )
    assert len(found) == 1
    forking.infer("add_sub")


def test_a_fork_server_that_is_killed_at_rest_costs_no_request_and_is_replaced(
    forking: Forking,
) -> None:
    load = Load(forking.server.http, "add_sub")
    load.wait_for(200)
    before = forking.kill_fork_server()
    load.wait_for(200)
    forking.wait_for_restart(before)
    load.wait_for(200)
    assert set(load.stop()) == {"ok"}
    forking.load("later")
    forking.forked("ray::later/1#")
    forking.infer("later")


def test_a_fork_server_that_is_killed_while_models_load_delays_none(forking: Forking) -> None:
    loads = [threading.Thread(target=forking.load, args=(each,)) for each in BURST]
    parent = until(forking.fork_server, "no fork server")
    known = set(parent.children())
    for each in loads:
        each.start()
    until(lambda: set(parent.children()) - known, "nothing is forked")
    before = forking.kill_fork_server()
    for each in loads:
        each.join(PATIENCE_S)
    for each in BURST:
        forking.infer(each)
    forking.wait_for_restart(before)
    forking.infer("add_sub")


def test_files_of_the_fork_server_that_somebody_removes_are_made_anew(forking: Forking) -> None:
    """As what keeps the folder of temporary files clean may do."""
    before = forking.restarts()
    forking.look()
    shutil.rmtree(forking.folder())
    forking.wait_for_restart(before)
    forking.load("cleaned")
    forking.forked("ray::cleaned/1#")
    forking.infer("cleaned")


@takes_minutes
def test_clients_that_are_killed_while_ten_models_load_hang_none(forking: Forking) -> None:
    """Ray takes a worker for dead that has not come after a minute."""
    raylet, parent = forking.raylet(), until(forking.fork_server, "no fork server")

    def clients() -> list[psutil.Process]:
        return [each for each in raylet.children() if each.name() == client_file.NAME]

    parent.suspend()
    loads = [threading.Thread(target=forking.load, args=(each,)) for each in SLOWED]
    for each in loads:
        each.start()
    for each in until(clients, "no client waits"):
        each.kill()
    parent.resume()
    for each in loads:
        each.join(PATIENCE_S)
    for each in SLOWED:
        forking.infer(each)
    until(lambda: not clients(), "a client is left")
    forking.forked("ray::slowed_9/1#")


def test_a_driver_that_is_killed_leaves_no_process_and_no_folder(forking: Forking) -> None:
    """Also no process that fork servers have forked which were killed before."""
    forking.look()
    folder = forking.folder()
    assert folder.is_dir()
    instances = [each for each in forking.seen if title_of(each).startswith("ray::")]
    assert len(instances) > len(forking.server.processes("ray::"))
    # One that is stopped cannot end by itself.
    next(each for each in instances if title_of(each).startswith("ray::add_sub/1#")).suspend()
    forking.server.kill(psutil.Process(forking.server.pid))
    forking.server.wait(10)
    _, alive = psutil.wait_procs(forking.seen, timeout=30)
    assert not alive, alive
    until(lambda: not folder.exists(), f"{folder} is left")
