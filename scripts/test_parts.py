# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""All tests in parts, one after the other: what `make test-all` runs, with a table at the end.

Each part is targets of the Makefile. One that fails does not keep those after it from running;
the exit status says that one has.
"""

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Part:
    """Some of all tests.

    Attributes:
        name: What is tested.
        targets: Arguments of make.
    """

    name: str
    targets: str


PARTS: Final = (
    Part(
        "unit tests, lint, types, stores and manifests; compiling beside them",
        "--jobs=2 --output-sync=target unit compiled-for-tests lint types stores k8s-check",
    ),
    # Thousands of histories of routers have run plain above.
    Part("unit tests of the compiled form", "unit-compiled MANTA_HISTORIES=34"),
    Part(
        "frameworks, demo models of all frameworks, foreign clients",
        "frameworks demo-models demo-frameworks interop-tools kserve-client",
    ),
    Part(
        "integration tests, two halves side by side",
        "--jobs=2 --output-sync=line integration-half-1 integration-half-2",
    ),
    Part("starts of servers, counted", "test-times MOST_STARTS=200"),
    Part("faults under load", "faults"),
    Part("the same requests to both forms", "compare-forms"),
    Part("wheels, installed elsewhere", "wheel-test"),
    Part("chaos, three seeds of five minutes", "chaos 'CHAOS=--minutes 5 --seed 1 2 3'"),
    Part("attacks, 300,000 requests", "attack 'ATTACK=--requests 300000'"),
    Part("fuzzing, ten seconds for each parser", "fuzz FUZZ_SECONDS=10"),
    Part("mutants", "mutants"),
    Part("documentation, and what newcomers ask its search", "docs"),
)
# Needs checkouts of Triton's repositories, which these variables name.
CONFORMANCE: Final = Part("conformance", "conformance")
_CHECKOUTS: Final = ("TRITON_CLIENT_SRC", "PYTHON_BACKEND_SRC", "TRITON_SERVER_SRC")


@dataclass(frozen=True)
class Outcome:
    """How a part went.

    Attributes:
        part: What ran.
        seconds: How long.
        status: What make exited with.
    """

    part: Part
    seconds: float
    status: int


def run(parts: Sequence[Part], make: str) -> list[Outcome]:
    """Run each part to its end, in order."""
    outcomes = []
    for part in parts:
        begun = time.monotonic()
        command = [make, "--no-print-directory", "--keep-going", *shlex.split(part.targets)]
        status = subprocess.run(command, check=False).returncode
        outcomes.append(Outcome(part, time.monotonic() - begun, status))
        print(table(outcomes[-1:]), flush=True)
    return outcomes


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a table in Markdown: parts, minutes and results, and all together."""
    rows = ["| part | minutes | result |", "|---|---|---|"]
    for each in outcomes:
        result = "failed" if each.status else "passed"
        rows.append(f"| {each.part.name} | {each.seconds / 60:.1f} | {result} |")
    if len(outcomes) > 1:
        failed = sum(each.status != 0 for each in outcomes)
        minutes = sum(each.seconds for each in outcomes) / 60
        rows.append(f"| together | {minutes:.1f} | {f'{failed} failed' if failed else 'passed'} |")
    return "\n".join(rows)


def main() -> int:
    """Run all parts, or those that are named by the beginning of their names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="parts whose names begin so")
    arguments = parser.parse_args()
    has_checkouts = any(os.environ.get(name) for name in _CHECKOUTS)
    parts = [*PARTS, *([CONFORMANCE] if has_checkouts else [])]
    if arguments.only:
        parts = [part for part in parts if part.name.startswith(tuple(arguments.only))]
    outcomes = run(parts, os.environ.get("MAKE", "make"))
    print(table(outcomes))
    return 1 if any(each.status for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
