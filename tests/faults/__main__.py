# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the table of faults and prints it: python -m tests.faults [--only NAME ...].

Each fault has a server of its own, under busy keep-alive HTTP clients and as many gRPC calls. Ends
with 1 if a rule is broken.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from tests.faults.report import Report, failed, table
from tests.faults.run import run_fault
from tests.faults.scene import Options
from tests.faults.table import FAULTS


def main() -> int:
    """Run what the command line names; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FAULTS, metavar="NAME", help="only these")
    parser.add_argument("--list", action="store_true", help="print the names and exit")
    parser.add_argument(
        "--models",
        type=int,
        default=Options.models,
        help="models of the scrape storm (%(default)s)",
    )
    parser.add_argument(
        "--processes",
        type=int,
        help="of those, how many have a process (as memory allows); the others are ensembles",
    )
    parser.add_argument(
        "--concurrency", type=int, default=Options.concurrency,
        help="clients of each protocol (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--reloads", type=int, default=Options.reloads, help="of the reload loops (%(default)s)"
    )
    parser.add_argument("--logs", type=Path, help="folder for what each server prints")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(FAULTS))
        return 0
    options = Options(
        arguments.models,
        arguments.processes,
        arguments.concurrency,
        arguments.reloads,
        arguments.logs,
    )
    reports = [_run(name, options) for name in arguments.only or FAULTS]
    print(table(reports), flush=True)
    return 0 if all(report.is_kept for report in reports) else 1


def _run(name: str, options: Options) -> Report:
    print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
    begin_s = time.monotonic()
    try:
        report = run_fault(name, options)
    except Exception as error:
        report = failed(name, error)
    verdict = "kept" if report.is_kept else "BROKEN"
    print(f"{verdict} after {time.monotonic() - begin_s:.0f} s", flush=True, file=sys.stderr)
    return report


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Threads of gRPC sometimes crash while the interpreter is torn down.
    os._exit(status)
