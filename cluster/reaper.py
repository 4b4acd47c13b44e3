# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ends what an embedded Ray leaves running when this process is killed.

The kernel ends Ray's raylet with the driver that started it, and the raylet's workers notice. Its
two agents notice as well, but then spend over a minute reporting the death to a GCS that is gone
too. A shell that waits for the end of this process, however it comes, ends them.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

# Everything the raylet started has its pid in the environment; that also guards against pids that
# were given to other processes meanwhile. Two seconds let workers end by themselves.
_SCRIPT: Final = """
cat > /dev/null
sleep 2
for found in $(grep -lsz "^RAY_RAYLET_PID=$1$" /proc/[0-9]*/environ); do
  pid=${found#/proc/}
  kill -9 "${pid%/environ}" 2> /dev/null
done
"""


def start_reaper() -> "subprocess.Popen[bytes] | None":
    """Start the shell; it lives until this process ends. None when there is no raylet to follow."""
    raylet = _child_named("raylet")
    if raylet is None:
        return None
    # Its input is a pipe of which only this process has the other end.
    return subprocess.Popen(  # noqa: S603 - the only argument is a pid
        ["/bin/sh", "-c", _SCRIPT, "manta-reaper", str(raylet)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _child_named(name: str) -> int | None:
    # Not /proc/<pid>/task/*/children: that list skips entries while other children end.
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" (")
        except OSError:
            continue
        comm, _, fields = rest.rpartition(") ")
        if comm == name and int(fields.split()[1]) == os.getpid():
            return int(pid)
    return None
