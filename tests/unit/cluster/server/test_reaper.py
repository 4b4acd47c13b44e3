# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What outlives a killed driver is ended, and nothing else."""

import json
import os
import select
import signal
import subprocess
import sys

import pytest

from cluster.fork_server import client_file
from cluster.fork_server.requests import MARK, SOCKET_VARIABLE
from cluster.server import reaper

# A parent that starts a child, says its pid and waits; the child goes on without it.
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(child.pid, flush=True)
input()
"""


@pytest.fixture
def parent():
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    for child, _ in reaper._children(process.pid):
        os.kill(child, 9)
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_children_are_told_by_pid_and_start_time(parent):
    child = int(parent.stdout.readline())
    (found,) = reaper._children(parent.pid)
    assert found[0] == child
    assert reaper._is_alive(*found)
    assert not reaper._is_alive(child, "1")


def test_a_process_that_has_ended_is_not_alive_although_nobody_waited_for_it(parent):
    child = int(parent.stdout.readline())
    ((pid, started),) = reaper._children(parent.pid)
    descriptor = os.pidfd_open(child)
    os.kill(child, 9)
    # Readable once it has ended; its parent does not wait for it, so that it stays a zombie.
    assert has_ended(descriptor)
    os.close(descriptor)
    assert not reaper._is_alive(pid, started)


def has_ended(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 30)[0])


def test_without_a_raylet_there_is_nothing_to_watch():
    assert reaper.start_reaper() is None


def test_a_command_name_with_blanks_and_brackets_is_read(tmp_path):
    stat = "7 (a b) c) S 1 7 7 0"
    assert reaper._parse(stat) == (7, "a b) c", ["S", "1", "7", "7", "0"])


def killing(parent, look):
    """In place of the wait for the next look: the parent dies, its child goes on."""

    def wait(*arguments):
        parent.kill()
        parent.wait()
        return look(*arguments)

    return wait


def test_children_of_a_killed_process_are_ended(parent, monkeypatch):
    child = int(parent.stdout.readline())
    monkeypatch.setattr(reaper, "_GRACE_S", 0.0)
    descriptor = os.pidfd_open(child)
    with monkeypatch.context() as patch:
        patch.setattr(reaper.select, "select", killing(parent, select.select))
        reaper.watch(parent.pid)
    assert has_ended(descriptor)
    os.close(descriptor)


def test_a_child_that_was_started_after_the_first_look_is_ended_too(monkeypatch):
    monkeypatch.setattr(reaper, "_GRACE_S", 0.0)
    parent = subprocess.Popen(
        [sys.executable, "-c", f"input()\n{PARENT}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    look = select.select
    children = []

    def wait(*arguments):
        if not children:
            parent.stdin.write("\n")
            parent.stdin.flush()
            children.append(os.pidfd_open(int(parent.stdout.readline())))
            return [], [], []
        return killing(parent, look)(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(reaper.select, "select", wait)
        reaper.watch(parent.pid)
    assert has_ended(children[0])
    os.close(children[0])
    parent.stdin.close()
    parent.stdout.close()


# A raylet: starts its agent and another process, says their pids, and waits.
RAYLET = """
import json, subprocess, sys
agent = subprocess.Popen(sys.argv[1:])
other = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(json.dumps([agent.pid, other.pid]), flush=True)
input()
"""


# Runs the file without the time in which others end by themselves, and says when it has looked.
AT_ONCE = """
import importlib.util, sys
found = importlib.util.spec_from_file_location("reaper", sys.argv[1])
reaper = importlib.util.module_from_spec(found)
found.loader.exec_module(reaper)
reaper._GRACE_S, reaper._LOOK_S = 0.0, 0.01
wait = reaper.select.select
def select(*given):
    print("looked", flush=True)
    return wait(*given)
reaper.select.select = select
reaper._main(sys.argv[2:])
"""


def test_a_raylet_is_told_that_no_port_is_used(tmp_path):
    reaper.tell_no_ports(str(tmp_path), "cafe")
    told = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert told == dict.fromkeys(
        (
            "metrics_agent_port_cafe",
            "metrics_export_port_cafe",
            "dashboard_agent_listen_port_cafe",
        ),
        "-1",
    )


def test_what_stands_in_for_an_agent_tells_its_ports_and_ends_what_outlives_the_raylet(tmp_path):
    command = reaper.agent_command(str(tmp_path), "cafe")
    command[3:3] = ["-c", AT_ONCE]
    raylet = subprocess.Popen(
        [sys.executable, "-c", RAYLET, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    said = iter(raylet.stdout.readline, "")
    agent, other = map(os.pidfd_open, json.loads(next(each for each in said if each[0] == "[")))
    # One look may have begun before there was the other.
    assert [next(said), next(said)] == ["looked\n"] * 2
    assert len(list(tmp_path.iterdir())) == 3
    raylet.kill()
    raylet.wait()
    assert has_ended(other)
    assert has_ended(agent)
    for each in (agent, other):
        os.close(each)
    raylet.stdin.close()
    raylet.stdout.close()


FORKING = """
import os, signal, sys
from pathlib import Path
from cluster.fork_server.serving import mark
mark(Path(sys.argv[1]))
pid = os.fork()
if pid:
    print(pid, flush=True)
signal.pause()
"""


def test_what_a_fork_server_has_forked_for_a_raylet_is_ended_and_what_another_has_is_not(
    tmp_path, monkeypatch
):
    def forking(name: str) -> tuple[subprocess.Popen, list[int]]:
        (tmp_path / name).mkdir()
        mark = tmp_path / name / MARK
        for each in (MARK, "socket", client_file.NAME):
            mark.with_name(each).touch()
        server = subprocess.Popen(
            [sys.executable, "-c", FORKING, str(mark)], stdout=subprocess.PIPE
        )
        pids = [server.pid, int(server.stdout.readline())]
        server.stdout.close()
        return server, [os.pidfd_open(each) for each in pids]

    monkeypatch.setattr(reaper, "_GRACE_S", 0.0)
    own, ended = forking("own")
    other, left = forking("other")
    with (
        subprocess.Popen(
            [sys.executable, "-c", "print(flush=True); input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, SOCKET_VARIABLE: str(tmp_path / "own" / "socket")},
        ) as raylet,
        monkeypatch.context() as patch,
    ):
        # Its environment is there to see once it runs.
        raylet.stdout.readline()
        patch.setattr(reaper.select, "select", killing(raylet, select.select))
        reaper.watch(raylet.pid)
    assert all(map(has_ended, ended))
    assert not select.select(left, [], [], 0)[0]
    assert [each.name for each in tmp_path.iterdir()] == ["other"]
    for each in left:
        signal.pidfd_send_signal(each, signal.SIGKILL)
    for each in (*ended, *left):
        os.close(each)
    own.wait()
    other.wait()


def test_a_folder_that_is_not_a_fork_servers_stays(tmp_path):
    (tmp_path / "models").mkdir()
    reaper._remove(os.fsencode(tmp_path))
    assert (tmp_path / "models").is_dir()
    reaper._remove(os.fsencode(tmp_path / "nowhere"))


def test_an_agent_whose_raylet_has_gone_already_watches_nobody(tmp_path, monkeypatch):
    watched = []
    monkeypatch.setattr(reaper, "watch", watched.append)
    monkeypatch.setattr(reaper.os, "getppid", lambda: 1)
    reaper._main([str(tmp_path), "cafe"])
    assert len(list(tmp_path.iterdir())) == 3
    reaper._main(["77"])
    assert watched == [77]
