# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The environment that the server was given, which Ray changes in its workers.

Ray's raylet has it as it was when the server, or Ray on this node, was started.
"""

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

_RAYLET: Final = "RAY_RAYLET_PID"
THREADS: Final = "OMP_NUM_THREADS"
# A debugger that nobody is there for; Ray's waits for a connection.
_DEBUGGER: Final = "PYTHONBREAKPOINT"


def given_environment(
    runtime_env: Mapping[str, Any], proc: str = "/proc"
) -> Mapping[str, str] | None:
    """Return the variables that a model's process was given; None where nothing tells.

    Args:
        runtime_env: What the model asks for, in Ray's terms.
        proc: Where procfs is.
    """
    try:
        entries = Path(proc, os.environ[_RAYLET], "environ").read_bytes().split(b"\0")
    except (KeyError, OSError):
        return None
    pairs = (each.partition(b"=") for each in entries if each)
    found = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    return found | dict(runtime_env.get("env_vars") or {})


def set_thread_count(
    count: int, given: Mapping[str, str] | None, environment: MutableMapping[str, str] = os.environ
) -> None:
    """Have OpenMP use that many threads when a backend first loads it; what was given holds.

    Set here because an environment set through Ray costs a fresh process per instance.
    """
    environment[THREADS] = (given or {}).get(THREADS) or str(max(1, count))


def take_back(
    given: Mapping[str, str] | None,
    environment: MutableMapping[str, str] = os.environ,
    *,
    has_devices: bool = False,
) -> None:
    """Undo what Ray has done to the variables.

    Args:
        given: What they were; None changes nothing.
        environment: What they are.
        has_devices: Whether accelerators are chosen for the process. For one without, Ray empties
            the variables that show them.
    """
    if given is None:
        return
    names = [_DEBUGGER]
    if not has_devices:
        names += [
            name for name, value in environment.items() if not value and given.get(name) != ""
        ]
    for name in names:
        if name in given:
            environment[name] = given[name]
        else:
            environment.pop(name, None)
