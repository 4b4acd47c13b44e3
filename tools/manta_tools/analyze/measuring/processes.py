# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What processes of a server take: memory and CPU time, read from /proc."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

_KB: Final = 1024
_NS_PER_S: Final = 10**9
_PARENT, _UTIME, _STIME = 1, 11, 12
# Ray titles an actor's process "ray::NAME.CALL", where NAME is that of the instance.
_INSTANCE: Final = re.compile(r"(?:ray::|manta: )(?P<model>.+)/(?P<version>\d+)#\d+")


class Processes:
    """The processes that descend from one.

    Args:
        root: Process id of the first.
        proc: Where the kernel tells of processes.
    """

    def __init__(self, root: int, proc: Path = Path("/proc")) -> None:
        self._root, self._proc = root, proc

    def cpu_ns(self) -> Mapping[int, int]:
        """Return the CPU time of all that live, by process id."""
        stats = self._stats()
        ticks_s = os.sysconf("SC_CLK_TCK")
        return {pid: stats[pid][1] * _NS_PER_S // ticks_s for pid in _tree(self._root, stats)}

    def pids(self, models: Iterable[str]) -> frozenset[int]:
        """Return the processes of the instances of models."""
        wanted = frozenset(models)
        tree = _tree(self._root, self._stats())
        return frozenset(pid for pid in tree if self._model(pid) in wanted)

    def memory_bytes(self, pids: Iterable[int]) -> int:
        """Return the proportional memory of processes: what they share counts once."""
        return sum(self._memory_bytes(pid) for pid in pids)

    def available_bytes(self) -> int:
        """Return how much memory the machine has left."""
        return _kilobytes(self._read("meminfo"), "MemAvailable")

    def _stats(self) -> Mapping[int, tuple[int, int]]:
        """Return parent and ticks of each process of the machine."""
        return {pid: stat for pid in self._all() if (stat := self._stat(pid)) is not None}

    def _all(self) -> Iterator[int]:
        return (int(each.name) for each in self._proc.iterdir() if each.name.isdecimal())

    def _stat(self, pid: int) -> tuple[int, int] | None:
        # The second field is the program's name in brackets, which may hold anything.
        fields = self._read(f"{pid}/stat").rpartition(") ")[2].split()
        if not fields:
            return None
        return int(fields[_PARENT]), int(fields[_UTIME]) + int(fields[_STIME])

    def _model(self, pid: int) -> str:
        command = self._read(f"{pid}/cmdline").replace("\0", " ")
        found = _INSTANCE.match(command)
        return found["model"] if found else ""

    def _memory_bytes(self, pid: int) -> int:
        return _kilobytes(self._read(f"{pid}/smaps_rollup"), "Pss")

    def _read(self, path: str) -> str:
        # A process may end while it is looked at.
        with contextlib.suppress(OSError):
            return (self._proc / path).read_text(errors="replace")
        return ""


def spent_ns(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Return the CPU time between two looks; that of processes which ended meanwhile is lost."""
    return sum(max(0, time_ns - before.get(pid, 0)) for pid, time_ns in after.items())


def _kilobytes(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * _KB
    return 0


def _tree(root: int, stats: Mapping[int, tuple[int, int]]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in stats.items():
        children.setdefault(parent, []).append(pid)
    found = [root] if root in stats else []
    for pid in found:
        found += children.get(pid, [])
    return found
