# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The fork server as `manta serve` sees it: forked off it or started beside it, watched, ended.

The first one is forked off a process that has imported Ray and done nothing with it: what it shares
with that is neither imported nor kept twice. Another one, and that of a process with threads, is
started for itself.
"""

import contextlib
import gc
import logging
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cluster.fork_server import client_file
from cluster.fork_server.requests import (
    MARK,
    OF_ALL_JOBS,
    OF_ONE_SERVER,
    PYTHON_VARIABLE,
    SOCKET_VARIABLE,
)

_log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_SOCKET: Final = "socket"
# Of a process that belongs to no job yet: such a worker takes what it is leased to.
_NO_JOB: Final = "f" * 8
# What Ray reads when it is imported and never again.
_READ_AT_IMPORT: Final = ("RAY_JOB_ID", "RAY_RAYLET_PID")
# ONNX Runtime's telemetry has a thread and an open database from its import on, neither of which a
# forked process may go on with.
_WITHOUT_TELEMETRY: Final = {"ORT_DISABLE_TELEMETRY": "1"}
# The title of a process has no more room than its command line.
_ROOM: Final = "." * 400
_END_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.01
# What removes old files from the temporary folder looks at days.
_FRESH_S: Final = 3600.0


@dataclass(frozen=True)
class JoinedNode:
    """A node of a Ray that is not this process's.

    Attributes:
        raylet: Its raylet's pid.
        folder: Of the socket, which stays: there may be the client that the raylet starts.
    """

    raylet: int
    folder: Path


class ForkServer:
    """A fork server beside this process.

    Args:
        environment: What it and the processes it forks run in.
        is_forked: Whether the first one is forked off this process, which has imported Ray
            `of_no_job` and nothing that runs.
        preload: Modules it imports besides, separated by commas.
        joined: The node that it is for; None for that of a Ray of this process.

    Raises:
        OSError: There is no client, or no process can be started.
    """

    def __init__(
        self,
        environment: MutableMapping[str, str],
        *,
        is_forked: bool = False,
        preload: str = "",
        joined: JoinedNode | None = None,
    ) -> None:
        self._environment = environment
        self._preload = preload
        self._kind = OF_ONE_SERVER if joined is None else OF_ALL_JOBS
        self._has_made_folder = joined is None
        self._folder = new_folder() if joined is None else joined.folder
        # Ray changes it once it runs; another fork server shall be like the first one.
        self._own = {**environment, **_WITHOUT_TELEMETRY, "SPT_NOENV": "1"}
        self._own.update(_read_at_import(os.getpid() if joined is None else joined.raylet))
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._lock = threading.Lock()
        self._is_ended = False
        self._freshened_s = time.monotonic()
        try:
            self._client = self._with_files()
            self._start(is_forked=is_forked and threading.active_count() == 1)
        except OSError:
            self.end()
            raise

    @property
    def pid(self) -> int | None:
        """Of the process that runs; None while there is none."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    @contextlib.contextmanager
    def in_front_of_workers(self) -> Iterator[None]:
        """Have a Ray that is started here start the client where it would start Python."""
        with in_front_of_workers(self._client, self._folder, self._environment):
            yield

    def look(self) -> bool:
        """Start another one if it was killed or its files were removed; tell whether it was so.

        One that has ended by itself, and has said why, would do so again; not where its files are
        gone, which it reads when it starts.
        """
        with self._lock:
            if self._is_ended or self._process is None:
                return False
            code = self._process.poll()
            was_killed = code is not None and code < 0
            try:
                if self._has_files() and not was_killed:
                    return False
                # Without the client the raylet would start no process any more.
                _have_folder(self._folder)
                self._client = self._with_files()
                _end(self._process)
                self._start()
            except OSError as error:
                _log.warning("no other fork server can be started: %s", error)
                return False
            return True

    def _with_files(self) -> Path:
        """Have the folder's files but the socket; return the client."""
        (self._folder / MARK).touch()
        return client_file.made(self._folder)

    def _has_files(self) -> bool:
        """Whether nobody has removed what clients need; they are kept from looking old."""
        files = [self._folder / _SOCKET, self._folder / MARK, self._client]
        if not all(each.exists() for each in files):
            return False
        if time.monotonic() - self._freshened_s > _FRESH_S:
            self._freshened_s = time.monotonic()
            for each in (*self._folder.iterdir(), self._folder):
                os.utime(each)
        return True

    def end(self) -> None:
        """End it; the processes that it has forked are the raylet's to end."""
        with self._lock:
            self._is_ended = True
            if self._process is not None:
                _end(self._process)
        if self._has_made_folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, *, is_forked: bool = False) -> None:
        path = self._folder / _SOCKET
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(_BACKLOG)
            if is_forked:
                self._process = _forked(listener, self._preload)
                return
            self._process = subprocess.Popen(  # noqa: S603 - a module of ours
                [
                    *(sys.executable, "-P", "-m", "cluster.fork_server"),
                    *(str(listener.fileno()), str(os.getpid())),
                    *(self._preload, self._kind, _ROOM),
                ],
                env=self._own,
                stdin=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                # Ctrl-C must not end it before the server has drained.
                start_new_session=True,
            )


