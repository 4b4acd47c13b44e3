# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An event loop that any thread can turn, one at a time.

asyncio's loops belong to one thread and cost a trip through the loop per callback. An instance's
execution thread wants to read a request, execute it and write the answer by itself, and to leave
the sockets to another thread while the model computes. So a `Reactor` only knows one step, `turn`,
and whoever holds the right to take it (`deployments.instance.lead`) takes it.

Wake-ups are never lost: a thread that posts a callback appends it and then looks whether somebody
sleeps; a thread that is about to sleep says so and then looks whether something was posted.
"""

import concurrent.futures
import heapq
import itertools
import logging
import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from mypy_extensions import mypyc_attr

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

_NS_PER_S: Final = 1_000_000_000
# epoll counts milliseconds and rounds up. Shorter sleeps are select's, which counts microseconds.
_COARSE_S: Final = 0.02
_SELECTABLE_FDS: Final = 1024
# Callbacks posted by callbacks that still run in the same turn.
_EXTRA_CALLBACKS: Final = 256


class Timer:
    """A callback that waits for its time."""

    __slots__ = ("args", "callback", "is_cancelled")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.is_cancelled = False

    def cancel(self) -> None:
        """Have it not happen; does nothing once it has."""
        self.is_cancelled = True
        # The heap keeps the entry until its time, which must not keep alive what it was about.
        self.callback = None
        self.args = ()


@mypyc_attr(allow_interpreted_subclasses=True)
class Reactor:
    """Sockets, timers and posted callbacks; implements `deployments.reactor.transport.LaneLoop`.

    Everything but `call_soon_threadsafe`, `submit`, `interrupt` and `watch` is for the thread that
    turns it.

    Args:
        clock_ns: Monotonic clock.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._epoll = select.epoll()
        self._poll = self._epoll.poll
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._ready: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._timers: list[tuple[int, int, Timer]] = []
        self._timer_numbers = itertools.count()
        self._is_sleeping = False
        self._is_woken = False
        self._returns_soon = False
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.watch(self._wake_fd, select.EPOLLIN, self._on_wake)

    def close(self) -> None:
        """Free the descriptors; nobody may turn it any more."""
        self._handlers.clear()
        self._epoll.close()
        os.close(self._wake_fd)

    # Sockets

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        """Call ``handler`` with the events that a descriptor has, as long as it has them."""
        self._handlers[fd] = handler
        self._epoll.register(fd, events)

    def change(self, fd: int, events: int) -> None:
        """Watch a descriptor for other events; errors and hang-ups are always reported."""
        self._epoll.modify(fd, events)

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor, which must still be open."""
        del self._handlers[fd]
        self._epoll.unregister(fd)

    # Callbacks

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback later in this turn."""
        self._ready.append((callback, args))

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback on the turning thread; takes no lock, so it works wherever Python does."""
        self._ready.append((callback, args))
        if self._is_sleeping and not self._is_woken:
            self._is_woken = True
            os.eventfd_write(self._wake_fd, 1)

    def call_later(self, delay_s: float, callback: Callable[..., object], /, *args: Any) -> Timer:
        """Run a callback after a delay."""
        timer = Timer(callback, args)
        due_ns = self._clock_ns() + int(delay_s * _NS_PER_S)
        heapq.heappush(self._timers, (due_ns, next(self._timer_numbers), timer))
        return timer

    def submit(
        self, function: Callable[..., Result], *args: Any
    ) -> "concurrent.futures.Future[Result]":
        """Run a function on the turning thread, from any other one, and return its future."""
        future: concurrent.futures.Future[Result] = concurrent.futures.Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)

        self.call_soon_threadsafe(run)
        return future

    # Turning

    def return_soon(self) -> None:
        """Have the present turn end without waiting: its thread has something else to do."""
        self._returns_soon = True

    def interrupt(self) -> None:
        """Have the present turn end, or the next one if it begins just now; on any thread."""
        # Posted, because a turn that begins forgets what was asked of the one before.
        self.call_soon_threadsafe(self.return_soon)

    def turn(self, timeout_s: float | None = None) -> None:
        """Run what was posted, then wait for events, posts or timers, and handle them.

        Args:
            timeout_s: How long to wait for something to happen; None for as long as it takes.
        """
        self._returns_soon = False
        if self._ready:
            self.run_posted()
        if self._timers:
            timeout_s = self._until_timer(timeout_s)
        self._is_woken = False
        self._is_sleeping = True
        if self._ready or self._returns_soon:
            timeout_s = 0.0
        try:
            events = self._events(timeout_s)
        finally:
            self._is_sleeping = False
        handlers = self._handlers
        for fd, mask in events:
            # A handler before this one may have closed the descriptor.
            handler = handlers.get(fd)
            if handler is not None:
                try:
                    handler(mask)
                except Exception:
                    logger.exception("fault in a socket's handler")
        if self._timers:
            self._run_timers()
        if self._ready:
            self.run_posted()

    def _events(self, timeout_s: float | None) -> list[tuple[int, int]]:
        if timeout_s is None or timeout_s <= 0:
            return self._poll(timeout_s)
        return self._poll_for(timeout_s)

    def _poll_for(self, timeout_s: float) -> list[tuple[int, int]]:
        fd = self._epoll.fileno()
        if timeout_s < _COARSE_S and fd < _SELECTABLE_FDS:
            if not select.select((fd,), (), (), timeout_s)[0]:
                return []
            timeout_s = 0.0
        return self._poll(timeout_s)

    def run_posted(self) -> None:
        """Run what was posted, without looking at sockets and timers."""
        ready = self._ready
        # Bounded, or threads that post without end would keep the sockets waiting.
        for _ in range(len(ready) + _EXTRA_CALLBACKS):
            if not ready:
                return
            callback, args = ready.popleft()
            try:
                callback(*args)
            except Exception:
                logger.exception("fault in a callback")

    def _until_timer(self, timeout_s: float | None) -> float | None:
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heapq.heappop(timers)
        if not timers:
            return timeout_s
        left_s = max(0.0, (timers[0][0] - self._clock_ns()) / _NS_PER_S)
        return left_s if timeout_s is None else min(left_s, timeout_s)

    def _run_timers(self) -> None:
        timers = self._timers
        now_ns = self._clock_ns()
        while timers and timers[0][0] <= now_ns:
            _, _, timer = heapq.heappop(timers)
            if timer.callback is not None:
                self._ready.append((timer.callback, timer.args))

    def _on_wake(self, _: int) -> None:
        os.eventfd_read(self._wake_fd)
