# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A fork server serves whoever comes next, keeps nothing of what it has forked, and ends."""

import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from cluster.fork_server.requests import (
    ANSWER,
    HEADER,
    MARK,
    MOST_BYTES,
    SOCKET_VARIABLE,
    Request,
)
from tests.support.forked_processes import Asking, asking, ended
from tests.support.gates import amount
from tests.support.server import ROOT

pytestmark = pytest.mark.slow

FORKS = amount(300, 1000)
# What a client has to send, which may be cut short anywhere.
PLAIN = Request(b"/", [b"python", b"/no/default_worker.py"], dict(os.environb)).encoded()


@contextmanager
def connected(asked: Asking) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(60)
        made.connect(asked.environment[SOCKET_VARIABLE])
        yield made


def send_header(connection: socket.socket, header: bytes, descriptors: int = 3) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    socket.send_fds(connection, [header], [null] * descriptors)
    os.close(null)


def answer(connection: socket.socket) -> bytes:
    """Return what there is until the fork server closes."""
    found = b""
    try:
        while part := connection.recv(100):
            found += part
    except ConnectionResetError:
        # It has not read all that was sent.
        pass
    return found


@pytest.mark.parametrize("end", [0, 1, HEADER.size, HEADER.size + 5, len(PLAIN) - 1])
def test_a_client_that_ends_in_the_middle_of_its_request_harms_nobody(
    asked: Asking, end: int
) -> None:
    with connected(asked) as connection:
        if end:
            send_header(connection, PLAIN[: min(end, HEADER.size)])
        if end > HEADER.size:
            connection.sendall(PLAIN[HEADER.size : end])
    assert asked.is_forked()


# Sends a whole request and is gone before it is read.
GONE = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    request = sys.stdin.buffer.read()
    socket.send_fds(connection, [request[:12]], [0, 1, 2])
    connection.sendall(request[12:])
"""


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_a_client_that_was_killed_gets_no_process(
    asked: Asking, tmp_path: Path, is_waited_for: bool
) -> None:
    made = tmp_path / "made"
    script = asked.script(f"open({str(made)!r}, 'w')")
    asked.is_forked()
    environment = {os.fsencode(name): os.fsencode(it) for name, it in asked.environment.items()}
    request = Request(bytes(tmp_path), [b"python", os.fsencode(script)], environment)
    server = psutil.Process(asked.forks.pid)
    server.suspend()
    client = subprocess.Popen(
        [sys.executable, "-c", GONE, asked.environment[SOCKET_VARIABLE]], stdin=subprocess.PIPE
    )
    assert client.stdin is not None
    with client.stdin as requests:
        requests.write(request.encoded())
    gone = os.pidfd_open(client.pid)
    select.select([gone], [], [])
    os.close(gone)
    if is_waited_for:
        client.wait()
    server.resume()
    assert asked.is_forked()
    client.wait()
    assert not made.exists()


@pytest.mark.parametrize(
    ("sent", "descriptors"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 3),
        (b"\0" * HEADER.size, 3),
        (b"\xff" * HEADER.size, 3),
        (PLAIN, 0),
        (PLAIN, 2),
        (HEADER.pack(4, 1, 1) + b"abcd", 3),
        (HEADER.pack(5, 1, 1) + b"/\0x\0A", 3),
        (HEADER.pack(6, 2**32 - 1, 2**32 - 1) + b"/\0x\0A\0", 3),
        (HEADER.pack(MOST_BYTES + 1, 1, 1), 3),
        (struct.pack("=III", 2**32 - 1, 1, 1), 3),
    ],
)
def test_what_is_no_request_gets_no_process_and_the_next_one_is_served(
    asked: Asking, sent: bytes, descriptors: int
) -> None:
    asked.is_forked()
    before = open_in(asked)
    with connected(asked) as connection:
        if descriptors:
            send_header(connection, sent[: HEADER.size], descriptors)
        else:
            connection.sendall(sent[: HEADER.size])
        try:
            connection.sendall(sent[HEADER.size :])
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            # It has been refused already.
            pass
        assert answer(connection) == b""
    assert asked.is_forked()
    assert open_in(asked) == before


def test_more_descriptors_than_three_are_not_kept(asked: Asking) -> None:
    asked.is_forked()
    before = open_in(asked)
    with connected(asked) as connection:
        send_header(connection, PLAIN[: HEADER.size], 40)
        connection.sendall(PLAIN[HEADER.size :])
        # There is no such file: it is not forked, and the client would start it itself.
        assert answer(connection) in (b"", ANSWER.pack(-1))
    assert asked.is_forked()
    assert open_in(asked) == before


def test_a_process_that_cannot_begin_ends_and_harms_nobody(asked: Asking) -> None:
    """Its folder is gone when it is forked."""
    script = asked.script()
    request = Request(
        b"/no/such/folder",
        [b"python", os.fsencode(script)],
        {os.fsencode(name): os.fsencode(it) for name, it in asked.environment.items()},
    ).encoded()
    end, start = os.pipe()
    with connected(asked) as connection:
        null = os.open(os.devnull, os.O_RDWR)
        socket.send_fds(connection, [request[: HEADER.size]], [null, start, start])
        connection.sendall(request[HEADER.size :])
        assert ANSWER.unpack(answer(connection))[0] > 0
    os.close(start)
    os.close(null)
    with os.fdopen(end) as errors:
        assert "No such file or directory: b'/no/such/folder'" in errors.read()
    assert asked.is_forked()


def open_in(asked: Asking) -> set[str]:
    """Return the fork server's descriptors."""
    assert asked.forks.pid is not None
    return set(map(str, Path(f"/proc/{asked.forks.pid}/fd").iterdir()))


