# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ends what an embedded Ray leaves running when this process is killed.

The kernel ends Ray's raylet with the driver that started it, and the raylet's workers notice, if
they are not stopped. Its two agents notice as well, but then spend over a minute reporting the
death to a GCS that is gone too. A small process watches the raylet and ends what outlives it, of
its children and of those that a fork server has forked for it, whose folder it removes. Next to
nothing is imported here, as it runs as long as the server does: `pathlib`, `contextlib` and
`typing` would double its memory.

Where there is no dashboard that process is the raylet's child and stands in for the dashboard's
agent: a raylet must have one, and takes a worker only once it has told its ports, each of which may
be -1, not in use. Otherwise it runs beside the driver.
"""

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable

# How often the raylet's children are noted, and what they get to end by themselves.
_LOOK_S = 1.0
_GRACE_S = 2.0
_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
_UNUSED = "-1"
# Of the raylet's environment. The file beside that socket is mapped by the fork server, and so by
# all that it has forked.
_FORK_SERVER = b"MANTA_FORK_SERVER="
_MARK = b"/mark"
_IN_FOLDER = (b"mark", b"socket", b"python-client")
# Of `signal`, which is as large as all of this.
_SIGKILL = 9


def start_reaper() -> "subprocess.Popen[bytes] | None":
    """Start the watching process. None when this process has no raylet."""
    import subprocess  # noqa: PLC0415 - not in that process

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
    return {entry for entry in os.listdir("/proc") if entry.isdecimal()}  # noqa: PTH208


def _read(path: str) -> bytes:
    """Return what a file has; nothing where it cannot be read, as of a process that has ended."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - see above
            return file.read()
    except OSError:
        return b""


def _children_among(pids: "Iterable[str]", parent: int, name: str = "") -> list[tuple[int, str]]:
    found = []
    for each in pids:
        if stat := _read(f"/proc/{each}/stat"):
            pid, comm, fields = _parse(stat.decode(errors="replace"))
            if int(fields[1]) == parent and name in ("", comm):
                found.append((pid, fields[19]))
    return found


def _parse(stat: str) -> tuple[int, str, list[str]]:
    pid, _, rest = stat.partition(" (")
    comm, _, fields = rest.rpartition(") ")
    return int(pid), comm, fields.split()


def _is_alive(pid: int, started: str) -> bool:
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return False
    _, _, fields = _parse(stat.decode(errors="replace"))
    return fields[19] == started and fields[0] != "Z"


def watch(raylet: int) -> None:
    """Wait for the end of a raylet; then end what it has started and has not ended."""
    own = os.getpid()
    mark = _mark(raylet)
    known: set[tuple[int, str]] = set()
    # What was looked at once is not looked at again: reading the stat of every process of a busy
    # machine each second would cost a hundredth of a core.
    seen: set[str] = set()
    # It can be read once the raylet has ended.
    ended = os.pidfd_open(raylet)
    while True:
        pids = _pids()
        known.update(_children_among(pids - seen, raylet))
        seen = pids
        if select.select([ended], [], [], _LOOK_S)[0]:
            break
    os.close(ended)
    time.sleep(_GRACE_S)
    left = {pid for pid, started in known if _is_alive(pid, started)}
    if mark:
        left |= _mapped_by(mark)
    for pid in left - {own}:
        try:
            os.kill(pid, _SIGKILL)
        except ProcessLookupError:
            continue
    if mark:
        _remove(mark[: -len(_MARK)])


def _mark(raylet: int) -> bytes:
    """Return what marks those that are forked for a raylet; empty if it has no fork server."""
    for each in _read(f"/proc/{raylet}/environ").split(b"\0"):
        if each.startswith(_FORK_SERVER):
            return each.removeprefix(_FORK_SERVER).rpartition(b"/")[0] + _MARK
    return b""


def _mapped_by(mark: bytes) -> set[int]:
    """Return the processes that have mapped a file."""
    return {int(each) for each in _pids() if b" " + mark in _read(f"/proc/{each}/maps")}


def _remove(folder: bytes) -> None:
    """Remove a fork server's folder, unless there is more in it."""
    for name in _IN_FOLDER:
        try:
            os.unlink(folder + b"/" + name)  # noqa: PTH108 - see above
        except OSError:
            continue
    try:
        os.rmdir(folder)  # noqa: PTH106
    except OSError:
        return


def tell_no_ports(folder: str, node_id: str) -> None:
    """Write the ports where the raylet of a node looks for them."""
    for name in _PORTS:
        made = f"{folder}/.{name}_{node_id}"
        with open(made, "w") as file:  # noqa: PTH123 - see above
            file.write(_UNUSED)
        os.rename(made, f"{folder}/{name}_{node_id}")  # noqa: PTH104


def agent_command(folder: str, node_id: str) -> list[str]:
    """Return what a raylet runs for the dashboard's agent; the folder is that of Ray's session."""
    return [sys.executable, "-I", "-S", __file__, folder, node_id]


def _main(arguments: list[str]) -> None:
    if len(arguments) == 1:
        watch(int(arguments[0]))
    else:
        raylet = os.getppid()
        tell_no_ports(arguments[0], arguments[1])
        # A raylet that has ended already has left this process to the first one.
        if raylet != 1:
            watch(raylet)


if __name__ == "__main__":
    _main(sys.argv[1:])
