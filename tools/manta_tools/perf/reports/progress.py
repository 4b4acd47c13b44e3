# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a run gets on, as lines at the foot of a terminal that are written anew again and again.

Two lines, and no thread beside the load, as rich would take one. What a program that reads the
output gets is not touched: without a terminal there is no progress.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from manta_tools.perf.driving import Drive, Status
from manta_tools.perf.load.loops import Clock
from manta_tools.perf.options.checks import is_rate, searched_range
from manta_tools.perf.options.table import PerfOptions
from manta_tools.perf.reports.text import number

_BAR_LETTERS: Final = 24
_LAST_LATENCIES: Final = 500
_NS_PER_S: Final = 1e9
_UP_AND_CLEAR: Final = "\x1b[{}F\x1b[0J"


@dataclass(frozen=True, slots=True)
class Live:
    """How the current level gets on.

    Attributes:
        level: Concurrency or requests a second.
        levels_done: Levels that were measured before.
        levels_in_all: How many there will be; 0 where nobody knows.
        window: Number of the current window, from 1.
        most_windows: After which the level ends.
        share: How much of the window is over, from 0 to 1.
        throughput: Requests a second since the window began.
        p50_us: Half of the last latencies are no higher.
        p99_us: 99 % of the last latencies are no higher.
        in_flight: Requests under way.
        errors: Requests of the level that failed.
        busy_percentage: CPU time of the client, in percent.
    """

    level: float
    levels_done: int
    levels_in_all: int
    window: int
    most_windows: int
    share: float
    throughput: float
    p50_us: float
    p99_us: float
    in_flight: int
    errors: int
    busy_percentage: float


def lines(live: Live, title: str, width: int) -> tuple[str, str]:
    """Return the bar and the numbers, no longer than a terminal is wide.

    Args:
        live: How the level gets on.
        title: What its level is.
        width: Letters of a line.
    """
    done = round(min(live.share, 1.0) * _BAR_LETTERS)
    bar = "#" * done + "-" * (_BAR_LETTERS - done)
    in_all = f"/{live.levels_in_all}" if live.levels_in_all else ""
    head = (
        f"{title} {number(live.level)} (level {live.levels_done + 1}{in_all})  window "
        f"{live.window}/{live.most_windows} [{bar}] {live.share:4.0%}"
    )
    foot = (
        f"{live.throughput:,.0f} requests/s  p50 {live.p50_us:,.0f} us  p99 {live.p99_us:,.0f} us  "
        f"in flight {live.in_flight}  errors {live.errors}  client {live.busy_percentage:.0f} %"
    )
    return head[:width], foot[:width]


class Watch:
    """Notes what a profiler says, and looks at its load."""

    def __init__(self, options: PerfOptions, clock: Clock) -> None:
        """Make a watch.

        Args:
            options: Of the run.
            clock: The time, in nanoseconds.
        """
        self._options, self._clock = options, clock
        self._level, self._levels_begun, self._window = 0.0, 0, 1
        self._drive: Drive | None = None
        self._window_start: tuple[int, Status] = (0, Status())

    def level_begins(self, level: float) -> None:
        """Note a level; it has no load yet."""
        self._level, self._window, self._drive = level, 1, None
        self._levels_begun += 1

    async def drive_begins(self, drive: Drive) -> None:
        """Note the load of a level."""
        self._drive = drive
        self._window_start = (self._clock(), await drive.status())

    def pass_ends(self, index: int) -> None:
        """Note the end of a window."""
        self._window = index + 1
        # What the next one begins with is known once somebody looks.
        self._window_start = (0, Status())

    async def live(self) -> Live | None:
        """Return how the level gets on; None before its first window."""
        if self._drive is None:
            return None
        drive, now_ns = self._drive, self._clock()
        status, latencies = await drive.status(), sorted(await drive.recent(_LAST_LATENCIES))
        if not self._window_start[0]:
            self._window_start = (now_ns, status)
        start_ns, before = self._window_start
        passed_ns = max(now_ns - start_ns, 1)
        busy_ns = (status.cpu_ns - before.cpu_ns) / drive.processes
        options = self._options
        return Live(
            self._level,
            self._levels_begun - 1,
            _level_count(options),
            self._window,
            1 if options.request_count else options.max_trials,
            self._share(passed_ns, status.ended - before.ended),
            (status.ended - before.ended) * _NS_PER_S / passed_ns,
            _at(latencies, 0.5) / 1000,
            _at(latencies, 0.99) / 1000,
            status.in_flight,
            status.failed,
            100.0 * busy_ns / passed_ns,
        )

    def _share(self, passed_ns: int, ended: int) -> float:
        options = self._options
        if options.measurement_mode == "time_windows":
            share = passed_ns / (options.measurement_interval * 1e6)
        else:
            share = ended / options.measurement_request_count
        return min(share, 1.0)


def _at(ordered: list[int], share: float) -> int:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0


def _level_count(options: PerfOptions) -> int:
    levels = searched_range(options)
    if options.binary_search or not levels.end or options.request_intervals:
        return 0
    return max(int((levels.end - levels.start) / levels.step + 1e-9), 0) + 1


class Screen:
    """A terminal whose last lines change, below what is printed for good."""

    def __init__(self, options: PerfOptions, write: Callable[[str], object]) -> None:
        """Make a screen.

        Args:
            options: Of the run.
            write: Writes to the terminal, at once.
        """
        self._title = "Request rate" if is_rate(options) else "Concurrency"
        self._write = write
        self._shown = 0

    def show(self, live: Live, width: int) -> None:
        """Write the lines in place of those before."""
        # A line as wide as the terminal would be two.
        shown = lines(live, self._title, max(width - 1, 1))
        self._write(self._cleared() + "".join(f"{each}\n" for each in shown))
        self._shown = len(shown)

    def clear(self) -> None:
        """Remove the lines, so that something can be printed."""
        if self._shown:
            self._write(self._cleared())
            self._shown = 0

    def _cleared(self) -> str:
        return _UP_AND_CLEAR.format(self._shown) if self._shown else ""
