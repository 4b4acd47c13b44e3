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
import signal
import subprocess
import sys
import time
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
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, comm, fields = _parse(stat.read_text())
            if int(fields[1]) == parent and name in ("", comm):
                found.append((pid, fields[19]))
    return found


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
    _, _, fields = _parse(Path(f"/proc/{raylet}/stat").read_text())
    while _is_alive(raylet, fields[19]):
        known = {child for child in known if _is_alive(*child)} | set(_children(raylet))
        time.sleep(_LOOK_S)
    time.sleep(_GRACE_S)
    for pid, started in known:
        if _is_alive(pid, started):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _watch(int(sys.argv[1]))
