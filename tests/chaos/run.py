# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a schedule against a server of its own, and judges what became of it."""

import contextlib
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chaos import leaks
from tests.chaos.checks import judge
from tests.chaos.faults import FAULTS, kinds
from tests.chaos.load import Load
from tests.chaos.network import FarNetwork, why_not
from tests.chaos.plant import Plant, wait_until
from tests.chaos.records import OK, Journal, Strike
from tests.chaos.report import Report
from tests.chaos.scene import NotNowError, Scene
from tests.chaos.schedule import Event, Schedule, draw_schedule

PATIENCE_S: Final = 60.0
_WARM_ANSWERS: Final = 5
_WARM_TIMEOUT_S: Final = 90.0
_HEAL_S: Final = 120.0
# The load goes on for so long once the server is whole again, and again when all is over.
_TAIL_S: Final = 3.0
# Connections that clients have closed are forgotten, and counters are told.
_SETTLE_S: Final = 4.0
_SETTLE_TIMEOUT_S: Final = 30.0
_CLIENTS_PER_LOAD: Final = 100


@dataclass(frozen=True)
class Options:
    """What the command line says.

    Attributes:
        seed: What the schedule is drawn from.
        length_s: How long faults strike.
        only: Kinds that strike; empty: all that can be had.
        schedule: To be run in place of a drawn one.
        logs: Folder that gets what was printed; None for none.
    """

    seed: int = 1
    length_s: float = 180.0
    only: tuple[str, ...] = ()
    schedule: Schedule | None = None
    logs: Path | None = None


def run(options: Options) -> Report:
    """Start a server, put it under load, have faults strike, and judge.

    Raises:
        AssertionError: The server did not start, or is not built as this package believes.
        TimeoutError: Ray or the load did not start.
    """
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        network = None if why_not() else FarNetwork()
        plant = Plant(Path(folder), network)
        report = Report(options.schedule or Schedule(options.seed, options.length_s, ()))
        try:
            with plant:
                _under_load(plant, options, report)
                report.breaches += plant.close()
        finally:
            if options.logs is not None:
                plant.keep_logs(options.logs)
        return report


def _under_load(plant: Plant, options: Options, report: Report) -> None:
    had, report.left_out = kinds(plant)
    if options.schedule is None:
        wanted = [kind for kind in had if not options.only or kind.name in options.only]
        report.schedule = draw_schedule(options.seed, options.length_s, wanted)
    scene = Scene(plant)
    say("the server is there")
    _heal(scene)
    rounds = _Rounds(plant)
    calm = rounds.run("warm")
    before = _settled(plant)
    load = rounds.load("chaos")
    try:
        strike_all(scene, report)
        begin_s = time.monotonic()
        try:
            scene.join(_HEAL_S)
            scene.restore()
            scene.join(_HEAL_S)
            _heal(scene)
        except TimeoutError as error:
            report.breaches.append(f"{error}")
        report.notes.append(f"whole again {time.monotonic() - begin_s:.1f} s after the last fault")
        time.sleep(_TAIL_S)
    finally:
        journals = load.stop()
    report.controls = scene.controls
    report.verdict = judge(journals, report.strikes, scene.controls)
    for breach in report.verdict.breaches:
        say(f"        {breach}")
    calm += rounds.run("after")
    report.breaches += [
        f"without any fault: {record}"
        for journal in calm
        for record in journal.records
        if record.kind != OK
    ]
    after = _settled(plant, before)
    report.breaches += leaks.compare(before, after)
    grown = leaks.growth(before, after)
    shown = ", ".join(f"{sort} {size / 2**20:+.1f} MiB" for sort, size in sorted(grown.items()))
    report.notes.append(f"growth of processes that lived through: {shown or 'none did'}")


class _Rounds:
    """Makes loads, each with clients and regions of its own."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        self._count = 0

    def load(self, name: str) -> Load:
        """Return a load that runs, in which every client has had answers."""
        first = self._count * _CLIENTS_PER_LOAD
        self._count += 1
        load = Load(self._plant.addresses, PATIENCE_S, f"manta-chaos-{os.getpid()}-{name}", first)
        try:
            load.wait_warm(_WARM_ANSWERS, _WARM_TIMEOUT_S)
        except TimeoutError:
            load.stop()
            raise
        return load

    def run(self, name: str) -> list[Journal]:
        """Run a load for a while; return what was written down."""
        load = self.load(name)
        time.sleep(_TAIL_S)
        return load.stop()


def strike_all(scene: Scene, report: Report) -> None:
    """Have everything of the schedule strike at its time."""
    begin_s = time.monotonic()
    for event in report.schedule.events:
        time.sleep(max(0.0, begin_s + event.at_s - time.monotonic()))
        report.strikes.append(_strike(scene, event))
        strike = report.strikes[-1]
        what = strike.left_out and f"not now: {strike.left_out}"
        say(f"{strike.begin_s - begin_s:7.1f} s {event.fault}: {what or strike.note}")
    time.sleep(max(0.0, begin_s + report.schedule.length_s - time.monotonic()))


def _strike(scene: Scene, event: Event) -> Strike:
    strike = Strike(event.fault, time.monotonic())
    fault = FAULTS[event.fault]
    strike.left_out = fault.why_not(scene.plant)
    if not strike.left_out:
        try:
            fault.inject(scene, event, strike)
        except NotNowError as error:
            strike.left_out = str(error)
    strike.over_s = time.monotonic()
    return strike


def _heal(scene: Scene) -> None:
    last = [""]

    def is_whole() -> bool:
        missing = scene.plant.missing(scene.wanted)
        if missing not in {"", last[0]}:
            say(f"        not whole: {missing}")
        last[0] = missing
        return not missing

    with contextlib.suppress(TimeoutError):
        wait_until(is_whole, _HEAL_S, "not whole")
        return
    raise TimeoutError(f"not whole within {_HEAL_S:g} s: {last[0]}")


def _settled(plant: Plant, before: leaks.Holdings | None = None) -> leaks.Holdings:
    """Return what is reserved once nothing changes any more, or has had time to go."""
    time.sleep(_SETTLE_S)
    holdings = leaks.take(plant)
    until_s = time.monotonic() + _SETTLE_TIMEOUT_S
    while before is not None and list(leaks.compare(before, holdings)):
        if time.monotonic() > until_s:
            break
        time.sleep(_SETTLE_S)
        holdings = leaks.take(plant)
    return holdings


def say(line: str) -> None:
    """Tell whoever watches."""
    print(line, file=sys.stderr, flush=True)
