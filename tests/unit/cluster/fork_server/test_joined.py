# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A raylet that is not Manta's starts the client too, and its fork server lasts as long as it."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from ray._private import services as services_of_ray

import manta.fork_server
from cluster.fork_server import client_file, joined
from cluster.fork_server.imported import OWN
from cluster.fork_server.requests import PYTHON_VARIABLE, SOCKET_VARIABLE
from tests.support.forked_processes import NAME, ended
from tests.support.server import ROOT, until

# Of it there is more than its types say.
services: Any = services_of_ray
# What a worker of any job finds.
FOUND = f"""
import json, os, sys
print(json.dumps({{
    "own": sorted(each for each in sys.modules if each.partition(".")[0] in {set(OWN)}),
    "others": [each in sys.modules for each in ("numpy", "ray.serve", "colorsys")],
    "parent": os.getppid(),
}}))
"""


@dataclass
class Node:
    """Ray's side of a node: a process in the raylet's place.

    Attributes:
        session: The folder of its session.
        program: What stands for the raylet.
        started: The command and the environment that the raylet got, for each start.
        raylets: The processes.
    """

    session: Path
    program: Path
    started: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    raylets: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start_raylet(self, gcs: str, session_dir: str, log_dir: str, **named: Any) -> Any:
        """Start it, as Ray's function of this name does."""
        assert (gcs, named) == ("gcs", {"is_head_node": True})
        self.started.append((services.sys.executable, dict(os.environ)))
        self.raylets.append(subprocess.Popen([self.program, "1000"]))
        return SimpleNamespace(process=self.raylets[-1])

    def start(self) -> Any:
        """Start it as a node of Ray does."""
        folder = str(self.session)
        return services.start_raylet("gcs", folder, log_dir=folder, is_head_node=True)

    def left(self) -> list[Path]:
        """Return the folders of fork servers."""
        return list(self.session.glob("manta-fork-*"))

    def processes(self) -> list[psutil.Process]:
        """Return what watches its raylet, and the fork server."""
        found = []
        for each in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self.session) in "".join(each.cmdline()[-1:]):
                    found += [each, *each.children()]
        return found

    def fork_server(self) -> psutil.Process | None:
        """Return it once it forks."""
        for each in self.processes():
            with contextlib.suppress(psutil.Error):
                if " ".join(each.cmdline()).startswith("manta: fork server"):
                    return each
        return None


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Node]:
    # Paths of sockets have to be short.
    session = Path(tempfile.mkdtemp(prefix="manta-node-"))
    sleep = shutil.which("sleep")
    assert sleep is not None
    program = Path(shutil.copy(sleep, tmp_path / "raylet"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = Node(session, program)
    monkeypatch.setattr(services, "start_raylet", made.start_raylet)
    yield made
    for each in made.raylets:
        each.kill()
        each.wait()
    until(lambda: not made.processes(), "it has not ended")
    shutil.rmtree(session)


def parameters(**given: Any) -> Any:
    isolation = SimpleNamespace(is_enabled=lambda: False)
    return SimpleNamespace(**{"resource_isolation_config": isolation, **given})


def test_the_raylet_starts_the_client_for_python_and_nobody_else_does(
    node: Node, capfd: pytest.CaptureFixture[str]
) -> None:
    joined.begin(parameters(), True)
    assert services.sys is sys
    info = node.start()
    assert info.process is node.raylets[0]
    ((client, environment),) = node.started
    (folder,) = node.left()
    assert client.endswith("python-client")
    assert environment[SOCKET_VARIABLE].startswith(f"{folder}/")
    assert environment[PYTHON_VARIABLE] == sys.executable
    assert not {SOCKET_VARIABLE, PYTHON_VARIABLE} & os.environ.keys()
    assert services.sys is sys
    assert f"are forked; see {node.session}/manta_fork_server.log" in capfd.readouterr().err
    # Another raylet of this process is a plain one.
    node.start()
    assert node.started[1][0] == sys.executable


@pytest.mark.slow
def test_any_jobs_workers_are_forked_until_the_raylet_ends(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANTA_FORK_SERVER_PRELOAD", "colorsys,no_such_module")
    joined.begin(parameters(), False)
    raylet = node.start().process
    ((client, environment),) = node.started
    (node.session / NAME).write_text(FOUND)

    def worker() -> dict[str, Any]:
        command = [client, str(node.session / NAME)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=environment, text=True, stdout=pipe, stderr=pipe)
        return ended(process).told

    until(lambda: Path(environment[SOCKET_VARIABLE]).is_socket(), "no fork server listens")
    first = until(node.fork_server, "no fork server")
    # Modules of Manta's names may be another job's, or another release's.
    assert worker() == {"own": [], "others": [True, True, True], "parent": first.pid}
    # Its workers end with the raylet, and belong to no job yet.
    assert first.environ()["RAY_RAYLET_PID"] == str(raylet.pid)
    assert first.environ()["RAY_JOB_ID"] == "ffffffff"
    first.kill()
    second = until(lambda: (it := node.fork_server()) and it != first and it, "no other one")
    assert worker()["parent"] == second.pid
    said = (node.session / joined.LOG).read_text()
    assert "each process imports no_such_module itself" in said
    assert "manta: the fork server had ended: another one was started" in said
    raylet.kill()
    raylet.wait()
    until(lambda: not node.processes(), "the fork server does not end")
    assert not node.left()


class Unknown:
    """What no Ray gives."""

    @property
    def resource_isolation_config(self) -> Any:
        raise RuntimeError("of another Ray")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            parameters(resource_isolation_config=SimpleNamespace(is_enabled=lambda: True)),
            "Ray moves them into control groups",
        ),
        (parameters(worker_path="/other.py"), "they are to run another file than Ray's own"),
        (parameters(setup_worker_path="/other.py"), "they are to run another file than Ray's own"),
        (Unknown(), "of another Ray"),
    ],
)
def test_a_node_whose_workers_cannot_be_forked_starts_plainly_and_it_is_said(
    node: Node, capfd: pytest.CaptureFixture[str], given: Any, why: str
) -> None:
    joined.begin(given, True)
    assert node.start().process is node.raylets[0]
    assert node.started[0][0] == sys.executable
    assert not node.left()
    errors = capfd.readouterr().err
    assert "manta: workers of this node are started plainly: " in errors
    assert why in errors


