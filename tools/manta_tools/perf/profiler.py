# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Measures levels of load, one after the other: windows until they agree. Time is given.

Triton: perf_analyzer/src/inference_profiler.cc ProfileHelper, Measure @263c5f6
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from backends.api.errors import UnavailableError
from manta_tools.perf.driving import Drive, LocalDrive, Status, Taken
from manta_tools.perf.load.loops import Clock, Load
from manta_tools.perf.measuring import server_metrics, server_statistics
from manta_tools.perf.measuring.search import Levels
from manta_tools.perf.measuring.server_metrics import Gauges
from manta_tools.perf.measuring.server_statistics import Snapshot
from manta_tools.perf.measuring.stability import WINDOWS, StabilityRule
from manta_tools.perf.measuring.windows import Objective, Window, merge
from manta_tools.perf.records import Request

_NS_PER_S: Final = 10**9
# How often is looked whether enough requests have ended, as in perf_analyzer.
_COUNT_POLL_NS: Final = _NS_PER_S
_DONE_POLL_NS: Final = 10**7
# How long requests under way may take once a level is measured.
_DRAIN_NS: Final = 30 * _NS_PER_S
AVERAGE: Final = -1


@dataclass(frozen=True, slots=True)
class Plan:
    """How a level is measured.

    Attributes:
        rule: When windows agree.
        window_ns: Length of a time window; 0 for count windows.
        window_requests: Fewest requests of a count window.
        request_count: Measure exactly so many requests, in one window; 0 for stable windows.
        warmup_count: Requests before.
        max_trials: Most windows.
        percentile: Whose latency has to be stable; `AVERAGE` for the mean.
        batch_size: Inferences of a request.
        objectives: What a good request keeps.
        keeps_requests: Whether the records of all requests are kept, for an export.
    """

    rule: StabilityRule = field(default_factory=StabilityRule)
    window_ns: int = 5 * _NS_PER_S
    window_requests: int = 50
    request_count: int = 0
    warmup_count: int = 0
    max_trials: int = 10
    percentile: int = AVERAGE
    batch_size: int = 1
    objectives: tuple[Objective, ...] = ()
    keeps_requests: bool = False


@dataclass(frozen=True, slots=True)
class Pass:
    """One window and what came with it.

    Attributes:
        window: The window.
        counted: What the server counted meanwhile, by model; None without its statistics.
        busy_percentage: CPU time of a process that sends, in percent of the window.
        latency_ns: Mean latency, or the percentile that has to be stable.
        gauges: What the server's metrics said meanwhile; None when they are not looked at.
        processes: From how many processes the requests came.
    """

    window: Window
    counted: Snapshot | None
    busy_percentage: float
    latency_ns: float
    gauges: Gauges | None = None
    processes: int = 1


@dataclass(frozen=True, slots=True)
class PassSummary:
    """What is kept of every window of a level, also of those that it does not rest on.

    Attributes:
        start_ns: Its first instant.
        end_ns: Its last one.
        requests: Requests that succeeded.
        failures: Requests that failed.
        throughput: Inferences a second.
        mean_ns: Mean latency.
        p50_ns: Half of the latencies are no higher.
        p99_ns: 99 % of the latencies are no higher.
        busy_percentage: CPU time of a process that sends, in percent of the window.
    """

    start_ns: int
    end_ns: int
    requests: int
    failures: int
    throughput: float
    mean_ns: float
    p50_ns: int
    p99_ns: int
    busy_percentage: float


def summary_of(done: Pass) -> PassSummary:
    """Return what is kept of a window."""
    window = done.window
    return PassSummary(
        window.start_ns,
        window.end_ns,
        window.requests,
        window.failures,
        window.throughput,
        window.latencies.mean_ns,
        window.latencies.percentile_ns(50),
        window.latencies.percentile_ns(99),
        done.busy_percentage,
    )


