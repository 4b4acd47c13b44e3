# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the processes of an idle server cost, beside bare actors in the same Ray.

CPU is time on a core by the kernel's account, so other work on the machine hardly moves it; memory
is what a process shares with no other.
"""

import os
import re
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import psutil
import ray

BARE_ASYNC: Final = "bare async actor"
BARE_SYNC: Final = "bare sync actor"
INSTANCE: Final = "instance "

_BARE_COUNT: Final = 3
_NS_PER_S: Final = 1e9
_KB_PER_MB: Final = 1000 / 1.024
# By what a command line holds; the first that fits.
_CLASSES: Final = (
    ("raylet/raylet", "raylet"),
    ("gcs_server", "GCS"),
    ("ray::ServeReplica", "ingress"),
    ("ray::ServeController", "ServeController"),
    ("ray::ModelController", "ModelController"),
    ("ray::DashboardAgent", "dashboard agent"),
    ("dashboard/agent.py", "dashboard agent"),
    ("ray::RuntimeEnvAgent", "runtime env agent"),
    ("runtime_env/agent", "runtime env agent"),
    ("dashboard/dashboard.py", "dashboard"),
    ("log_monitor.py", "log monitor"),
    ("monitor.py", "autoscaler monitor"),
    ("reaper.py", "reaper"),
    ("ray::IDLE", "idle worker"),
)
_INSTANCE: Final = re.compile(r"ray::(\S+/\d+)#\d+")


def _bare_kinds() -> dict[str, type]:
    # Made here, they travel by value: this module is not on the path of Ray's workers.
    class BareAsync:
        async def pid(self) -> int:
            return os.getpid()

    class BareSync:
        def pid(self) -> int:
            return os.getpid()

    return {BARE_ASYNC: BareAsync, BARE_SYNC: BareSync}


class Costs:
    """The processes of one server.

    Args:
        server_pid: Its first process; its Ray is embedded.

    Raises:
        StopIteration: The server has no Ray of its own.
    """

    def __init__(self, server_pid: int) -> None:
        self._server = psutil.Process(server_pid)
        raylet = next(each for each in self._server.children() if each.name() == "raylet")
        gcs = next(each for each in raylet.cmdline() if each.startswith("--gcs-address="))
        ray.init(address=gcs.partition("=")[2], log_to_driver=False, logging_level="ERROR")
        options: dict[str, Any] = {"num_cpus": 0}
        self._actors = {
            title: [ray.remote(kind).options(**options).remote() for _ in range(_BARE_COUNT)]
            for title, kind in _bare_kinds().items()
        }
        self._bare = {
            pid: title
            for title, actors in self._actors.items()
            for pid in ray.get([actor.pid.remote() for actor in actors])
        }

    def close(self) -> None:
        """End the bare actors."""
        self._actors.clear()
        ray.shutdown()

    def memory(self) -> dict[str, float]:
        """Return the private memory of a process of each class, in MB."""
        return {
            title: statistics.mean(private_mb(pid) for pid in pids)
            for title, pids in self._processes().items()
        }

    def cpu(self, window_s: float) -> dict[str, tuple[int, float]]:
        """Return how many processes each class has and what one takes, in percent of a core."""
        before = {title: [_cpu_ns(p) for p in pids] for title, pids in self._processes().items()}
        start_s = time.monotonic()
        processes = self._processes()
        time.sleep(window_s)
        elapsed_ns = (time.monotonic() - start_s) * _NS_PER_S
        used = {}
        for title, pids in processes.items():
            if len(before[title]) == len(pids):
                total_ns = sum(map(_cpu_ns, pids)) - sum(before[title])
                used[title] = (len(pids), 100 * total_ns / elapsed_ns / len(pids))
        return used

    def _processes(self) -> dict[str, list[int]]:
        found = defaultdict(list)
        for process in (self._server, *self._server.children(recursive=True)):
            title = self._bare.get(process.pid) or _title(process)
            found[title].append(process.pid)
        return dict(sorted(found.items()))


def _title(process: psutil.Process) -> str:
    line = " ".join(process.cmdline())
    match = _INSTANCE.match(line)
    if match:
        return f"{INSTANCE}{match[1]}"
    return next((title for text, title in _CLASSES if text in line), "manta serve")


def _cpu_ns(pid: int) -> int:
    """Return what a process's threads have computed; those that have ended count no more."""
    return sum(
        int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")
    )


def private_mb(pid: int) -> float:
    """Return the memory that a process shares with no other, in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / _KB_PER_MB