def plain(path: Path) -> Path:
    path.touch()
    return path


def in_blanks(folder: Path) -> Path:
    (folder / "a b").mkdir()
    return folder / "a b" / "client"


def failing(folder: Path) -> Path:
    client = folder / "client"
    client.write_text("#!/bin/sh\necho no such library >&2\nexit 3\n")
    client.chmod(0o700)
    return client


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda folder: plain(folder / "client"), "Permission denied"),
        (in_blanks, "no path with blanks"),
        (failing, "cannot run Python: status 3 no such library"),
    ],
    ids=["not executable", "blanks", "failing"],
)
def test_a_client_that_cannot_run_is_not_given_to_the_raylet(
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    made: Callable[[Path], Path],
    why: str,
) -> None:
    monkeypatch.setattr(client_file, "made", made)
    joined.begin(parameters(), True)
    node.start()
    assert node.started[0][0] == sys.executable
    assert SOCKET_VARIABLE not in node.started[0][1]
    assert not node.left()
    assert why in capfd.readouterr().err


def test_a_raylet_that_cannot_start_leaves_python_as_it_was(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.program.unlink()
    joined.begin(parameters(), True)
    with pytest.raises(FileNotFoundError):
        node.start()
    assert services.sys is sys
    assert SOCKET_VARIABLE not in os.environ


def test_what_runs_in_the_raylets_place_is_not_watched(
    node: Node, capfd: pytest.CaptureFixture[str]
) -> None:
    node.program = node.program.rename(node.program.with_name("debugger"))
    joined.begin(parameters(), True)
    node.start()
    assert "is not the raylet but 'debugger'" in capfd.readouterr().err
    assert not node.processes()


def test_the_fork_server_of_a_raylet_that_has_ended_already_does_not_begin(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    folder = tmp_path / "folder"
    folder.mkdir()
    joined.watch(process.pid, folder, {})
    assert not folder.exists()


def test_the_hook_that_documents_name_is_this_one() -> None:
    assert manta.fork_server.begin is joined.begin
