# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the process of an instance leaves behind that routers of its node read when it has crashed.

A process that is ended by a signal of its own making can tell nobody. So it leaves two things
before: a *page* of memory, which routers map when their lane opens and which outlives the process,
says which requests it executes; and in its log Python's faulthandler writes the signal and the
stack while the signal is handled, which is before its lanes close.

A process that was killed from outside, or has exited, writes no such stack. So what is said here
is said of crashes alone. Routers of other nodes see neither page nor log.
"""

import mmap
import os
import re
import stat
from dataclasses import dataclass
from typing import Final

from deployments.lane.messages import Setup
from deployments.slabs.memfds import map_memfd

PAGE_BYTES: Final = 64 << 10
WORD_BYTES: Final = 8
ID_BITS: Final = 32

_LOG_TAIL_BYTES: Final = 64 << 10
_SIGNALS: Final = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Floating point exception": "SIGFPE",
    "Floating-point exception": "SIGFPE",
    "Illegal instruction": "SIGILL",
}
# Python: Modules/faulthandler.c faulthandler_fatal_error, Python/traceback.c dump_frame
_FATAL: Final = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
_FRAME: Final = re.compile(r'^  File "(?:[^"\n]*/)?([^"/\n]+)", line (\d+) in', re.MULTILINE)
_MODEL_FILE: Final = "model.py"


@dataclass(frozen=True)
class CrashPlace:
    """Where an instance leaves what routers read.

    Attributes:
        fd: Descriptor of the page in its process; -1 when there is none.
        log: Path of the file that faulthandler writes to; empty when it is no file.
    """

    fd: int = -1
    log: str = ""


NO_PLACE: Final = CrashPlace()


@dataclass(frozen=True)
class Crash:
    """How a process was ended by a signal of its own making.

    Attributes:
        signal: Its name.
        place: File and line of the model that ran, ``model.py:12``; empty when none did.
        executing: Numbers, on the lane it was asked over, of the requests that were executed.
    """

    signal: str
    place: str
    executing: frozenset[int]


class CrashReport:
    """What a router keeps of an instance's process to read when it has ended.

    Args:
        page: The page, mapped.
        lane_number: The number of the router's lane there.
        log: Path of the instance's log.
    """

    def __init__(self, page: mmap.mmap, lane_number: int, log: str) -> None:
        self._page = page
        self._lane_number = lane_number
        self._log = log

    def read(self) -> Crash | None:
        """Return how the process crashed; None when it did not, or executed nothing of the lane."""
        executing = self._executing()
        if not executing:
            return None
        told = signal_and_place(_tail_of(self._log))
        return None if told is None else Crash(told[0], told[1], executing)

    def close(self) -> None:
        """Let go of the page."""
        self._page.close()

    def _executing(self) -> frozenset[int]:
        with memoryview(self._page) as page, page.cast("Q") as words:
            count = min(words[0], PAGE_BYTES // WORD_BYTES - 1)
            with words[1 : 1 + count] as noted:
                marks = noted.tolist()
        lane = self._lane_number
        return frozenset(mark & ((1 << ID_BITS) - 1) for mark in marks if mark >> ID_BITS == lane)


def open_report(pid: int, setup: Setup) -> CrashReport | None:
    """Map the page of an instance's process; None when that cannot be.

    Args:
        pid: The process; 0 when it is not to be looked into from here.
        setup: What it has said of itself.
    """
    if not pid or setup.page_fd < 0 or not setup.crash_log:
        return None
    try:
        page = map_memfd(pid, setup.page_fd, PAGE_BYTES)
    except (OSError, ValueError):
        return None
    return CrashReport(page, setup.lane_number, setup.crash_log)


def signal_and_place(log: str) -> tuple[str, str] | None:
    """Return what faulthandler has written last: the signal's name, and where the model was.

    Args:
        log: The end of a log.

    Returns:
        Name and ``file:line``, which is empty when no model's code ran; None without a stack.
    """
    fatal = list(_FATAL.finditer(log))
    signal = _SIGNALS.get(fatal[-1][1]) if fatal else None
    if signal is None:
        return None
    for file, line in _FRAME.findall(log, fatal[-1].end()):
        if file == _MODEL_FILE:
            return signal, f"{file}:{line}"
    return signal, ""


def _tail_of(path: str) -> str:
    try:
        # It may be a pipe by now, which must not hold up the loop.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return ""
        start = max(0, status.st_size - _LOG_TAIL_BYTES)
        return os.pread(fd, _LOG_TAIL_BYTES, start).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(fd)
