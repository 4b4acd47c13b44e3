# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ends what an embedded Ray leaves running when this process is killed.

The kernel ends Ray's raylet with the driver that started it, and the raylet's workers notice, if
they are not stopped. Its two agents notice as well, but then spend over a minute reporting the
death to a GCS that is gone too. A small process watches the raylet and ends what outlives it, of
its children and of those that a fork server has forked for it. Nothing but the standard library is
imported here, because it runs as long as the server does.

Where there is no dashboard that process is the raylet's child and stands in for the dashboard's
agent: a raylet must have one, and takes a worker only once it has told its ports, each of which may
be -1, not in use. Otherwise it runs beside the driver.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

# How often the raylet's children are noted, and what they get to end by themselves.
_LOOK_S: Final = 1.0
_GRACE_S: Final = 2.0
_PORTS: Final = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
_UNUSED: Final = "-1"
# Of the raylet's environment. The file beside that socket is mapped by the fork server, and so by
# all that it has forked.
_FORK_SERVER: Final = b"MANTA_FORK_SERVER="
_MARK: Final = b"/mark"


def start_reaper() -> "subprocess.Popen[bytes] | None":
    """Start the watching process. None when this process has no raylet."""
    raylet = next((pid for pid, _ in _children(os.getpid(), "raylet")), None)
    if raylet is None:
        return None
    # A session of its own: Ctrl-C must not end it before the server has drained.
    return subprocess.Popen(  # noqa: S603 - the only argument is a pid
        [sys.executable, "-I", "-S", __file__, str(raylet)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _children(parent: int, name: str = "") -> list[tuple[int, str]]:
    """Return pid and start time, which tells a pid from its reuse, of a process's children."""
    # Not /proc/<pid>/task/*/children: that list skips entries while other children end.
    return _children_among(_pids(), parent, name)


def _pids() -> set[str]:
    return {entry.name for entry in Path("/proc").iterdir() if entry.name.isdecimal()}


def _children_among(pids: Iterable[str], parent: int, name: str = "") -> list[tuple[int, str]]:
    found = []
    for each in pids:
        with contextlib.suppress(OSError):
            pid, comm, fields = _parse(Path("/proc", each, "stat").read_text())
            if int(fields[1]) == parent and name in ("", comm):
                found.append((pid, fields[19]))
    return found


@contextlib.contextmanager
def _ended(pid: int) -> Iterator[int]:
    """Yield a descriptor that can be read once a process has ended."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _parse(stat: str) -> tuple[int, str, list[str]]:
    pid, _, rest = stat.partition(" (")
    comm, _, fields = rest.rpartition(") ")
    return int(pid), comm, fields.split()


def _is_alive(pid: int, started: str) -> bool:
    try:
        _, _, fields = _parse(Path(f"/proc/{pid}/stat").read_text())
    except OSError:
        return False
    return fields[19] == started and fields[0] != "Z"


def watch(raylet: int) -> None:
    """Wait for the end of a raylet; then end what it has started and has not ended."""
    own = os.getpid()
    mark = _mark(raylet)
    known: set[tuple[int, str]] = set()
    # What was looked at once is not looked at again: reading the stat of every process of a busy
    # machine each second would cost a hundredth of a core.
    seen: set[str] = set()
    with _ended(raylet) as ended:
        while True:
            pids = _pids()
            known.update(_children_among(pids - seen, raylet))
            seen = pids
            if select.select([ended], [], [], _LOOK_S)[0]:
                break
    time.sleep(_GRACE_S)
    left = {pid for pid, started in known if _is_alive(pid, started)}
    if mark:
        left |= _mapped_by(mark)
    for pid in left - {own}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _mark(raylet: int) -> bytes:
    """Return what marks those that are forked for a raylet; empty if it has no fork server."""
    with contextlib.suppress(OSError):
        for each in Path(f"/proc/{raylet}/environ").read_bytes().split(b"\0"):
            if each.startswith(_FORK_SERVER):
                return each.removeprefix(_FORK_SERVER).rpartition(b"/")[0] + _MARK
    return b""


def _mapped_by(mark: bytes) -> set[int]:
    """Return the processes that have mapped a file."""
    found = set()
    for each in _pids():
        with contextlib.suppress(OSError):
            if b" " + mark in Path("/proc", each, "maps").read_bytes():
                found.add(int(each))
    return found


def tell_no_ports(folder: Path, node_id: str) -> None:
    """Write the ports where the raylet of a node looks for them."""
    for name in _PORTS:
        made = folder / f".{name}_{node_id}"
        made.write_text(_UNUSED)
        made.rename(folder / f"{name}_{node_id}")


def agent_command(folder: str, node_id: str) -> list[str]:
    """Return what a raylet runs for the dashboard's agent; the folder is that of Ray's session."""
    return [sys.executable, "-I", "-S", __file__, folder, node_id]


def _main(arguments: list[str]) -> None:
    if len(arguments) == 1:
        watch(int(arguments[0]))
    else:
        raylet = os.getppid()
        tell_no_ports(Path(arguments[0]), arguments[1])
        # A raylet that has ended already has left this process to the first one.
        if raylet != 1:
            watch(raylet)


if __name__ == "__main__":
    _main(sys.argv[1:])
