# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The loops that send: closed, open and periodic. Clock and timer are given; both may be virtual.

Triton: perf_analyzer/src/concurrency_worker.cc, request_rate_worker.cc,
periodic_concurrency_manager.cc @263c5f6
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from manta_tools.perf.records import Request, Sender

# A request that leaves later than this was delayed by its sender.
_DELAYED_NS: Final = 1_000_000
# Then answers are taken: at a rate that is too high for the client more is due all the time.
_MOST_AT_ONCE: Final = 32

Clock = Callable[[], int]
# Calls back after so many nanoseconds.
Timer = Callable[[int, Callable[[], None]], object]


class Source(Protocol):
    """Where requests come from."""

    def next(self, slot: int) -> Request:
        """Return the next request of a slot: of a concurrent request, or of a live sequence."""

    def closing(self, slot: int) -> Request | None:
        """Return the request that ends the slot's sequence early; None when none is open."""


class Load:
    """What all loops share: sending, and the records of what has ended."""

    def __init__(self, sender: Sender, source: Source, clock: Clock, limit: int = 0) -> None:
        """Make a loop.

        Args:
            sender: Sends.
            source: Makes the requests.
            clock: The time, in nanoseconds.
            limit: How many requests are sent; 0 for any number.
        """
        self._sender, self._source, self._clock = sender, source, clock
        self._limit = limit
        self._ended: list[Request] = []
        self._is_stopping = False
        self.sent = self.in_flight = self.ended_count = self.failed_count = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing is under way, and nothing will be sent."""
        return not self.in_flight and (self._is_stopping or self._is_exhausted)

    @property
    def _is_exhausted(self) -> bool:
        return 0 < self._limit <= self.sent

    def take(self) -> list[Request]:
        """Return what has ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def last(self, count: int) -> list[Request]:
        """Return those that ended last, of what `take` would return."""
        return self._ended[-count:]

    def start(self) -> None:
        """Begin to send."""
        raise NotImplementedError

    def stop(self) -> None:
        """Send nothing more, but what ends open sequences."""
        self._is_stopping = True

    def responded(self, request: Request, now_ns: int) -> None:
        """Note a response with content."""
        request.responses_ns.append(now_ns)

    def ended(self, request: Request, now_ns: int) -> None:
        """Note the end of a request; that of a decoupled one is its last response with content."""
        request.end_ns = request.responses_ns[-1] if request.responses_ns else now_ns
        self.in_flight -= 1
        if request.is_counted:
            self.ended_count += 1
            if request.error:
                self.failed_count += 1
            self._ended.append(request)
        self._goes_on(request)

    def _goes_on(self, request: Request) -> None:
        """Send what follows a request that has ended."""
        if self._is_stopping:
            self._close(request.slot)

    def _send(self, slot: int, intended_ns: int = 0) -> None:
        self._issue(self._source.next(slot), intended_ns)

    def _issue(self, request: Request, intended_ns: int = 0) -> None:
        now_ns = self._clock()
        request.start_ns = now_ns
        request.intended_ns = intended_ns or now_ns
        request.is_delayed = now_ns - request.intended_ns > _DELAYED_NS
        self.sent += request.is_counted
        self.in_flight += 1
        self._sender.send(request, self)

    def _close(self, slot: int) -> None:
        request = self._source.closing(slot)
        if request is not None:
            request.is_counted = False
            self._issue(request)


class ClosedLoop(Load):
    """A number of requests in flight at all times, each in a slot of its own."""

    def __init__(
        self, sender: Sender, source: Source, clock: Clock, *, concurrency: int, limit: int = 0
    ) -> None:
        super().__init__(sender, source, clock, limit)
        self._concurrency = concurrency

    def start(self) -> None:
        """Fill all slots."""
        for slot in range(self._concurrency):
            if not self._is_exhausted:
                self._send(slot)

    def _goes_on(self, request: Request) -> None:
        if self._is_stopping or self._is_exhausted:
            self._close(request.slot)
        else:
            self._send(request.slot)


