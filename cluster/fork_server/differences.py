# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a fork cannot give a process: then it is started plainly.

A forked process has read nothing of its own: what the interpreter, the C library and the modules
that are imported have read from the environment is the fork server's.
"""

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# Variables that the interpreter, the loader, the C library or libraries read once.
_READ_ONCE: Final = (
    b"GLIBC_TUNABLES",
    b"GOTO_",
    b"GOMP_",
    b"KMP_",
    b"LANG",
    b"LC_",
    b"LD_",
    b"MALLOC_",
    b"MANTA_COMPILED",
    b"MKL_",
    b"NUMEXPR_",
    b"OMP_",
    b"OPENBLAS_",
    b"PYTHON",
    b"RAY_SERVE_",
)
# Whether output is buffered is set anew by Ray's workers.
_HARMLESS: Final = frozenset({b"PYTHONUNBUFFERED"})
LIMITS: Final = tuple(
    getattr(resource, each) for each in dir(resource) if each.startswith("RLIMIT_")
)


def read_once(environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the variables that have been read already when a process is forked."""
    return {
        name: value
        for name, value in environment.items()
        if value and name.startswith(_READ_ONCE) and name not in _HARMLESS
    }


def difference(own: Mapping[bytes, bytes], wanted: Mapping[bytes, bytes]) -> str:
    """Name the variables that are read once and are others; empty if there are none."""
    here, there = read_once(own), read_once(wanted)
    return " ".join(
        sorted(os.fsdecode(each) for each in here | there if here.get(each) != there.get(each))
    )


def place_of(pid: int) -> tuple[str, ...]:
    """Return what of a process's surroundings a forked one cannot choose: cgroup, namespaces."""
    proc = Path("/proc", str(pid))
    namespaces = (str(each.readlink()) for each in sorted((proc / "ns").iterdir()))
    return (proc / "cgroup").read_text(), *namespaces, str((proc / "root").readlink())


def limits_of(pid: int) -> dict[int, tuple[int, int]]:
    """Return the resource limits of a process, soft and hard."""
    return {each: resource.prlimit(pid, each) for each in LIMITS}


def are_within(limits: Mapping[int, tuple[int, int]], own: Mapping[int, tuple[int, int]]) -> bool:
    """Tell whether a process with these limits of its own may set those others."""
    return all(_at_most(hard, own[each][1]) for each, (_, hard) in limits.items())


def _at_most(wanted: int, hard: int) -> bool:
    return hard in {resource.RLIM_INFINITY, wanted} or 0 <= wanted <= hard
