# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta doctor``."""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from backends.api.errors import TritonError
from cluster.commands.doctor.collecting import collect, look_at_cluster
from cluster.commands.doctor.facts import Facts
from cluster.commands.doctor.rules import Finding, Severity, examine
from cluster.options.parsing import OptionError, ServerOptions, parse_options
from cluster.options.table import ALIASES

_DESCRIPTION: Final = """Say what leaves a server open to others, why, and how to mend it. Give the
flags of 'manta serve'; variables and files are read as the server would. With --running the Ray
cluster that runs, by --ray-address or on this machine, is looked at too, and the options are those
of the server that runs on it, if one does. Nothing is changed."""
_EXIT_CODES: Final = "exit code: 0 nothing worse than a note, 1 findings, 2 nothing to look at"

_OF_SERVER: Final = "options: those of the server that runs on the cluster"
_OF_FLAGS: Final = "options: those given here; no server that answers runs on the cluster"

_REPOSITORY: Final = "model-repository"
_REPOSITORY_FLAGS: Final = frozenset(
    f"--{name}" for name in (_REPOSITORY, *ALIASES) if ALIASES.get(name, name) == _REPOSITORY
)

Collect = Callable[[ServerOptions, Mapping[str, str]], Facts]
Look = Callable[[Facts, str], Facts]


def main(arguments: Sequence[str], collect: Collect = collect, look: Look = look_at_cluster) -> int:
    """Run ``manta doctor`` and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="manta doctor", description=_DESCRIPTION, epilog=_EXIT_CODES, allow_abbrev=False
    )
    parser.add_argument("--running", action="store_true", help="look at the cluster that runs")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--strict", action="store_true", help="notes count, too")
    given, flags = parser.parse_known_args(arguments)
    # A plan may lack its repository.
    is_named = any(flag.partition("=")[0] in _REPOSITORY_FLAGS for flag in flags)
    flags = flags if is_named else [*flags, "--model-repository=/"]
    try:
        options = parse_options(flags, os.environ)
        facts = collect(options, os.environ)
        if given.running:
            facts = look(facts, options.ray_address)
            print(_OF_SERVER if facts.is_of_server else _OF_FLAGS, file=sys.stderr)
    except (OptionError, TritonError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    findings = examine(facts)
    print(_as_json(findings) if given.json else _as_text(findings))
    counted = [each for each in findings if given.strict or each.severity is not Severity.NOTE]
    return 1 if counted else 0


def _as_json(findings: Sequence[Finding]) -> str:
    return json.dumps({"findings": [each.as_json() for each in findings]}, indent=2)


def _as_text(findings: Sequence[Finding]) -> str:
    lines = []
    for each in findings:
        lines += [
            f"{each.severity}: {each.what} [{each.rule}]",
            f"    why: {each.why}",
            f"    mend: {each.mend}",
        ]
    counts = Counter(each.severity for each in findings)
    shown = ", ".join(f"{counts[severity]} {severity}s" for severity in Severity)
    return "\n".join([*lines, shown])
