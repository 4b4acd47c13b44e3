# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that a fork server is asked for, and what they tell of themselves."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cluster.fork_server import client_file
from cluster.fork_server.requests import PYTHON_VARIABLE, SOCKET_VARIABLE
from cluster.fork_server.starting import ForkServer

# As the raylet's workers: the client asks for no other file.
NAME: Final = "default_worker.py"
TIMEOUT_S: Final = 100.0

# Tells what a process finds when it begins.
TELLING: Final = """
import gc, json, os, resource, signal, sys, threading

def limits():
    names = [each for each in dir(resource) if each.startswith("RLIMIT_")]
    return {each: resource.getrlimit(getattr(resource, each)) for each in names}

def umask():
    own = os.umask(0)
    os.umask(own)
    return own

print(json.dumps({
    "argv": sys.argv,
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "umask": umask(),
    "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    "limits": limits(),
    "cores": sorted(os.sched_getaffinity(0)),
    "descriptors": [os.readlink(f"/proc/self/fd/{each}") for each in range(3)],
    "inheritable": [os.get_inheritable(each) for each in range(3)],
    "name": __name__,
    "file": __file__,
    "main": sys.modules["__main__"].__dict__ is globals(),
    "path": sys.path[0],
    "executable": sys.executable,
    "child signal": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
    "garbage": gc.isenabled(),
    "thread": threading.current_thread() is threading.main_thread(),
    "group": os.getpgid(0) == os.getpid(),
    "parent": os.getppid(),
    "pid": os.getpid(),
}))
"""

# Runs a command in other surroundings.
IN_OTHERS: Final = """
import os, resource, sys
os.umask(0o027)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.nice(3)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True)
class Ended:
    """What a process has left.

    Attributes:
        output: What it has printed.
        errors: Likewise.
        status: Of the client, or of the process that it has become.
    """

    output: str
    errors: str
    status: int

    @property
    def told(self) -> dict[str, Any]:
        """What it has told, as JSON."""
        assert self.output, self.errors
        found: dict[str, Any] = json.loads(self.output)
        return found


@dataclass(frozen=True)
class Asking:
    """Asks a fork server for processes by one client.

    Attributes:
        forks: The fork server.
        client: The client's file.
        folder: Where the scripts are.
        environment: Of the client.
    """

    forks: ForkServer
    client: Path
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def script(self, content: str = TELLING) -> str:
        """Write a file that a worker may run; return its path."""
        folder = self.folder / f"{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        (folder / NAME).write_text(content)
        return str(folder / NAME)

    def begun(
        self,
        script: str,
        *arguments: str,
        variables: dict[str, str | None] | None = None,
        before: Sequence[str] = (),
        **given: Any,
    ) -> "subprocess.Popen[str]":
        """Start the client.

        Args:
            script: What the process runs.
            arguments: The script's.
            variables: Of the environment, other than the fork server's; None for one that is not.
            before: What runs the client.
            given: Further arguments of `subprocess.Popen`.
        """
        changed = self.environment | (variables or {})
        environment = {name: value for name, value in changed.items() if value is not None}
        return subprocess.Popen(
            [*before, str(self.client), script, *arguments],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **given,
        )

    def run(self, script: str, *arguments: str, **given: Any) -> Ended:
        """Ask for a process and wait for its end, which is the end of its output."""
        return ended(self.begun(script, *arguments, **given))

    def is_forked(self) -> bool:
        """Tell whether a process that is asked for is forked."""
        return bool(self.run(self.script()).told["parent"] == self.forks.pid)


def ended(process: "subprocess.Popen[str]") -> Ended:
    """Wait until nobody has a process's output any more."""
    with process:
        output, errors = process.communicate(timeout=TIMEOUT_S)
    return Ended(output, errors, process.returncode)


def clients(folder: Path) -> dict[str, Path]:
    """Return the client compiled and as a script; without a compiler the script alone."""
    compiled = folder / "compiled" / client_file.NAME
    client_file.compiled(compiled)
    script = folder / "script"
    script.write_text(
        f"#!{sys.executable} -IS\n{Path(client_file.__file__).with_name('client.py').read_text()}"
    )
    script.chmod(0o700)
    return {"compiled": compiled, "script": script}


@contextmanager
def asking(client: Path, folder: Path, *, preload: str = "", **variables: str) -> Iterator[Asking]:
    """Run a fork server while the block runs.

    Args:
        client: The client's file.
        folder: Where the scripts are.
        preload: Modules it imports besides.
        variables: Of its environment and the client's.
    """
    environment = {**os.environ, **variables}
    forks = ForkServer(environment, preload=preload)
    try:
        with forks.in_front_of_workers():
            its = {each: environment[each] for each in (SOCKET_VARIABLE, PYTHON_VARIABLE)}
        yield Asking(forks, client, folder, environment | its)
    finally:
        forks.end()
