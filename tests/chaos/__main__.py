# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Faults at random under mixed load: python -m tests.chaos --minutes 3 --seed 7.

The same seed strikes the same way again where the same faults can be had. Ends with 1 if a rule of
docs/chaos.md is broken; the schedule that broke it is printed then, for --schedule.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from tests.chaos.faults import FAULTS, kind_of
from tests.chaos.report import Report, text_of
from tests.chaos.run import Options, run
from tests.chaos.schedule import Schedule, draw_schedule, parse, render


def main() -> int:
    """Run what the command line names; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="faults strike (%(default)s)")
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="one run each")
    parser.add_argument("--only", default="", help="kinds of faults, with commas between")
    parser.add_argument("--schedule", type=Path, help="file with the schedule to run")
    parser.add_argument("--logs", type=Path, help="folder for what was printed")
    parser.add_argument("--list", action="store_true", help="print the kinds of faults and exit")
    parser.add_argument("--print", action="store_true", help="print the schedule and exit")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(FAULTS))
        return 0
    only = tuple(each for each in arguments.only.split(",") if each)
    unknown = sorted(set(only) - set(FAULTS))
    if unknown:
        parser.error(f"unknown faults {', '.join(unknown)}; expected some of {', '.join(FAULTS)}")
    schedule = None
    if arguments.schedule is not None:
        schedule = parse(arguments.schedule.read_text(), FAULTS)
    length_s = arguments.minutes * 60
    # Whoever ends this ends what it has started, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    is_kept = True
    for seed in arguments.seed:
        options = Options(seed, length_s, only, schedule, arguments.logs)
        if arguments.print:
            names = [kind_of(name) for name in FAULTS if not only or name in only]
            print(render(schedule or draw_schedule(seed, length_s, names)), end="")
            continue
        try:
            report = run(options)
        except Exception as error:  # it has to be told which seed it was
            report = Report(schedule or Schedule(seed, length_s, ()))
            report.breaches.append(f"{type(error).__name__}: {error}")
        print(text_of(report), flush=True)
        is_kept = is_kept and report.is_kept
    return 0 if is_kept else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Threads of gRPC sometimes crash while the interpreter is torn down.
    os._exit(status)
