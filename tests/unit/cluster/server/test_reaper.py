# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What outlives a killed driver is ended, and nothing else."""

import os
import select
import subprocess
import sys

import pytest

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
        reaper._watch(parent.pid)
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
        reaper._watch(parent.pid)
    assert has_ended(children[0])
    os.close(children[0])
    parent.stdin.close()
    parent.stdout.close()