class OpenLoop(Load):
    """Requests when they are due, whatever the server does.

    Attributes:
        starts_at_ns: Which instant the schedule counts from; 0 for that of `start`.
    """

    def __init__(
        self,
        sender: Sender,
        source: Source,
        clock: Clock,
        timer: Timer,
        *,
        schedule: Iterator[int],
        slots: int = 1,
        is_serial: bool = False,
        limit: int = 0,
    ) -> None:
        """Make a loop.

        Args:
            sender: Sends.
            source: Makes the requests.
            clock: The time, in nanoseconds.
            timer: Calls back.
            schedule: Offsets from the start.
            slots: Among how many live sequences the requests go round.
            is_serial: Whether a slot has at most one request in flight; what is due meanwhile
                waits, and has the latency that it then has.
            limit: How many requests are sent; 0 for any number.
        """
        super().__init__(sender, source, clock, limit)
        self._timer, self._schedule = timer, schedule
        self._slots, self._is_serial = slots, is_serial
        self._free = deque(range(slots))
        self._waiting: deque[int] = deque()
        self._busy = [0] * slots
        self._start_ns = self._due_ns = 0
        self.starts_at_ns = 0

    def start(self) -> None:
        """Begin the schedule now, or as if it had begun at `starts_at_ns`."""
        self._start_ns = self.starts_at_ns or self._clock()
        self._due_ns = self._start_ns + next(self._schedule)
        self._tick()

    def stop(self) -> None:
        """Send nothing more, but what ends open sequences."""
        super().stop()
        self._waiting.clear()
        for slot in range(self._slots):
            if not self._busy[slot]:
                self._close(slot)

    @property
    def is_done(self) -> bool:
        """Whether nothing is under way, and nothing will be sent."""
        return super().is_done and not self._waiting

    def _tick(self) -> None:
        wait_ns = 0
        for _ in range(_MOST_AT_ONCE):
            if self._is_stopping or self._is_planned_out:
                return
            wait_ns = self._due_ns - self._clock()
            if wait_ns > 0:
                break
            self._dispatch(self._due_ns)
            self._due_ns = self._start_ns + next(self._schedule)
        self._timer(max(wait_ns, 0), self._tick)

    @property
    def _is_planned_out(self) -> bool:
        return 0 < self._limit <= self.sent + len(self._waiting)

    def _dispatch(self, due_ns: int) -> None:
        if self._is_serial and not self._free:
            self._waiting.append(due_ns)
            return
        slot = self._free.popleft()
        if not self._is_serial:
            self._free.append(slot)
        self._send(slot, due_ns)

    def _issue(self, request: Request, intended_ns: int = 0) -> None:
        self._busy[request.slot] += 1
        super()._issue(request, intended_ns)

    def _goes_on(self, request: Request) -> None:
        slot = request.slot
        self._busy[slot] -= 1
        if self._is_stopping or (self._is_exhausted and not self._waiting):
            if not self._busy[slot]:
                self._close(slot)
        elif self._is_serial:
            if self._waiting:
                self._send(slot, self._waiting.popleft())
            else:
                self._free.append(slot)


class PeriodicLoop(Load):
    """Requests that are sent once; more are added when those added last have had some responses."""

    def __init__(
        self,
        sender: Sender,
        source: Source,
        clock: Clock,
        *,
        start: int,
        end: int,
        step: int,
        period: int,
    ) -> None:
        """Make a loop.

        Args:
            sender: Sends.
            source: Makes the requests.
            clock: The time, in nanoseconds.
            start: How many requests there are at first.
            end: How many there are in all.
            step: How many are added at a time.
            period: Responses that each of those added last must have had; the end of a request
                that has fewer counts too.
        """
        super().__init__(sender, source, clock, end)
        self._first, self._step, self._period = start, step, period
        self._awaited: set[int] = set()

    def start(self) -> None:
        """Send the first requests."""
        self._add(self._first)

    def responded(self, request: Request, now_ns: int) -> None:
        """Note a response; the last one that is awaited adds requests."""
        super().responded(request, now_ns)
        if len(request.responses_ns) == self._period:
            self._has_had_its_period(request.slot)

    def _goes_on(self, request: Request) -> None:
        self._has_had_its_period(request.slot)

    def _has_had_its_period(self, slot: int) -> None:
        if slot in self._awaited:
            self._awaited.discard(slot)
            if not self._awaited and not self._is_stopping:
                self._add(self._step)

    def _add(self, count: int) -> None:
        slots = range(self.sent, min(self.sent + count, self._limit))
        self._awaited = set(slots)
        for slot in slots:
            self._send(slot)
