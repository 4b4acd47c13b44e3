# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Callbacks at a time in nanoseconds, on an event loop whose own timers count milliseconds.

A batch may wait for as little as 100 us for others to join it, and epoll's timeout, which asyncio
and uvloop use, is a number of milliseconds. Linux has timers that are descriptors: one of them,
always set to the earliest deadline, wakes the loop as any socket does. Where there are none the
loop's own timers have to do.
"""

import asyncio
import ctypes
import heapq
import logging
import os
import time
from collections.abc import Callable
from typing import Final

from deployments.pool_queue.alarm import Alarm, LoopClock

logger = logging.getLogger(__name__)

_TFD_CLOEXEC: Final = os.O_CLOEXEC
_TFD_NONBLOCK: Final = os.O_NONBLOCK
_TFD_TIMER_ABSTIME: Final = 1
_COUNT_BYTES: Final = 8
_NS: Final = 1_000_000_000
_NS_PER_MS: Final = 1_000_000
_NEVER_NS: Final = (1 << 63) - 1
# From how many on cancelled deadlines are swept out before their time.
_MANY: Final = 64


class _Spec(ctypes.Structure):
    """``struct itimerspec``."""

    _fields_ = [  # type: ignore[mutable-override]
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    ]


class _DescriptorAlarm:
    """A timerfd.

    Raises:
        OSError: The kernel gives none.
        AttributeError: The C library has none.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        fd = library.timerfd_create(time.CLOCK_MONOTONIC, _TFD_CLOEXEC | _TFD_NONBLOCK)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._fd: int = fd
        self._loop = loop
        self._ring = ring
        self._settime = library.timerfd_settime
        self._settime.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self._spec = _Spec()
        self._address = ctypes.addressof(self._spec)
        loop.add_reader(fd, self._on_readable)

    def set(self, at_ns: int) -> None:
        """Set it to another time."""
        # Zero would stop it.
        self._spec.value_s, self._spec.value_ns = divmod(max(at_ns, 1), _NS)
        self._settime(self._fd, _TFD_TIMER_ABSTIME, self._address, None)

    def cancel(self) -> None:
        """Never ring again."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _on_readable(self) -> None:
        try:
            os.read(self._fd, _COUNT_BYTES)
        except BlockingIOError:
            # It was set anew after it had rung.
            return
        self._ring()


class Deadline:
    """A callback that waits for its time; implements `deployments.reactor.transport.Cancellable`.

    Attributes:
        at_ns: The time.
    """

    __slots__ = ("_callback", "_timer", "at_ns")

    def __init__(self, timer: "PreciseTimer", at_ns: int, callback: Callable[[], object]) -> None:
        self._timer: PreciseTimer | None = timer
        self._callback = callback
        self.at_ns = at_ns

    @property
    def is_over(self) -> bool:
        """Whether it was called or cancelled."""
        return self._timer is None

    def cancel(self) -> None:
        """Have it not happen."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancelled()

    def call(self) -> None:
        """Call it, which has not happened yet."""
        self._timer = None
        self._callback()

    def __lt__(self, other: "Deadline") -> bool:
        return self.at_ns < other.at_ns


class PreciseTimer:
    """Any number of deadlines with one descriptor; made and used on a running event loop."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._deadlines: list[Deadline] = []
        self._cancelled_count = 0
        self._set_to_ns = _NEVER_NS
        self._alarm: _DescriptorAlarm | Alarm
        try:
            self._alarm = _DescriptorAlarm(loop, self._ring)
        except (AttributeError, OSError, NotImplementedError) as error:
            logger.warning("queue delays are whole milliseconds: %s", error)
            # Whole milliseconds: uvloop would round a part of one down, and ring again and again.
            self._alarm = Alarm(LoopClock(loop, step_ns=_NS_PER_MS), self._ring)

    def call_at_ns(self, at_ns: int, callback: Callable[[], object]) -> Deadline:
        """Run a callback on the loop at a time of ``CLOCK_MONOTONIC``, or soon if that is past."""
        deadline = Deadline(self, at_ns, callback)
        heapq.heappush(self._deadlines, deadline)
        if at_ns < self._set_to_ns:
            self._set_to_ns = at_ns
            self._alarm.set(at_ns)
        return deadline

    def close(self) -> None:
        """Call nothing any more."""
        self._alarm.cancel()
        self._deadlines.clear()

    def cancelled(self) -> None:
        """Note that a deadline was cancelled; `Deadline` calls it."""
        self._cancelled_count += 1
        deadlines = self._deadlines
        if _MANY < self._cancelled_count > len(deadlines) // 2:
            # In place: `_ring` may be at it.
            deadlines[:] = [each for each in deadlines if not each.is_over]
            heapq.heapify(deadlines)
            self._cancelled_count = 0

    def _ring(self) -> None:
        self._set_to_ns = _NEVER_NS
        now_ns = time.monotonic_ns()
        deadlines = self._deadlines
        while deadlines and (deadlines[0].is_over or deadlines[0].at_ns <= now_ns):
            deadline = heapq.heappop(deadlines)
            if deadline.is_over:
                self._cancelled_count = max(0, self._cancelled_count - 1)
                continue
            try:
                deadline.call()
            except Exception:
                logger.exception("a deadline raised")
        if deadlines and deadlines[0].at_ns < self._set_to_ns:
            self._set_to_ns = deadlines[0].at_ns
            self._alarm.set(self._set_to_ns)