class Forked:
    """A process that was forked, as `subprocess` shows one.

    Args:
        pid: The process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def terminate(self) -> None:
        """Ask it to end."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout: float) -> int:
        """Wait until it has ended and return its exit code.

        Raises:
            TimeoutExpired: It has not within so many seconds.
        """
        ends_s = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > ends_s:
                raise subprocess.TimeoutExpired("the fork server", timeout)
            time.sleep(_POLL_S)
        return code


def new_folder(beside: Path | None = None) -> Path:
    """Make a folder for a socket, in another one or among the system's temporary ones."""
    return Path(tempfile.mkdtemp(prefix="manta-fork-", dir=beside))


def _end(process: "subprocess.Popen[bytes] | Forked") -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_TIMEOUT_S)


def _have_folder(folder: Path) -> None:
    """Make a folder anew that somebody has removed.

    Raises:
        OSError: There is something else by its name, or it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise


@contextlib.contextmanager
def in_front_of_workers(
    client: Path, folder: Path, environment: MutableMapping[str, str]
) -> Iterator[None]:
    """Have a raylet that is started here start a client where it would start Python.

    Args:
        client: Its file.
        folder: Of the fork server's socket.
        environment: Which the raylet inherits.
    """
    services = _services()
    own = services.sys
    services.sys = _Interpreter(own, str(client))
    variables = {SOCKET_VARIABLE: str(folder / _SOCKET), PYTHON_VARIABLE: sys.executable}
    environment.update(variables)
    try:
        yield
    finally:
        services.sys = own
        for each in variables:
            environment.pop(each, None)


@contextlib.contextmanager
def of_no_job(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Import Ray in this block, so that a process forked off this one belongs to no job yet."""
    environment.update(_read_at_import(os.getpid()))
    try:
        yield
    finally:
        for each in _READ_AT_IMPORT:
            environment.pop(each, None)


def _read_at_import(raylet: int) -> dict[str, str]:
    """Return what Ray shall read: no job, and the raylet that workers end with.

    An embedded one ends with the process that has started it, and is not there yet.
    """
    return dict(zip(_READ_AT_IMPORT, (_NO_JOB, str(raylet)), strict=True))


def _forked(listener: socket.socket, preload: str) -> Forked:
    """Fork this process; the child serves and does not return."""
    parent = os.getpid()
    variables = {**_WITHOUT_TELEMETRY, **_read_at_import(parent)}
    # A collection would write into what both share.
    gc.collect()
    gc.freeze()
    pid = os.fork()
    if pid:
        return Forked(pid)
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.environ.update(variables)
        # Of the command, which is not what runs here; -P leaves it out.
        if not sys.flags.safe_path:
            del sys.path[0]
        from cluster.fork_server.serving import main  # noqa: PLC0415 - in the child alone

        main(str(listener.detach()), str(parent), preload)
    except SystemExit as error:
        os._exit(error.code if isinstance(error.code, int) else 1)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


class _Interpreter:
    """The module `sys` with another executable, for the one module that starts processes."""

    def __init__(self, own: Any, executable: str) -> None:
        self._own = own
        self.executable = executable

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


def _services() -> Any:
    from ray._private import services  # noqa: PLC0415 - what Ray reads then is set before

    return services
