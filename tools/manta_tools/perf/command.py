# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta perf``."""

import asyncio
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from backends.api.errors import TritonError
from cluster import __version__
from manta_tools.pages.rendering import html, require_libraries
from manta_tools.perf.measuring.server_statistics import server_side
from manta_tools.perf.options.parsing import UsageError, parse_options, usage
from manta_tools.perf.options.table import PerfOptions
from manta_tools.perf.profiler import Measurement
from manta_tools.perf.reports import text
from manta_tools.perf.reports.csv_file import Level, composing_reports, csv_report
from manta_tools.perf.reports.page import page
from manta_tools.perf.reports.profile_export import profile_export
from manta_tools.perf.reports.progress import Screen
from manta_tools.perf.reports.rows import rows_of, written
from manta_tools.perf.run import Run

# perf_analyzer's, from its src/constants.h.
_STABILITY_ERROR: Final = 2
_GENERIC_ERROR: Final = 99
# As shells report a command that SIGINT has ended.
_INTERRUPTED: Final = 130
# As often as an eye follows; it costs the client some hundredths of a percent.
_REFRESH_S: Final = 0.25


def main(arguments: Sequence[str]) -> int:
    """Run ``manta perf`` and return its exit code: 0, 2 when not stable, 99, or 130."""
    if not arguments or "--help" in arguments:
        print(usage())
        return 0 if arguments else _GENERIC_ERROR
    try:
        options = parse_options(arguments, partial(print, file=sys.stderr))
        if options.html_report:
            require_libraries()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(perform(options))
    except (asyncio.CancelledError, KeyboardInterrupt):
        return _INTERRUPTED
    except (UsageError, TritonError) as error:
        print(f"error: {error}" if isinstance(error, TritonError) else error, file=sys.stderr)
        return _GENERIC_ERROR


async def perform(options: PerfOptions) -> int:
    """Run what options ask for, print and write its reports, and return the exit code.

    Raises:
        TritonError: The server cannot be reached or refuses, or data does not fit the model.
    """
    screen = Screen(options, _write_at_once)
    async with Run(options, say=partial(_say, screen)) as run, AsyncExitStack() as exits:
        print(text.settings(options, run.model))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, run.interrupt)
        exits.callback(loop.remove_signal_handler, signal.SIGINT)
        if sys.stdout.isatty() and not options.no_progress:
            showing = loop.create_task(_show_progress(run, screen))
            exits.callback(showing.cancel)
        exits.callback(screen.clear)
        measurements = await run.measure(lambda measured: _tell(run, measured, screen))
        await exits.aclose()
        epoch_ns = time.time_ns() - time.monotonic_ns()
        return _finish(run, measurements, epoch_ns)


def _say(screen: Screen, line: str) -> None:
    screen.clear()
    print(line)


def _write_at_once(shown: str) -> None:
    sys.stdout.write(shown)
    sys.stdout.flush()


async def _show_progress(run: Run, screen: Screen) -> None:
    while True:
        # Who measures says why a process of the load does not answer.
        with suppress(TritonError):
            live = await run.watch.live()
            if live is not None:
                screen.show(live, shutil.get_terminal_size().columns)
        await asyncio.sleep(_REFRESH_S)


def _tell(run: Run, measured: Measurement, screen: Screen) -> None:
    screen.clear()
    failure = text.failure(run.options, measured)
    if run.is_interrupted and not measured.is_stable:
        failure = ""
        print("Received exit signal.", file=sys.stderr)
    if failure:
        print(failure, file=sys.stderr)
    else:
        print(text.level_report(run.options, run.model, measured, _level(run, measured)[1]))


def _write_page(run: Run, measurements: Sequence[Measurement]) -> None:
    """Write the HTML report, of all levels, and the numbers that it is drawn from."""
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    levels = [_level(run, each) for each in measurements]
    rows = rows_of(run.options, run.model, levels, __version__, when)
    path = Path(run.options.html_report)
    path.write_text(html(page(rows)))
    path.with_suffix(".data.csv").write_text(written(rows))


def _level(run: Run, measured: Measurement) -> Level:
    counted = measured.total.counted
    if counted is None:
        return measured, None
    model = run.model
    return measured, server_side(counted, model.name, model.version, model.composing)


def _finish(run: Run, measurements: Sequence[Measurement], epoch_ns: int) -> int:
    options = run.options
    good = [each for each in measurements if each.meets or run.is_interrupted]
    print(text.summary(options, good))
    if options.csv_file and good:
        levels = [_level(run, each) for each in good]
        path = Path(options.csv_file)
        path.write_text(csv_report(options, run.model, levels))
        for prefix, report in composing_reports(options, levels).items():
            path.with_name(f"{prefix}.{path.name}").write_text(report)
    if options.html_report:
        _write_page(run, measurements)
    if options.profile_export_file:
        export = profile_export(options, run.data, measurements, __version__, epoch_ns)
        Path(options.profile_export_file).write_text(export)
    if run.is_interrupted:
        return _INTERRUPTED
    if len(measurements) == 1 and not measurements[0].is_stable:
        print("Failed to obtain stable measurement.", file=sys.stderr)
        return _STABILITY_ERROR
    return 0
