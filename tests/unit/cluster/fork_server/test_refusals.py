# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a fork server does not fork it says, and answers so."""

import contextlib
import os
import resource
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.fork_server import child, differences, serving
from cluster.fork_server.child import surroundings_of
from cluster.fork_server.requests import ANSWER, HEADER, REFUSED, Request
from cluster.fork_server.serving import ForkServer

SCRIPT = b"/somewhere/default_worker.py"
COMMAND = (b"python", SCRIPT)


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
        made.listen()
        yield made


class Parent:
    """The process with which a fork server ends; it ends after some looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        monkeypatch.setattr(serving.os, "getppid", self)
        monkeypatch.setattr(serving, "_LOOK_S", 0.001)

    def __call__(self) -> int:
        self.looks -= 1
        return 7 if self.looks >= 0 else 1


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Parent:
    return Parent(monkeypatch)


def asked(
    listener: socket.socket,
    parent: Parent,
    *,
    command: tuple[bytes, ...] = COMMAND,
    changed: Mapping[bytes, bytes] | None = None,
) -> bytes:
    """Ask a fork server of this process once, in its own thread; return its answer."""
    request = Request(b"/", command, {**os.environb, **(changed or {})}).encoded()
    answers: list[bytes] = []

    def ask() -> None:
        found = b""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(listener.getsockname())
            # It may have closed before all is sent.
            with contextlib.suppress(ConnectionError):
                socket.send_fds(connection, [request[: HEADER.size]], [0, 1, 2])
                connection.sendall(request[HEADER.size :])
                found = connection.recv(100, socket.MSG_WAITALL)
        answers.append(found)

    server = ForkServer(listener, 7)
    thread = threading.Thread(target=ask)
    thread.start()
    while not answers:
        parent.looks = 1
        assert server.serve() is None
    thread.join()
    return answers[0]


def test_it_serves_nobody_once_its_parent_has_ended(
    listener: socket.socket, parent: Parent
) -> None:
    assert ForkServer(listener, 7).serve() is None
    parent.looks = 5
    assert ForkServer(listener, 7).serve() is None
    assert parent.looks == -1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"changed": {b"OMP_NUM_THREADS": b"77"}}, "its environment differs in OMP_NUM_THREADS"),
        ({"command": (b"python", b"-m", b"module")}, "it runs no file"),
    ],
)
def test_what_a_fork_cannot_give_is_refused_and_said(
    listener: socket.socket,
    parent: Parent,
    capfd: pytest.CaptureFixture[str],
    given: dict[str, Any],
    why: str,
) -> None:
    assert asked(listener, parent, **given) == ANSWER.pack(REFUSED)
    assert f"is started plainly: {why}\n" in capfd.readouterr().err


def test_a_process_elsewhere_is_refused(
    listener: socket.socket,
    parent: Parent,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = iter([("0::/own",), ("0::/other",)])
    monkeypatch.setattr(serving, "place_of", lambda _pid: next(places))
    assert asked(listener, parent) == ANSWER.pack(REFUSED)
    assert "its control group or its namespaces are others" in capfd.readouterr().err


def test_a_process_with_higher_limits_is_refused(
    listener: socket.socket,
    parent: Parent,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = differences.limits_of(os.getpid())
    found = iter([limits | {resource.RLIMIT_NOFILE: (5, 5)}, limits])
    monkeypatch.setattr(serving, "limits_of", lambda _pid: next(found))
    assert asked(listener, parent) == ANSWER.pack(REFUSED)
    assert "its resource limits are higher" in capfd.readouterr().err


def test_a_process_that_comes_first_more_often_is_refused(
    listener: socket.socket,
    parent: Parent,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving.os, "getpriority", lambda _which, pid: -1 if pid else 0)
    assert asked(listener, parent) == ANSWER.pack(REFUSED)
    assert "its niceness is lower" in capfd.readouterr().err


def test_another_user_gets_no_answer(
    listener: socket.socket,
    parent: Parent,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = os.getuid()
    monkeypatch.setattr(serving.os, "getuid", lambda: user + 1)
    assert asked(listener, parent) == b""
    assert f"it is a process of user {user}" in capfd.readouterr().err


def test_a_script_that_is_not_there_gets_no_answer(
    listener: socket.socket, parent: Parent, capfd: pytest.CaptureFixture[str]
) -> None:
    assert asked(listener, parent) == b""
    assert f"No such file or directory: '{SCRIPT.decode()}'" in capfd.readouterr().err


def test_surroundings_are_those_of_the_process() -> None:
    limits = differences.limits_of(os.getpid())
    found = surroundings_of(os.getpid(), limits)
    mask = os.umask(0)
    os.umask(mask)
    assert found.umask == mask
    assert found.cores == os.sched_getaffinity(0)
    assert found.niceness == os.getpriority(os.PRIO_PROCESS, 0)
    assert found.limits == limits


def test_a_process_that_has_ended_and_is_waited_for_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tsh\nState:\tZ (zombie)\n")
    monkeypatch.setattr(child, "Path", lambda _path: status)
    with pytest.raises(ProcessLookupError, match="7 has ended"):
        surroundings_of(7, {})
