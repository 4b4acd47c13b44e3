# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A load as the profiler drives it, whether it is sent from this process or from several."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from manta_tools.perf.load.loops import Clock, Load
from manta_tools.perf.measuring.windows import Objective, Window, clamped, summarise
from manta_tools.perf.records import Request


@dataclass(frozen=True, slots=True)
class Status:
    """How a load stands.

    Attributes:
        sent: Requests that were sent.
        ended: Requests that ended.
        failed: Requests that ended and failed.
        in_flight: Requests under way.
        is_done: Whether nothing is under way, and nothing will be sent.
        cpu_ns: CPU time so far of the processes that send.
    """

    sent: int = 0
    ended: int = 0
    failed: int = 0
    in_flight: int = 0
    is_done: bool = True
    cpu_ns: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """What ended in a window.

    Attributes:
        window: What it amounts to.
        ended: How many requests ended, those that failed too.
        first_error: Why the first of those failed; empty when none did.
        requests: The records, where they are to be had.
    """

    window: Window
    ended: int
    first_error: str = ""
    requests: Sequence[Request] = ()


class Drive(ABC):
    """A load under way.

    Attributes:
        processes: From how many processes it is sent.
    """

    processes: int = 1

    @abstractmethod
    async def start(self) -> None:
        """Begin to send."""

    @abstractmethod
    async def stop(self) -> None:
        """Send nothing more, but what ends open sequences."""

    @abstractmethod
    async def status(self) -> Status:
        """Return how it stands."""

    @abstractmethod
    async def span(self) -> tuple[int, int] | None:
        """Return first start and last end of what nobody has taken; None when nothing ended."""

    @abstractmethod
    async def take(self, start_ns: int, end_ns: int) -> Taken:
        """Take what ended from one instant to another; what ended later stays."""

    @abstractmethod
    async def recent(self, count: int) -> list[int]:
        """Return latencies of the last requests that succeeded and that nobody has taken."""


class LocalDrive(Drive):
    """A load that this process sends."""

    def __init__(
        self, load: Load, cpu: Clock, batch_size: int = 1, objectives: Sequence[Objective] = ()
    ) -> None:
        """Make a drive.

        Args:
            load: The load.
            cpu: CPU time of this process, in nanoseconds.
            batch_size: Inferences of a request.
            objectives: What a good request keeps.
        """
        self._load, self._cpu = load, cpu
        self._batch_size, self._objectives = batch_size, objectives
        self._ended: list[Request] = []

    async def start(self) -> None:
        """Begin to send."""
        self._load.start()

    async def stop(self) -> None:
        """Send nothing more, but what ends open sequences."""
        self._load.stop()

    async def status(self) -> Status:
        """Return how it stands."""
        load = self._load
        return Status(
            load.sent,
            load.ended_count,
            load.failed_count,
            load.in_flight,
            load.is_done,
            self._cpu(),
        )

    async def span(self) -> tuple[int, int] | None:
        """Return first start and last end of what nobody has taken; None when nothing ended."""
        self._ended += self._load.take()
        return clamped(self._ended) if self._ended else None

    async def take(self, start_ns: int, end_ns: int) -> Taken:
        """Take what ended from one instant to another; what ended later stays."""
        ended = [*self._ended, *self._load.take()]
        self._ended = [each for each in ended if each.end_ns > end_ns]
        if self._ended:
            ended = [each for each in ended if each.end_ns <= end_ns]
        window = summarise(
            ended, start_ns, end_ns, batch_size=self._batch_size, objectives=self._objectives
        )
        first_error = next((each.error for each in ended if each.error), "")
        return Taken(window, len(ended), first_error, ended)

    async def recent(self, count: int) -> list[int]:
        """Return latencies of the last requests that succeeded and that nobody has taken."""
        return [each.latency_ns for each in self._load.last(count) if not each.error]
