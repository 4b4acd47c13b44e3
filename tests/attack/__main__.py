# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks a server of its own on loopback: python -m tests.attack [--quick] [--only FAMILY ...].

Prints a table; ends with 1 if anything was found. All choices are made by --seed.
"""

import argparse
import dataclasses
import os
import sys

from tests.attack.run import FAMILIES, run
from tests.attack.scene import QUICK, Options
from tests.attack.tally import table


def main() -> int:
    """Run what the command line names; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute's worth")
    parser.add_argument("--only", nargs="+", choices=FAMILIES, metavar="FAMILY")
    parser.add_argument("--seed", type=int, default=Options.seed)
    parser.add_argument("--requests", type=int, help="fuzzed ones")
    arguments = parser.parse_args()
    options = dataclasses.replace(QUICK if arguments.quick else Options(), seed=arguments.seed)
    if arguments.requests is not None:
        options = dataclasses.replace(options, requests=arguments.requests)
    tallies = run(options, arguments.only or tuple(FAMILIES))
    print(table(tallies), flush=True)
    return 1 if any(each.findings for each in tallies) else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Threads of gRPC sometimes crash while the interpreter is torn down.
    os._exit(status)
