# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Callbacks at a time in nanoseconds, on an event loop whose own timers count milliseconds.

A batch may wait for as little as 100 us for others to join it, and epoll's timeout, which asyncio
and uvloop use, is a number of milliseconds. Linux has timers that are descriptors: one of them,
always set to the earliest deadline, wakes the loop as any socket does.
"""

import asyncio
import bisect
import ctypes
import logging
import os
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

_TFD_CLOEXEC: Final = os.O_CLOEXEC
_TFD_NONBLOCK: Final = os.O_NONBLOCK
_TFD_TIMER_ABSTIME: Final = 1
_COUNT_BYTES: Final = 8
_NS: Final = 1_000_000_000
_NEVER_NS: Final = (1 << 63) - 1


class _Spec(ctypes.Structure):
    """``struct itimerspec``."""

    _fields_ = [  # type: ignore[mutable-override]
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    ]


class Deadline:
    """A callback that waits for its time; implements `deployments.reactor.transport.Cancellable`.

    Attributes:
        at_ns: The time.
        callback: What is called then.
    """

    __slots__ = ("_waiting", "at_ns", "callback")

    def __init__(
        self, waiting: "list[Deadline]", at_ns: int, callback: Callable[[], object]
    ) -> None:
        self._waiting = waiting
        self.at_ns = at_ns
        self.callback = callback

    def cancel(self) -> None:
        """Have it not happen."""
        if self in self._waiting:
            self._waiting.remove(self)

    def __lt__(self, other: "Deadline") -> bool:
        return self.at_ns < other.at_ns


class PreciseTimer:
    """Any number of deadlines with one descriptor; made and used on a running event loop.

    Raises:
        OSError: The kernel gives none.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        fd = library.timerfd_create(time.CLOCK_MONOTONIC, _TFD_CLOEXEC | _TFD_NONBLOCK)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._fd: int = fd
        self._settime = library.timerfd_settime
        self._settime.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self._spec = _Spec()
        self._address = ctypes.addressof(self._spec)
        # The earliest first. They are few: some for each queue of this process.
        self._deadlines: list[Deadline] = []
        self._set_to_ns = _NEVER_NS
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._ring)

    def call_at_ns(self, at_ns: int, callback: Callable[[], object]) -> Deadline:
        """Run a callback on the loop at a time of ``CLOCK_MONOTONIC``, or soon if that is past."""
        deadline = Deadline(self._deadlines, at_ns, callback)
        bisect.insort(self._deadlines, deadline)
        if at_ns < self._set_to_ns:
            self._set(at_ns)
        return deadline

    def close(self) -> None:
        """Call nothing any more."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
        self._deadlines.clear()

    def _set(self, at_ns: int) -> None:
        self._set_to_ns = at_ns
        # Zero would stop it.
        self._spec.value_s, self._spec.value_ns = divmod(max(at_ns, 1), _NS)
        self._settime(self._fd, _TFD_TIMER_ABSTIME, self._address, None)

    def _ring(self) -> None:
        try:
            os.read(self._fd, _COUNT_BYTES)
        except BlockingIOError:
            # It was set anew after it had rung.
            return
        self._set_to_ns = _NEVER_NS
        now_ns = time.monotonic_ns()
        deadlines = self._deadlines
        while deadlines and deadlines[0].at_ns <= now_ns:
            deadline = deadlines.pop(0)
            try:
                deadline.callback()
            except Exception:
                logger.exception("a deadline raised")
        if deadlines and deadlines[0].at_ns < self._set_to_ns:
            self._set(deadlines[0].at_ns)
