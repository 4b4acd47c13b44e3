# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The event loop of an instance's lanes, which any thread may turn.

Theory of operation. An asyncio loop occupies the thread that runs it, and starting and stopping it
for every request costs more than what is won by not changing threads. A reactor has no such notion
of running: `Reactor.turn` waits for sockets, handles what is ready and returns. Threads may take
turns at turning; only one at a time may.

What protects the lanes is not a thread but the reactor's lock. It is held while callbacks run and
never while the reactor waits, so that a thread with something to send takes the lock and sends,
although another one sleeps in `turn`. There are three ways in:

* `turn`, which takes the lock for all that one wait brought;
* `entered`, a context, for a thread that has to change something and can wait for the lock;
* `run_soon`, which never waits: what is to run is queued, and runs on this thread if the lock is
  free, else on the thread that holds it. Whoever lets go of the lock looks at that queue once more,
  so nothing stays behind.

`call_soon_threadsafe` only queues and wakes: it is safe in finalizers, which may strike inside any
lock. Under the reactor's lock other locks may be taken; under other locks only
`call_soon_threadsafe` and `wake` may be called.
"""

import contextlib
import heapq
import itertools
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

_log = logging.getLogger(__name__)

_NS_PER_S: Final = 1_000_000_000
# What select can watch; the epoll descriptor is below unless a process has opened very much.
_SELECT_LIMIT: Final = 1024


class Watched(Protocol):
    """What a reactor tells of a descriptor."""

    def on_ready(self, mask: int) -> None:
        """Handle EPOLL* events; called under the reactor's lock, perhaps without a cause."""


class Timer:
    """A callback at its time; `cancel` is for holders of the reactor's lock."""

    __slots__ = ("args", "callback")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def cancel(self) -> None:
        """Do not call."""
        self.callback = None
        self.args = ()


class Reactor:
    """Waits for sockets and timers on whatever thread turns it."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        self._waits_precisely = self._epoll.fileno() < _SELECT_LIMIT
        self._lock = threading.Lock()
        # Guarded by the lock.
        self._watched: dict[int, Watched] = {}
        self._ready: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._timers: list[tuple[int, int, Timer]] = []
        self._timer_numbers = itertools.count()
        # Each change of these is one atomic step; see turn and wake.
        self._posted: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_waiting = False
        self._is_woken = False
        self.is_closed = False

    # Any thread.

    def wake(self) -> None:
        """Make the turn under way, or else the next one, return without waiting.

        Whoever turns looks for the reason afterwards; it must be visible before the call.
        """
        self._is_woken = True
        if self._is_waiting:
            os.eventfd_write(self._wake_fd, 1)

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> None:
        """Have the callback run under the lock by whoever turns. Safe in finalizers.

        Raises:
            RuntimeError: The reactor is closed.
        """
        if self.is_closed:
            raise RuntimeError("the reactor is closed")
        self._posted.append((callback, args))
        self.wake()

    def run_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Run the callback under the lock, at once unless another thread holds it."""
        self._posted.append((callback, args))
        self._run_posted()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Hold the lock; what was queued before runs first, what is queued inside at the end."""
        with self._lock:
            self._run_callbacks()
            try:
                yield
            finally:
                self._run_callbacks()
        self._run_posted()

    def close(self) -> None:
        """Take no more callbacks and make the turn under way return."""
        self.is_closed = True
        self.wake()

    def __del__(self) -> None:
        # Only now can no thread be in a turn.
        os.close(self._wake_fd)

    # The thread that turns.

    def turn(self, timeout_s: float | None) -> None:
        """Wait for events and handle them.

        Args:
            timeout_s: How long to wait, to the microsecond; None waits for an event, a timer or
                `wake`.
        """
        self._is_waiting = True
        # In this order: a wake-up between here and there finds _is_waiting set.
        if self._is_woken or self._posted or self._ready:
            timeout_s = 0.0
        try:
            events = self._wait(timeout_s)
        finally:
            self._is_waiting = False
        with self._lock:
            for fd, mask in events:
                if fd == self._wake_fd:
                    with contextlib.suppress(BlockingIOError):
                        os.eventfd_read(fd)
                    continue
                # Another event of this turn may have closed it.
                watched = self._watched.get(fd)
                if watched is not None:
                    self._run(watched.on_ready, (mask,))
            if self._timers:
                self._run_timers()
            if self._ready or self._posted:
                self._run_callbacks()
            # Reasons for wake-ups up to here are visible to the caller, who looks for them now.
            self._is_woken = False
        if self._posted:
            self._run_posted()

    # With the lock held.

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Have the callback run before the lock is let go."""
        self._ready.append((callback, args))

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Have the callback run under the lock after a delay, to the millisecond."""
        timer = Timer(callback, args)
        at_ns = time.monotonic_ns() + int(delay_s * _NS_PER_S)
        heapq.heappush(self._timers, (at_ns, next(self._timer_numbers), timer))
        if self._is_waiting:
            self.wake()
        return timer

    def watch(self, fd: int, watched: Watched, mask: int) -> None:
        """Report EPOLL* events of a descriptor."""
        self._epoll.register(fd, mask)
        self._watched[fd] = watched

    def change(self, fd: int, mask: int) -> None:
        """Report other events than before."""
        self._epoll.modify(fd, mask)

    def unwatch(self, fd: int) -> None:
        """Report no more; before the descriptor is closed."""
        self._epoll.unregister(fd)
        del self._watched[fd]

    def _run(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            callback(*args)
        except Exception:
            # Whoever turns serves all lanes: one callback's trouble must not end that.
            _log.exception("fault in a callback of the lanes")

    def _run_timers(self) -> None:
        now_ns = time.monotonic_ns()
        while self._timers and (
            self._timers[0][0] <= now_ns or self._timers[0][2].callback is None
        ):
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                self._run(timer.callback, timer.args)

    def _run_callbacks(self) -> None:
        ready, posted = self._ready, self._posted
        while ready or posted:
            self._run(*(ready if ready else posted).popleft())

    # Without the lock.

    def _run_posted(self) -> None:
        while self._posted and self._lock.acquire(blocking=False):
            try:
                self._run_callbacks()
            finally:
                self._lock.release()

    def _wait(self, timeout_s: float | None) -> list[tuple[int, int]]:
        if timeout_s is None:
            if not self._timers:
                return self._epoll.poll()
            return self._epoll.poll(self._timer_delay_s())
        if timeout_s and self._waits_precisely:
            # Epoll counts milliseconds, batching delays are shorter.
            select.select((self._epoll,), (), (), timeout_s)
            timeout_s = 0.0
        return self._epoll.poll(timeout_s)

    def _timer_delay_s(self) -> float:
        with self._lock:
            if not self._timers:
                return -1
            return max(0.0, (self._timers[0][0] - time.monotonic_ns()) / _NS_PER_S)
