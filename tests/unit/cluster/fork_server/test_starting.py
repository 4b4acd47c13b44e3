# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The fork server is started, watched and ended, and Ray starts its client only while it begins."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray._private import services

from cluster.fork_server import starting
from cluster.fork_server.requests import OF_ONE_SERVER, PYTHON_VARIABLE, SOCKET_VARIABLE
from cluster.fork_server.starting import ForkServer


class Process(subprocess.Popen[bytes]):
    """A process in the fork server's place, which imports nothing and serves nobody.

    Attributes:
        started: What was started, with the environment.
    """

    started: list[tuple[list[str], dict[str, str]]]
    code = "import signal; signal.pause()"

    def __init__(self, command: list[str], *, env: dict[str, str], **given: Any) -> None:
        self.started.append((command, env))
        super().__init__([sys.executable, "-I", "-S", "-c", self.code], env=env, **given)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Process]:
    class Here(Process):
        started = []

    monkeypatch.setattr(starting.subprocess, "Popen", Here)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return Here


@pytest.fixture
def forks(processes: type[Process]) -> Iterator[ForkServer]:
    made = ForkServer({**os.environ, "SAID": "1"})
    yield made
    made.end()


def test_it_gets_a_socket_its_parent_and_an_environment_of_no_job(
    processes: type[Process], forks: ForkServer
) -> None:
    ((command, environment),) = processes.started
    assert command[:4] == [sys.executable, "-P", "-m", "cluster.fork_server"]
    assert int(command[4]) > 2
    assert command[5] == str(os.getpid())
    # Room for the titles of the processes that it forks.
    assert command[6:8] == ["", OF_ONE_SERVER]
    assert len(command[8]) >= 400
    assert environment["SAID"] == "1"
    assert environment["RAY_JOB_ID"] == "ffffffff"
    assert environment["RAY_RAYLET_PID"] == str(os.getpid())
    assert environment["ORT_DISABLE_TELEMETRY"] == "1"
    # It has a session of its own, which Ctrl-C does not reach.
    assert forks.pid is not None
    assert os.getsid(forks.pid) == forks.pid


def test_it_is_told_the_modules_to_import_beforehand(processes: type[Process]) -> None:
    forks = ForkServer(dict(os.environ), preload="a,b.c")
    forks.end()
    ((command, _),) = processes.started
    assert command[6] == "a,b.c"


def test_ray_starts_the_client_for_python_and_nobody_else_does(forks: ForkServer) -> None:
    python = sys.executable
    environment: Any = forks._environment
    with forks.in_front_of_workers():
        client = services.sys.executable
        assert os.access(client, os.X_OK)
        assert client != python
        assert services.sys.platform == sys.platform
        assert services.sys.modules is sys.modules
        assert sys.executable == python
        assert environment[PYTHON_VARIABLE] == python
        assert Path(environment[SOCKET_VARIABLE]).is_socket()
    assert services.sys is sys
    assert not {SOCKET_VARIABLE, PYTHON_VARIABLE} & environment.keys()


def test_a_ray_that_cannot_start_leaves_python_as_it_was(forks: ForkServer) -> None:
    def start() -> None:
        with forks.in_front_of_workers():
            raise RuntimeError("no port is free")

    with pytest.raises(RuntimeError, match="no port is free"):
        start()
    assert services.sys is sys
    assert SOCKET_VARIABLE not in forks._environment


def test_the_command_of_a_worker_begins_with_the_client(forks: ForkServer) -> None:
    with forks.in_front_of_workers():
        assert services.sys.executable.endswith("python-client")
        # The raylet splits the command at blanks.
        assert " " not in services.sys.executable


def ended(forks: ForkServer, by: signal.Signals) -> int:
    """End the process with a signal; return its pid."""
    process = forks._process
    assert process is not None
    process.send_signal(by)
    process.wait(30)
    return process.pid


def test_another_one_is_started_after_a_death_at_the_same_socket(
    processes: type[Process], forks: ForkServer
) -> None:
    with forks.in_front_of_workers():
        path = Path(forks._environment[SOCKET_VARIABLE])
    assert not forks.look()
    for by in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        before = ended(forks, by)
        assert forks.look()
        assert not forks.look()
        assert forks.pid not in (None, before)
        assert path.is_socket()
    assert len(processes.started) == 4


