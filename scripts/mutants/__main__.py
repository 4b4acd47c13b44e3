# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Mutates the pure rooms and counts the mutants that their unit tests notice.

    python -m scripts.mutants --room scheduling --count 40

Fails if a room's tests notice fewer than 85 of 100, or if they fail without a mutant. Of the
others it prints those that survivors.toml does not explain, and what that explains in vain.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.mutants.rooms import ROOMS, ROOT

LEAST_PERCENT: Final = 85
_SURVIVORS: Final = Path(__file__).parent / "survivors.toml"
_ROOMS_AT_ONCE: Final = 2
_NOTICED: Final = frozenset({"killed", "timeout"})


@dataclass(frozen=True)
class Survivor:
    """A mutant that was read, and why no test notices it."""

    room: str
    file: str
    function: str
    change: str
    reason: str


def survivors(path: Path = _SURVIVORS) -> list[Survivor]:
    """Read the list."""
    return [Survivor(**each) for each in tomllib.loads(path.read_text()).get("survivor", [])]


@dataclass(frozen=True)
class Outcome:
    """What came of a room's mutants."""

    room: str
    mutants: int
    killed: int
    no_test: int
    explained: int
    # Neither noticed nor explained.
    unexplained: tuple[Mapping[str, str], ...]
    # Explained as what survives, and noticed.
    outdated: tuple[Survivor, ...]
    seconds: float

    @property
    def percent(self) -> float:
        """Of all mutants, those that tests notice; explained ones are none of them."""
        return 100 * self.killed / self.mutants if self.mutants else 100.0


def outcome(
    room: str, rows: Iterable[Mapping[str, str]], known: Iterable[Survivor], seconds: float
) -> Outcome:
    """Count what came of a room's mutants."""
    rows = list(rows)
    told = {(each.file, each.function, each.change): each for each in known if each.room == room}
    alive = [each for each in rows if each["verdict"] not in _NOTICED]
    unexplained = tuple(each for each in alive if _key(each) not in told)
    living = {_key(each) for each in alive}
    noticed = {_key(each) for each in rows} - living
    return Outcome(
        room=room,
        mutants=len(rows),
        killed=len(rows) - len(alive),
        no_test=sum(each["verdict"] == "no test" for each in alive),
        explained=len(alive) - len(unexplained),
        unexplained=unexplained,
        outdated=tuple(each for key, each in told.items() if key in noticed),
        seconds=seconds,
    )


def _key(row: Mapping[str, str]) -> tuple[str, str, str]:
    return row["file"], row["function"], row["change"]


def run(room: str, arguments: argparse.Namespace) -> Outcome:
    """Make and run the mutants of a room.

    Raises:
        RuntimeError: The tests fail without a mutant.
    """
    begin = time.monotonic()
    results: Path = arguments.results
    results.mkdir(parents=True, exist_ok=True)
    mutants, verdicts = results / f"{room}.mutants", results / f"{room}.json"
    verdicts.unlink(missing_ok=True)
    making = [arguments.maker, "-m", "scripts.mutants.making"]
    with mutants.open("w") as made:
        subprocess.run(
            [*making, str(arguments.count), str(arguments.seed), *ROOMS[room].files(ROOT)],
            check=True,
            cwd=ROOT,
            stdout=made,
        )
    running = [sys.executable, "-m", "scripts.mutants.running", str(mutants), str(verdicts)]
    # Not what a gate opens for a run of all tests either: each test runs many times.
    plain = {"MANTA_COMPILED": "0", "MANTA_EXAMPLES_PERCENT": "25", "MANTA_TESTS": ""}
    ended = subprocess.run(
        [*running, *ROOMS[room].tests],
        check=False,
        cwd=ROOT,
        env=os.environ | plain | {"PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if not verdicts.exists():
        raise RuntimeError(f"the tests of {room} do not run:\n{ended.stdout}")
    mutants.unlink()
    rows = json.loads(verdicts.read_text())
    return outcome(room, rows, survivors(), time.monotonic() - begin)


def report(found: Outcome) -> None:
    """Print the room's row, and the survivors that nobody has explained."""
    print(
        f"{found.room:<12} {found.mutants:>7} {found.killed:>7} {found.percent:>5.1f} %"
        f" {found.mutants - found.killed - found.no_test:>9} {found.no_test:>8}"
        f" {found.explained:>10} {found.seconds:>5.0f} s",
        flush=True,
    )
    for each in found.unexplained:
        lines = each["lines"]
        print(f"    {each['file']}:{lines[0]} {each['function']}, {each['verdict']}")
        print(f"        {each['change']}")
    for known in found.outdated:
        print(f"    noticed, and explained in survivors.toml: {known.function}: {known.change}")


def main() -> int:
    """Run the rooms and print the table."""
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants", description=__doc__)
    parser.add_argument("--room", action="append", choices=ROOMS, help="may be repeated (all)")
    parser.add_argument("--count", type=int, default=200, help="mutants of each room (200)")
    parser.add_argument("--seed", type=int, default=0, help="chooses others (0)")
    parser.add_argument(
        "--maker", default=".cache/mutants/bin/python", help="the Python that has mutmut"
    )
    parser.add_argument("--results", type=Path, default=ROOT / ".cache/mutants")
    arguments = parser.parse_args()
    print(
        f"{'room':<12} {'mutants':>7} {'killed':>7} {'':>7} {'survived':>9} {'no test':>8}"
        f" {'explained':>10} {'time':>7}"
    )
    is_good = True
    # What collects a room's tests, and tells its mutants, is one process: another runs beside it.
    with ThreadPoolExecutor(_ROOMS_AT_ONCE) as rooms:
        for found in rooms.map(lambda room: run(room, arguments), arguments.room or ROOMS):
            report(found)
            is_good &= found.percent >= LEAST_PERCENT
    if not is_good:
        print(f"A room's tests must notice {LEAST_PERCENT} % of the mutants; see docs/testing.md.")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
