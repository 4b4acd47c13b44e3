# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Coverage floors: what the unit tests reach of each room, lines and branches, beside a table.

    python scripts/coverage_floors.py .cache/coverage.json
    python scripts/coverage_floors.py .cache/coverage.json --write

Reads what `slipcover --json` writes. Fails where a room is below its floor in
scripts/coverage_floors.toml, or has none; ``--write`` sets each floor a little below what was
measured, so that a floor only ever falls in a change that says so.
"""

import argparse
import json
import math
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

TABLE: Final = Path(__file__).with_suffix(".toml")
# Below what was measured: some lines are reached by luck, as of races that a test provokes.
_SLACK_PERCENT: Final = 1.5
_WORST_FILES: Final = 5
_HEAD: Final = """\
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# Percent of lines and branches that the unit tests reach at least, by room; see docs/testing.md.
# scripts/coverage_floors.py holds a run against this table, and writes it.

[floors]
"""


@dataclass(frozen=True)
class Reached:
    """Lines and branches of a file or a room, counted together.

    Attributes:
        covered: Those that a test has reached.
        missing: Those that none has.
    """

    covered: int = 0
    missing: int = 0

    def __add__(self, other: "Reached") -> "Reached":
        return Reached(self.covered + other.covered, self.missing + other.missing)

    @property
    def percent(self) -> float:
        """The share that was reached; 100 of nothing."""
        total = self.covered + self.missing
        return 100.0 * self.covered / total if total else 100.0


def room_of(path: str) -> str:
    """Return a file's room: the folder below its package; a module beside rooms is one of its own.

    Args:
        path: From the repository's root, with slashes.
    """
    parts = path.split("/")
    depth = 3 if parts[0] == "tools" else 2
    return "/".join(parts[:depth])


def files_of(report: Mapping[str, Any]) -> dict[str, Reached]:
    """Return what was reached of each file of a report of slipcover.

    Raises:
        ValueError: Branches were not measured.
    """
    if not report["meta"]["branch_coverage"]:
        raise ValueError("the report is without branches; measure with slipcover --branch")
    return {path: _reached(row["summary"]) for path, row in report["files"].items()}


def _reached(row: Mapping[str, int]) -> Reached:
    return Reached(
        row["covered_lines"] + row["covered_branches"],
        row["missing_lines"] + row["missing_branches"],
    )


def rooms_of(files: Mapping[str, Reached]) -> dict[str, Reached]:
    """Add up the files of each room, in the order of names; empty files count for nothing."""
    rooms: defaultdict[str, Reached] = defaultdict(Reached)
    for path, reached in files.items():
        if reached.covered + reached.missing:
            rooms[room_of(path)] += reached
    return dict(sorted(rooms.items()))


def complaints(rooms: Mapping[str, Reached], floors: Mapping[str, float]) -> list[str]:
    """Return what is wrong, a line for each room; nothing where each is at its floor or above."""
    found = [
        f"{room}: {reached.percent:.1f} % is below its floor of {floors[room]:g} %"
        for room, reached in rooms.items()
        if room in floors and reached.percent < floors[room]
    ]
    found += [
        f"{room}: has no floor; add it to {TABLE.name}, measured: {reached.percent:.1f} %"
        for room, reached in rooms.items()
        if room not in floors
    ]
    gone = sorted(floors.keys() - rooms.keys())
    return found + [
        f"{room}: is in {TABLE.name} and not in the sources; remove it" for room in gone
    ]


def floors_for(rooms: Mapping[str, Reached]) -> dict[str, int]:
    """Return the floor of each room for what was measured."""
    return {
        room: max(0, math.floor(reached.percent - _SLACK_PERCENT))
        for room, reached in rooms.items()
    }


def lowest(files: Mapping[str, Reached], room: str) -> list[str]:
    """Return the files of a room that lack most, as lines of text."""
    own = [path for path in files if room_of(path) == room and files[path].missing]
    own.sort(key=lambda path: (-files[path].missing, path))
    return [
        f"    {path}: {files[path].percent:.1f} %, {files[path].missing} lines and branches missing"
        for path in own[:_WORST_FILES]
    ]


def render(floors: Mapping[str, int]) -> str:
    """Return the table of floors as TOML."""
    return _HEAD + "".join(f'"{room}" = {floor}\n' for room, floor in sorted(floors.items()))


def table_of(rooms: Mapping[str, Reached], floors: Mapping[str, float]) -> Iterable[str]:
    """Yield the lines of what is printed."""
    width = max(map(len, rooms), default=0)
    for room, reached in rooms.items():
        floor = f"{floors[room]:5g}" if room in floors else "    -"
        yield f"{room:{width}}  {reached.percent:5.1f} %  floor {floor}"


def main(arguments: list[str] | None = None) -> int:
    """Judge a report; return the exit status."""
    parser = argparse.ArgumentParser(description="Holds the unit tests' coverage against floors.")
    parser.add_argument("report", type=Path, help="what slipcover --branch --json has written")
    parser.add_argument("--write", action="store_true", help="set the floors to this report")
    parser.add_argument("--table", type=Path, default=TABLE, help="the floors (%(default)s)")
    options = parser.parse_args(arguments)
    files = files_of(json.loads(options.report.read_text()))
    rooms = rooms_of(files)
    if options.write:
        options.table.write_text(render(floors_for(rooms)))
    floors: dict[str, float] = tomllib.loads(options.table.read_text())["floors"]
    for line in table_of(rooms, floors):
        print(line)
    wrong = complaints(rooms, floors)
    for line in wrong:
        print(line)
        room = line.split(":", 1)[0]
        print(*lowest(files, room), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