def test_another_one_runs_in_the_environment_of_the_first(
    processes: type[Process], forks: ForkServer
) -> None:
    """A driver of Ray has others: workers would differ from what forks them."""
    forks._environment["PYTHONBREAKPOINT"] = "ray.util.rpdb.set_trace"
    ended(forks, signal.SIGKILL)
    assert forks.look()
    (_, first), (_, second) = processes.started
    assert first == second


def test_one_that_has_ended_by_itself_is_not_started_again(
    processes: type[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "code", "raise SystemExit(1)")
    forks = ForkServer(dict(os.environ))
    assert forks._process is not None
    assert forks._process.wait(30) == 1
    assert not forks.look()
    assert len(processes.started) == 1
    forks.end()


def test_one_that_cannot_be_started_is_tried_again(
    processes: type[Process], forks: ForkServer, caplog: pytest.LogCaptureFixture
) -> None:
    folder = forks._folder
    ended(forks, signal.SIGKILL)
    folder.rename(folder.with_name("away"))
    # Whoever made it would be asked for workers.
    folder.write_text("")
    assert not forks.look()
    assert "no other fork server can be started" in caplog.text
    folder.unlink()
    folder.with_name("away").rename(folder)
    assert forks.look()


def test_files_that_were_removed_are_there_again_and_another_one_serves(
    processes: type[Process], forks: ForkServer
) -> None:
    folder, first = forks._folder, forks._process
    assert first is not None
    shutil.rmtree(folder)
    assert forks.look()
    assert first.wait(30) == -signal.SIGTERM
    assert (folder / "socket").is_socket()
    assert {each.name for each in folder.iterdir()} >= {"mark", "socket"}
    assert forks._client.is_file()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not forks.look()
    (folder / "socket").unlink()
    assert forks.look()


def test_one_that_has_ended_for_want_of_its_files_is_started_again(
    processes: type[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are removed while it starts, and has not read them."""
    with monkeypatch.context() as patch:
        patch.setattr(processes, "code", "raise SystemExit(1)")
        forks = ForkServer(dict(os.environ))
        assert forks._process is not None
        assert forks._process.wait(30) == 1
    (forks._folder / "mark").unlink()
    assert forks.look()
    assert not forks.look()
    assert forks.pid is not None
    forks.end()


def test_files_never_look_old(forks: ForkServer) -> None:
    files = [forks._folder, *forks._folder.iterdir()]
    for each in files:
        os.utime(each, (0, 0))
    assert not forks.look()
    assert {each.stat().st_mtime for each in files} == {0}
    forks._freshened_s -= 2 * 3600
    assert not forks.look()
    assert all(each.stat().st_mtime > 0 for each in files)


def test_the_end_leaves_no_process_and_no_file(
    processes: type[Process], forks: ForkServer, tmp_path: Path
) -> None:
    forks.end()
    assert forks.pid is None
    assert not list(tmp_path.iterdir())
    assert not forks.look()
    forks.end()
    assert len(processes.started) == 1


def test_a_socket_whose_path_is_too_long_leaves_nothing(
    processes: type[Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(OSError, match="path too long"):
        ForkServer({})
    assert not processes.started
    assert not list(deep.iterdir())


def test_a_forked_process_is_shown_as_subprocess_shows_one():
    end, start = os.pipe()
    pid = os.fork()
    if not pid:
        os.read(end, 1)
        os._exit(3)
    forked = starting.Forked(pid)
    assert (forked.pid, forked.poll()) == (pid, None)
    with pytest.raises(subprocess.TimeoutExpired):
        forked.wait(0.0)
    os.write(start, b".")
    assert forked.wait(60.0) == 3
    # A pid that may be another's by now is sent nothing.
    forked.terminate()
    assert forked.poll() == 3
    for each in (end, start):
        os.close(each)


def test_a_forked_process_is_ended_by_a_signal_and_says_which():
    pid = os.fork()
    if not pid:
        signal.pause()
    forked = starting.Forked(pid)
    forked.terminate()
    assert forked.wait(60.0) == -signal.SIGTERM


def test_ray_is_imported_as_in_a_process_of_no_job_and_the_next_one_knows_nothing_of_it():
    with starting.of_no_job(environment := {"RAY_x": "1"}):
        assert environment == {
            "RAY_x": "1",
            "RAY_JOB_ID": "ffffffff",
            "RAY_RAYLET_PID": str(os.getpid()),
        }
    assert environment == {"RAY_x": "1"}