def test_what_was_forked_leaves_no_descriptor_no_zombie_and_no_memory(asked: Asking) -> None:
    script = asked.script("")
    large = {"LARGE": "x" * 100_000}

    def fork(count: int) -> None:
        for _ in range(0, count, 10):
            for each in [asked.begun(script, variables=large) for _ in range(10)]:
                assert ended(each).status == 0

    fork(50)
    server = psutil.Process(asked.forks.pid)
    descriptors, memory = open_in(asked), server.memory_full_info().uss
    fork(FORKS)
    assert open_in(asked) == descriptors
    # The last have closed their output, and may be about to end.
    psutil.wait_procs(server.children(), timeout=60)
    assert server.children() == []
    # What is shared with a child counts as its own again once the child has ended.
    assert server.memory_full_info().uss - memory < 1_000_000
    assert asked.is_forked()


MAPS = """
import subprocess, sys
print(open("/proc/self/maps").read())
sys.stdout.flush()
print("started", flush=True)
subprocess.run(["cat", "/proc/self/maps"])
"""


def test_all_that_it_forks_shows_its_mark_and_what_these_start_does_not(asked: Asking) -> None:
    mark = str(Path(asked.environment[SOCKET_VARIABLE]).with_name(MARK))
    own, _, started = asked.run(asked.script(MAPS)).output.partition("started\n")
    assert f" {mark}\n" in own
    assert "/cat\n" in started
    assert mark not in started
    assert mark not in asked.run(asked.script(MAPS), variables={"OMP_NUM_THREADS": "9"}).output


PARENT = """
import os, sys
from cluster.fork_server.starting import ForkServer
print(ForkServer(dict(os.environ)).pid, flush=True)
sys.stdin.read()
"""


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as parent:
        assert parent.stdout is not None
        server = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    assert select.select([server], [], [], 100)[0]
    os.close(server)


def test_while_it_is_dead_processes_are_started_plainly_and_then_forked_again(
    each_client: Asking,
) -> None:
    asked = each_client
    before = asked.forks.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    found = asked.run(asked.script())
    assert (found.status, found.errors) == (0, "")
    assert found.told["parent"] == os.getpid()
    assert asked.forks.look()
    assert asked.forks.pid != before
    # The request waits until it has imported.
    assert asked.is_forked()


PRELOADED = "import json, sys; print(json.dumps([each in sys.modules for each in sys.argv[1:]]))"


def test_what_it_is_told_to_import_is_there_in_the_first_process_that_it_forks(
    asked: Asking, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    modules, scripts = tmp_path / "modules", tmp_path / "scripts"
    for folder in (modules, scripts):
        folder.mkdir()
    (modules / "harmless.py").touch()
    (modules / "crashing.py").write_text("import os; os.abort()")
    path = f"{ROOT}{os.pathsep}{modules}"
    names = ("harmless", "crashing")
    with asking(asked.client, scripts, preload=",".join(names), PYTHONPATH=path) as preloading:
        script = preloading.script(PRELOADED)
        assert preloading.run(script, *names).output == "[true, false]\n"
    said = "each process imports crashing itself: the process that imports it crashes"
    assert said in capfd.readouterr().err
