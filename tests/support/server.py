# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A real server in a process of its own, as a user starts it."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import psutil

from tests.support.start_times import StartClock

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 300.0
# What a state may take to come on a machine that does other things too.
PATIENCE_S = 240.0
_Found = TypeVar("_Found")


def until(
    find: Callable[[], _Found], what: str = "it never came to hold", within_s: float = PATIENCE_S
) -> _Found:
    """Wait until something is found, or holds, and return it."""
    deadline_s = time.monotonic() + within_s
    while not (found := find()):
        assert time.monotonic() < deadline_s, f"within {within_s:g} s: {what}"
        time.sleep(0.05)
    return found


def title_of(process: psutil.Process) -> str:
    """Return a process's title; empty for one that has ended."""
    try:
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return "" if is_dead else " ".join(process.cmdline()).strip()
    except psutil.Error:
        return ""


def titled(processes: Iterable[psutil.Process], title: str) -> list[psutil.Process]:
    """Return those processes whose title starts with ``title``."""
    return [each for each in processes if title_of(each).startswith(title)]


class RunningServer:
    """``manta serve`` with ephemeral ports on loopback.

    Args:
        repository: Model repository.
        flags: Further flags.
        launch: The command, and the flag that names the repository.
        start_timeout_s: How long it may take until it is ready.
        manta: What runs Manta.
        cwd: Where.
        environment: The process's; None for that of the tests.

    Attributes:
        http: host:port of the HTTP endpoint; grpc and metrics likewise.
        repository: The model repository.
        pid: Process id of the driver.
        lines: What it has printed.
        started: All servers of this process that still are in use.
    """

    started: ClassVar[weakref.WeakSet["RunningServer"]] = weakref.WeakSet()

    def __init__(
        self,
        repository: Path,
        *flags: str,
        launch: tuple[str, str] = ("serve", "model-repository"),
        start_timeout_s: float = START_TIMEOUT_S,
        manta: tuple[str, ...] = (sys.executable, "-m", "cluster"),
        cwd: Path = ROOT,
        environment: dict[str, str] | None = None,
    ) -> None:
        command = [
            *manta,
            launch[0],
            f"--{launch[1]}={repository}",
            "--http-address=127.0.0.1",
            "--grpc-address=127.0.0.1",
            "--http-port=0",
            "--grpc-port=0",
            "--metrics-port=0",
            *flags,
        ]
        self._log_files = [
            Path(each.partition("=")[2]) for each in flags if each.startswith("--log-file=")
        ]
        self._clock = StartClock()
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=cwd,
            env=environment,
        )
        self.started.add(self)
        self.repository = repository
        self.pid = self.process.pid
        self.lines: list[str] = []
        ready: queue.Queue[dict[str, str]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(ready,), daemon=True)
        self._reader.start()
        try:
            addresses = ready.get(timeout=start_timeout_s)
        except queue.Empty:
            self.process.kill()
            self.wait(30)
            raise AssertionError("server did not start:\n" + "".join(self.lines)) from None
        if not addresses:
            self.wait(30)
            raise AssertionError("server ended at start:\n" + "".join(self.lines))
        self.http = addresses["http"]
        self.grpc = addresses["grpc"]
        self.metrics = addresses["metrics"]

    def _read(self, ready: "queue.Queue[dict[str, str]]") -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self._clock.saw(line)
            if line.startswith("MANTA_READY "):
                ready.put(json.loads(line.removeprefix("MANTA_READY ")))
        ready.put({})

    def printed(self) -> list[str]:
        """Return what it has printed, and what is in its log file."""
        logs = [each.read_text(errors="replace") for each in self._log_files if each.exists()]
        return [*self.lines, *"".join(logs).splitlines(keepends=True)]

    def post(self, path: str, body: dict[str, object], timeout_s: float) -> Any:
        """Send JSON to the HTTP port; return the answer, which is read and closed by the caller.

        Raises:
            urllib.error.HTTPError: It is refused.
        """
        request = urllib.request.Request(f"http://{self.http}{path}", json.dumps(body).encode())
        return urllib.request.urlopen(request, timeout=timeout_s)

    def processes(self, title: str) -> list[psutil.Process]:
        """Return the server's processes whose title starts with ``title``."""
        return titled(self.tree(), title)

    def tree(self) -> list[psutil.Process]:
        """Return all processes of the server."""
        return psutil.Process(self.pid).children(recursive=True)

    def kill(self, process: psutil.Process) -> None:
        """SIGKILL a process and wait until it is gone."""
        os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs([process], timeout=10)

    def terminate(self, timeout_s: float = 60.0) -> int:
        """SIGTERM the driver and return its exit code."""
        if self.process.poll() is None:
            self._clock.told_to_end()
            self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def wait(self, timeout_s: float) -> int:
        """Wait for the driver's end and return its exit code."""
        code = self.process.wait(timeout_s)
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._clock.ended()
        return code
