# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ends what an embedded Ray leaves running when this process is killed.

The kernel ends Ray's raylet with the driver that started it, and the raylet's workers notice. Its
two agents notice as well, but then spend over a minute reporting the death to a GCS that is gone
too. A small process beside the driver watches the raylet and ends what outlives it. It imports
nothing but the standard library, because it runs as long as the server does.
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


def _watch(raylet: int) -> None:
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
    for pid, started in known:
        if _is_alive(pid, started):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _watch(int(sys.argv[1]))
