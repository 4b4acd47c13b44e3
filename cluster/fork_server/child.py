# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A forked process that becomes the one that was asked for.

What a fork copies and a new interpreter would not have is put back: descriptors, environment,
signals, limits, generators of random numbers, and ``__main__``.
"""

import atexit
import contextlib
import gc
import multiprocessing.process
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Final

from cluster.fork_server.requests import (
    PYTHON_VARIABLE,
    SOCKET_VARIABLE,
    Request,
    note_fork_server,
    words_of,
)

_OOM_SCORE: Final = "RAY_worker_oom_score_adjustment"
_AUTHKEY_BYTES: Final = 32


@dataclass(frozen=True)
class Surroundings:
    """What the client has of the system, which its process gets.

    Attributes:
        limits: Resource limits, soft and hard.
        niceness: Of the scheduler.
        cores: On which it may run.
        umask: Of the files it makes.
    """

    limits: Mapping[int, tuple[int, int]]
    niceness: int
    cores: frozenset[int]
    umask: int


def surroundings_of(pid: int, limits: Mapping[int, tuple[int, int]]) -> Surroundings:
    """Return those of a process.

    Raises:
        OSError: It has ended.
    """
    status = Path(f"/proc/{pid}/status").read_text()
    umask = "".join(status.partition("Umask:")[2].split(None, 1)[:1])
    if not umask:
        raise ProcessLookupError(f"process {pid} has ended")
    return Surroundings(
        limits,
        os.getpriority(os.PRIO_PROCESS, pid),
        frozenset(os.sched_getaffinity(pid)),
        int(umask, 8),
    )


def become(request: Request, descriptors: list[int], given: Surroundings) -> None:
    """Give this process what was asked for."""
    for number, each in enumerate(descriptors):
        os.dup2(each, number, inheritable=True)
    for each in descriptors:
        if each > 2:  # noqa: PLR2004 - the standard ones
            os.close(each)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # A group of its own, by which the raylet ends it.
    os.setpgid(0, 0)
    os.chdir(request.folder)
    _take(given)
    _take_environment(request)
    _draw_anew()
    sys.argv = words_of(request.arguments)
    sys.orig_argv = [sys.executable, *(os.fsdecode(each) for each in request.arguments[1:])]
    # The fork server runs a module with -P, which puts nothing there.
    if not os.environ.get("PYTHONSAFEPATH"):
        sys.path.insert(0, str(Path(sys.argv[0]).parent))
    gc.enable()


def _take(given: Surroundings) -> None:
    for each, limits in given.limits.items():
        if resource.getrlimit(each) != limits:
            resource.setrlimit(each, limits)
    if os.getpriority(os.PRIO_PROCESS, 0) != given.niceness:
        os.setpriority(os.PRIO_PROCESS, 0, given.niceness)
    if os.sched_getaffinity(0) != given.cores:
        os.sched_setaffinity(0, given.cores)
    os.umask(given.umask)


def _take_environment(request: Request) -> None:
    """Have the request's environment, and what has read the fork server's already read it again."""
    environment = dict(request.environment)
    note_fork_server(os.fsdecode(environment.get(os.fsencode(SOCKET_VARIABLE), b"")))
    for each in (SOCKET_VARIABLE, PYTHON_VARIABLE):
        environment.pop(os.fsencode(each), None)
    # What is equal stays: setting it anew would write into pages that all forked processes share.
    for name in os.environb.keys() - environment.keys():
        del os.environb[name]
    for name, value in environment.items():
        if os.environb.get(name) != value:
            os.environb[name] = value
    time.tzset()
    raylet: Any = sys.modules.get("ray._raylet")
    if raylet is not None:
        raylet.Config.initialize("")
    # The raylet writes it for the process it has started, which was the client.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(os.environ.get(_OOM_SCORE, "1000"))


def _draw_anew() -> None:
    """Seed what a fork copies; `random` and OpenSSL do so themselves.

    Each process of PyTorch's draws the first seed for CPUs; for devices it is the same in all.
    """
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.seed()
    process: Any = multiprocessing.process.current_process()
    process.authkey = os.urandom(_AUTHKEY_BYTES)


def run_as_main(script: str, code: CodeType) -> None:
    """Run a file as an interpreter does, and end the process with its status.

    Args:
        script: The file.
        code: What it was compiled to.
    """
    main = sys.modules["__main__"].__dict__
    builtins = main["__builtins__"]
    main.clear()
    names = dict.fromkeys(("__doc__", "__package__", "__spec__", "__loader__"))
    main.update(names, __builtins__=builtins, __name__="__main__", __file__=script)
    status = 0
    try:
        exec(code, main)  # noqa: S102 - Ray's worker, which the raylet asked for
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    _end(status)


def _end(status: int) -> None:
    interpreter: Any = threading
    interpreter._shutdown()  # noqa: SLF001 - what an interpreter does when it ends
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status & 0xFF)
