# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta check``."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import backends
from backends.api.errors import TritonError
from cluster.commands.check.defects import Severity
from cluster.commands.check.repository import Report, check_repositories, error_count
from cluster.options.parsing import OptionError, parse_options
from cluster.repository.single_model import SingleModels

_DESCRIPTION: Final = """Check every model of repositories without loading it. Each defect is a
line: file:line:column, what a load would say, and what to do. Flags of 'manta serve' may follow,
such as --model-config-name, --backend-directory, --backend-config and
--disable-auto-complete-config."""
_EXIT_CODES: Final = "exit code: 0 all models load, 1 there are defects, 2 nothing could be checked"


def main(arguments: Sequence[str]) -> int:
    """Run ``manta check`` and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="manta check", description=_DESCRIPTION, epilog=_EXIT_CODES, allow_abbrev=False
    )
    parser.add_argument(
        "repository", nargs="+", help="model repository, a model's folder, or a framework's file"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--strict", action="store_true", help="warnings count as errors")
    parser.add_argument(
        "--gpus", type=int, metavar="N", help="GPUs of the server; default: those configs name"
    )
    given, flags = parser.parse_known_args(arguments)
    singles = SingleModels({})
    try:
        places = singles.repositories(given.repository)
        made = set(places) - set(given.repository)
        options = parse_options(
            [*(f"--model-repository={each}" for each in places), *flags], os.environ
        )
        with _quiet_backends():
            report = check_repositories(options, given.gpus, sources=given.repository)
    except (OptionError, TritonError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        singles.close()
    for path, reason in report.errors.items():
        print(f"error: {path}: {reason}", file=sys.stderr)
    count = error_count(report.verdicts.values(), strict=given.strict)
    shown = _as_json(report) if given.json else _as_text(report)
    for folder in made:
        shown = shown.replace(f"{folder}/", "")
    print(shown)
    if report.errors:
        return 2
    return 1 if count else 0


@contextmanager
def _quiet_backends() -> Iterator[None]:
    """Keep to itself what backends would log of each load."""
    logger = logging.getLogger(backends.__name__)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _as_text(report: Report) -> str:
    verdicts = report.verdicts.values()
    lines = [str(defect) for verdict in verdicts for defect in verdict.defects]
    counts = {
        severity: sum(each.severity is severity for v in verdicts for each in v.defects)
        for severity in (Severity.ERROR, Severity.WARNING)
    }
    loading = sum(verdict.loads for verdict in verdicts)
    lines.append(
        f"{loading} of {len(report.verdicts)} models load, {counts[Severity.ERROR]} errors, "
        f"{counts[Severity.WARNING]} warnings"
    )
    return "\n".join(lines)


def _as_json(report: Report) -> str:
    models = [
        {
            "name": verdict.name,
            "loads": verdict.loads,
            "versions": sorted(verdict.configs) if verdict.loads else [],
            "defects": [defect.as_json() for defect in verdict.defects],
        }
        for verdict in report.verdicts.values()
    ]
    loads = all(model["loads"] for model in models)
    return json.dumps({"loads": loads, "errors": report.errors, "models": models}, indent=2)