@dataclass(frozen=True, slots=True)
class Measurement:
    """A level that was measured.

    Attributes:
        level: Concurrency, or requests a second.
        total: The passes it rests on, together.
        passes: Those passes: the last three, or one of exactly so many requests.
        is_stable: Whether they agree.
        is_within_limit: Whether the latency is under its threshold.
        requests: All records, where they were to be kept.
        boundaries_ns: First start and all ends of windows.
        history: All windows, in their order.
    """

    level: float
    total: Pass
    passes: tuple[Pass, ...]
    is_stable: bool
    is_within_limit: bool
    requests: tuple[Request, ...] = ()
    boundaries_ns: tuple[int, ...] = ()
    history: tuple[PassSummary, ...] = ()

    @property
    def meets(self) -> bool:
        """Whether a search may go on to harder levels."""
        return self.is_stable and self.is_within_limit


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a profiler works with.

    Attributes:
        clock: The time, in nanoseconds.
        sleep: Waits, in nanoseconds.
        cpu: CPU time of this process, in nanoseconds.
        statistics: Asks the server for its statistics; None where it has none.
        take_gauges: Returns the gauges read since it was last called; None without them.
        on_level: Called with each level before it is measured.
        on_pass: Called with the number of each window and what it holds.
        on_drive: Called with the drive of each level before its first window; None for nobody.
    """

    clock: Clock
    sleep: Callable[[int], Awaitable[None]]
    cpu: Clock
    statistics: Callable[[], Awaitable[Snapshot]] | None = None
    take_gauges: Callable[[], list[Gauges]] | None = None
    on_level: Callable[[float], None] = lambda level: None
    on_pass: Callable[[int, Pass], None] = lambda number, done: None
    on_drive: Callable[[Drive], Awaitable[None]] | None = None


# Makes the load of a level, with a limit of requests or 0; or, where this process does not send it,
# what drives it.
MakeLoad = Callable[[float, int], Load | Drive]


class Profiler:
    """Measures levels of load."""

    def __init__(self, plan: Plan, make_load: MakeLoad, surroundings: Surroundings) -> None:
        self._plan, self._make_load, self._with = plan, make_load, surroundings
        self.is_stopping = False

    async def search(
        self, levels: Levels, on_measured: Callable[[Measurement], None]
    ) -> list[Measurement]:
        """Measure the levels that a search yields.

        Args:
            levels: The search.
            on_measured: Called with each level once it is measured.

        Raises:
            UnavailableError: No request of a window succeeded, or the statistics cannot be had.
        """
        found: list[Measurement] = []
        level = next(levels)
        while True:
            measured = await self.measure(level)
            found.append(measured)
            on_measured(measured)
            if self.is_stopping:
                return found
            try:
                level = levels.send(measured.meets)
            except StopIteration:
                return found

    async def measure(self, level: float) -> Measurement:
        """Measure one level; raises as `search` does."""
        self._with.on_level(level)
        if self._plan.warmup_count:
            await self._run_to_end(self._drive(level, self._plan.warmup_count))
        drive = self._drive(level, self._plan.request_count)
        await drive.start()
        if self._with.on_drive:
            await self._with.on_drive(drive)
        way = self._exactly if self._plan.request_count else self._until_stable
        try:
            measured = await way(level, drive)
        except BaseException:
            # What is under way may never end.
            await drive.stop()
            raise
        await drive.stop()
        await self._drained(drive)
        return measured

    def _drive(self, level: float, limit: int) -> Drive:
        made = self._make_load(level, limit)
        if isinstance(made, Drive):
            return made
        return LocalDrive(made, self._with.cpu, self._plan.batch_size, self._plan.objectives)

    async def _run_to_end(self, drive: Drive) -> None:
        await drive.start()
        while not (await drive.status()).is_done:
            await self._with.sleep(_DONE_POLL_NS)

    async def _drained(self, drive: Drive) -> None:
        waited_ns = 0
        while not (await drive.status()).is_done and waited_ns < _DRAIN_NS:
            await self._with.sleep(_DONE_POLL_NS)
            waited_ns += _DONE_POLL_NS

    async def _exactly(self, level: float, drive: Drive) -> Measurement:
        begun = await self._begin(drive)
        while not (await drive.status()).is_done and not self.is_stopping:
            await self._with.sleep(_DONE_POLL_NS)
        span = await drive.span()
        if span is None:
            raise UnavailableError("no request has ended; is the server alive?")
        done, requests = await self._pass(begun, drive, *span)
        self._with.on_pass(1, done)
        return self._measurement(level, [done], list(requests), is_stable=True)

    async def _until_stable(self, level: float, drive: Drive) -> Measurement:
        plan = self._plan
        passes: list[Pass] = []
        kept: list[Request] = []
        begun = await self._begin(drive)
        is_stable = False
        for number in range(1, plan.max_trials + 1):
            await self._window(drive)
            end_ns = self._with.clock()
            done, requests = await self._pass(begun, drive, begun.start_ns, end_ns)
            kept += requests
            begun = _Begun(end_ns, await drive.status(), begun.after)
            passes.append(done)
            self._with.on_pass(number, done)
            latencies = [each.latency_ns for each in passes]
            is_stable = plan.rule.is_stable(_throughputs(passes), latencies)
            if is_stable or plan.rule.is_over_limit(latencies) or self.is_stopping:
                break
        if not is_stable and plan.rule.is_async:
            is_stable = plan.rule.is_stable(_throughputs(passes), [], check_latency=False)
        return self._measurement(level, passes, kept, is_stable=is_stable)

    async def _window(self, drive: Drive) -> None:
        if self._plan.window_ns:
            await self._with.sleep(self._plan.window_ns)
            return
        before = (await drive.status()).ended
        while True:
            await self._with.sleep(_COUNT_POLL_NS)
            ended = (await drive.status()).ended - before
            if ended >= self._plan.window_requests or self.is_stopping:
                return

    async def _begin(self, drive: Drive) -> "_Begun":
        counted = await self._with.statistics() if self._with.statistics else None
        if self._with.take_gauges:
            self._with.take_gauges()
        status = await drive.status()
        return _Begun(self._with.clock(), status, [counted])

    async def _pass(
        self, begun: "_Begun", drive: Drive, start_ns: int, end_ns: int
    ) -> tuple[Pass, Sequence[Request]]:
        """Return a window, and its records where they are kept."""
        status = await drive.status()
        taken = await drive.take(start_ns, end_ns)
        window = taken.window
        window.sent = status.sent - begun.status.sent
        if not window.requests:
            raise UnavailableError(_nothing(taken))
        counted = None
        before = begun.after[-1]
        if self._with.statistics and before is not None:
            after = await self._with.statistics()
            counted = server_statistics.difference(before, after)
            begun.after.append(after)
        gauges = (
            server_metrics.together(self._with.take_gauges()) if self._with.take_gauges else None
        )
        cpu_ns = (status.cpu_ns - begun.status.cpu_ns) / drive.processes
        busy_percentage = 100.0 * cpu_ns / max(end_ns - start_ns, 1)
        latency_ns = self._latency(window)
        done = Pass(window, counted, busy_percentage, latency_ns, gauges, drive.processes)
        return done, taken.requests if self._plan.keeps_requests else ()

    def _latency(self, window: Window) -> float:
        if self._plan.percentile == AVERAGE:
            return window.latencies.mean_ns
        return window.latencies.percentile_ns(self._plan.percentile)

    def _measurement(
        self, level: float, passes: list[Pass], kept: list[Request], *, is_stable: bool
    ) -> Measurement:
        last = passes[-WINDOWS:]
        window = merge([each.window for each in last])
        counted = [each.counted for each in last if each.counted is not None]
        gauges = [each.gauges for each in last if each.gauges is not None]
        total = Pass(
            window,
            server_statistics.together(counted) if counted else None,
            sum(each.busy_percentage for each in last) / len(last),
            self._latency(window),
            server_metrics.together(gauges) if gauges else None,
            last[0].processes,
        )
        return Measurement(
            level,
            total,
            tuple(last),
            is_stable,
            self._plan.rule.is_within_limit(total.latency_ns),
            tuple(kept),
            (passes[0].window.start_ns, *(each.window.end_ns for each in passes)),
            tuple(map(summary_of, passes)),
        )


@dataclass(frozen=True, slots=True)
class _Begun:
    """Where a window begins; ``after`` ends with the statistics at that instant."""

    start_ns: int
    status: Status
    after: "list[Snapshot | None]"


def _throughputs(passes: Sequence[Pass]) -> list[float]:
    return [each.window.throughput for each in passes]


def _nothing(taken: Taken) -> str:
    if taken.first_error:
        return f"all {taken.ended} requests of the window failed; the first: {taken.first_error}"
    return "No valid requests recorded within time interval. Please use a larger time window."
