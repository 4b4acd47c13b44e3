# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is reserved, before and after: processes, actors, descriptors, regions, memory."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import psutil

from tests.chaos.descriptors import held
from tests.chaos.plant import Plant
from tests.support.server import title_of

# A process may hold so many more of a kind than any of its sort did before: connections of its own,
# slabs that it keeps for the next tensor.
_MORE: Final = {"memfd": 8, "socket": 16, "shm": 2, "file": 8}
# How much a process that lived through the run may have grown.
_GROWTH_BYTES: Final = 48 << 20
_PENDING: Final = re.compile(r"^nv_inference_pending_request_count\{(.*)\} (\S+)$", re.MULTILINE)
# Starts with the first load that needs it, on each node, and stays.
_ONE_PER_NODE: Final = "NodeFilesActor"
_NODES: Final = 2
_LIVE_STATES: Final = ("ALIVE", "PENDING_CREATION", "RESTARTING", "DEPENDENCIES_UNREADY")


@dataclass(frozen=True)
class Holding:
    """What one process holds.

    Attributes:
        sort: What it is: the title without numbers.
        descriptors: Kind -> how many.
        bytes: Memory of its own.
    """

    sort: str
    descriptors: Mapping[str, int]
    bytes: int


@dataclass(frozen=True)
class Holdings:
    """What is reserved at a time at which no request is under way.

    Attributes:
        processes: Process id -> what it holds.
        actors: Sort of actors -> how many there are.
        regions: Names of registered regions.
        pending: Labels of a model -> requests that wait.
        cache_files: Files in the nodes' caches that are not whole yet.
    """

    processes: Mapping[int, Holding]
    actors: Mapping[str, int]
    regions: tuple[str, ...] = ()
    pending: Mapping[str, float] | None = None
    cache_files: tuple[str, ...] = ()


def take(plant: Plant) -> Holdings:
    """Look at everything."""
    processes = {}
    for process in plant.processes():
        title = title_of(process)
        if title.startswith(("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")):
            continue
        try:
            memory = process.memory_full_info().uss
            processes[process.pid] = Holding(sort_of(title), held(process.pid), memory)
        except (OSError, psutil.Error):
            continue
    return Holdings(
        processes,
        Counter(sort_of(name) for name in plant.actors(_LIVE_STATES)),
        tuple(plant.regions()),
        pending_of(plant.metrics()),
        tuple(plant.unfinished_files()),
    )


def sort_of(title: str) -> str:
    """Return a title without what tells processes of a sort apart."""
    return re.sub(r"[#.:@ ].*", "", title.removeprefix("ray::"))


def pending_of(page: str) -> dict[str, float]:
    """Return the requests that wait, from a page of metrics; rows of zero are left out."""
    return {labels: float(count) for labels, count in _PENDING.findall(page) if float(count)}


def compare(before: Holdings, after: Holdings) -> Iterator[str]:
    """Say what is reserved afterwards that was not before."""
    yield from _counts("actors", before.actors, after.actors)
    yield from _counts("processes", _sorts(before), _sorts(after))
    for name in set(after.regions) - set(before.regions):
        yield f"region '{name}' is still registered"
    for labels, count in (after.pending or {}).items():
        yield f"{count:g} requests still wait for {labels}"
    for name in set(after.cache_files) - set(before.cache_files):
        yield f"file '{name}' was left"
    most = _most(before)
    for pid, holding in after.processes.items():
        if (holding.sort, "socket") not in most:
            # Nothing of its sort was there to compare it with.
            continue
        for kind, more in _MORE.items():
            limit = most.get((holding.sort, kind), 0) + more
            if (count := holding.descriptors.get(kind, 0)) > limit:
                yield f"{holding.sort} {pid} holds {count} x {kind}, before it was {limit - more}"
        was = before.processes.get(pid)
        if was is not None and holding.bytes - was.bytes > _GROWTH_BYTES:
            yield f"{holding.sort} {pid} grew from {was.bytes >> 20} to {holding.bytes >> 20} MiB"


def growth(before: Holdings, after: Holdings) -> dict[str, int]:
    """Return sort -> bytes by which one of its processes grew that lived through, at most."""
    found: dict[str, int] = {}
    for pid, holding in after.processes.items():
        was = before.processes.get(pid)
        if was is not None:
            more = holding.bytes - was.bytes
            found[holding.sort] = max(found.get(holding.sort, more), more)
    return found


def _counts(what: str, before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        if name == _ONE_PER_NODE and before.get(name, 0) <= after.get(name, 0) <= _NODES:
            continue
        if before.get(name, 0) != after.get(name, 0):
            yield f"{after.get(name, 0)} {what} of {name}, before it was {before.get(name, 0)}"


def _sorts(holdings: Holdings) -> Counter[str]:
    return Counter(each.sort for each in holdings.processes.values())


def _most(holdings: Holdings) -> dict[tuple[str, str], int]:
    most: dict[tuple[str, str], int] = {}
    for holding in holdings.processes.values():
        for kind, count in holding.descriptors.items():
            key = holding.sort, kind
            most[key] = max(most.get(key, 0), count)
    return most
