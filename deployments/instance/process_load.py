# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance does, how much it is used, and the memory its process has for itself."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from backends.api.evolving import evolves
from deployments.supervision.usable_memory import usable_memory_bytes

_STATUS: Final = Path("/proc/self/status")
# Not what is mapped from files, which processes share and the kernel can drop.
_PRIVATE: Final = frozenset(("RssAnon", "RssShmem"))


class Activity(NamedTuple):
    """What an executor does at an instant.

    Attributes:
        pending_count: Requests that wait.
        executing_for_ns: How long the present execution has lasted; 0 while there is none.
        quiet_for_ns: How long the model has shown nothing of what it works on: since the execution
            began, for a decoupled model since the last execution began or the last response was
            sent; 0 while it has nothing to do, or waits until a caller takes a response.
        decision_count: How often the execution thread has asked the scheduler.
        execution_count: Executions that have begun.
    """

    pending_count: int
    executing_for_ns: int
    quiet_for_ns: int
    decision_count: int
    execution_count: int


@dataclass(frozen=True, slots=True)
class ProcessLoad:
    """What an instance says of its use when asked.

    Attributes:
        execution_count: Executions that have begun since the process started.
        pending_count: Requests that wait.
        private_bytes: Resident memory of the process that is not mapped from files.
        usable_bytes: Memory that processes may use on its node, as its cgroup has it.
    """

    execution_count: int = 0
    pending_count: int = 0
    private_bytes: int = 0
    usable_bytes: int = 0


evolves(ProcessLoad)

UNUSED: Final = ProcessLoad()

_usable_bytes = cache(usable_memory_bytes)


def load_of(activity: Activity) -> ProcessLoad:
    """Return the load of this process, whose executor does ``activity``."""
    return ProcessLoad(
        activity.execution_count, activity.pending_count, private_bytes(), _usable_bytes()
    )


def private_bytes(status: Path = _STATUS) -> int:
    """Return the resident memory of this process that is not mapped from files.

    It is 0 where the kernel does not tell.

    Args:
        status: The process's page in ``/proc``.
    """
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return 0
    rows = (line.partition(":") for line in lines)
    return sum(int(text.split()[0]) * 1024 for name, _, text in rows if name in _PRIVATE)
