# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What each server that a test run starts took: `python -m tests.support.start_times`.

Starts are most of what integration tests take, so a run keeps them, and too many are a failure.
"""

import argparse
import json
import os
import re
import sys
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

_MODELS: Final = re.compile(r"(\d+) (of \d+ )?models? ready after ")
FILE: Final = Path(__file__).resolve().parents[2] / ".cache/test-times.jsonl"


@dataclass
class StartTimes:
    """One server, in seconds; None for what it did not come to.

    Attributes:
        module: The test module that started it.
        first_line_s: From the command to the first line.
        ready_s: From the command until it was ready.
        models: Models that were ready, of those it was started with.
        end_s: From the signal to its end.
    """

    module: str
    first_line_s: float | None = None
    ready_s: float | None = None
    models: int = 0
    end_s: float | None = None


class StartClock:
    """Takes the times of one server as it starts and ends."""

    def __init__(self) -> None:
        module = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
        self._times = StartTimes(module or Path(sys.argv[0]).stem)
        self._began_s = time.monotonic()
        self._told_to_end_s: float | None = None
        self._is_written = False

    def saw(self, line: str) -> None:
        """Note a line of its output, the one that says that it is ready included."""
        now_s = time.monotonic() - self._began_s
        if self._times.first_line_s is None:
            self._times.first_line_s = now_s
        if (found := _MODELS.match(line)) is not None:
            self._times.models = int(found[1])
        if line.startswith("MANTA_READY "):
            self._times.ready_s = now_s

    def told_to_end(self) -> None:
        """Note that it was told to end."""
        self._told_to_end_s = time.monotonic()

    def ended(self) -> None:
        """Write what it took, once; the folder of the file is made where it is missing."""
        if self._is_written:
            return
        self._is_written = True
        if self._told_to_end_s is not None:
            self._times.end_s = time.monotonic() - self._told_to_end_s
        FILE.parent.mkdir(exist_ok=True)
        with FILE.open("a") as file:
            file.write(json.dumps(asdict(self._times)) + "\n")


def table(rows: list[StartTimes]) -> str:
    """Return a line for each test module, most seconds first, and their sum."""
    by_module: dict[str, list[StartTimes]] = defaultdict(list)
    for row in rows:
        by_module[row.module].append(row)
    lines = [_line("module", "starts", "first line", "ready", "models", "end")]
    for name, own in sorted(by_module.items(), key=lambda item: -_sum(item[1], "ready_s")):
        lines.append(_row(name, own))
    return "\n".join([*lines, _row("all", rows)])


def _row(name: str, rows: list[StartTimes]) -> str:
    sums = (f"{_sum(rows, each):.1f}" for each in ("first_line_s", "ready_s"))
    return _line(
        name, len(rows), *sums, sum(row.models for row in rows), f"{_sum(rows, 'end_s'):.1f}"
    )


def _line(name: str, *cells: object) -> str:
    return f"{name:48}" + "".join(f"{cell:>11}" for cell in cells)


def _sum(rows: list[StartTimes], field: str) -> float:
    return sum(getattr(row, field) or 0.0 for row in rows)


def main() -> int:
    """Print the table; 1 if there were more starts than allowed."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.start_times")
    parser.add_argument("--most", type=int, help="more starts than these are a failure")
    most = parser.parse_args().most
    lines = FILE.read_text().splitlines() if FILE.exists() else []
    rows = [StartTimes(**json.loads(line)) for line in lines]
    print(table(rows))  # noqa: T201 - its output
    if most is not None and len(rows) > most:
        print(  # noqa: T201 - its output
            f"{len(rows)} servers were started, at most {most} are allowed: have modules share one"
            " (tests/support/shared_server.py), or say in docs/testing.md why it takes another"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
