# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A mutant counts as noticed if a test fails, and if one does not end."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from scripts.mutants.rooms import ROOT, Mutant

pytestmark = pytest.mark.slow

RULES = """def larger(one, other):
    while one != other:
        return max(one, other)
    return one


def unasked():
    return 1
"""
TESTS = """import rules


def test_the_larger_is_found():
    assert rules.larger(1, 2) == 2


def test_of_two_alike_one_is_found():
    assert rules.larger(2, 2) == 2
"""


def mutant(function: str, line: int, before: str, after: str) -> Mutant:
    first = 1 if function == "larger" else 7
    source = RULES.replace(before, after)
    return Mutant("rules.py", function, first, (line, line), f"{before} -> {after}", source)


def verdicts(folder: Path, *mutants: Mutant, tests: str = TESTS) -> dict[str, str]:
    """Run mutants of the rules above against the tests above."""
    (folder / "rules.py").write_text(RULES)
    (folder / "test_rules.py").write_text(tests)
    (folder / "mutants").write_text(json.dumps([asdict(each) for each in mutants]))
    running = [sys.executable, "-m", "scripts.mutants.running", "mutants", "results"]
    ended = subprocess.run(
        [*running, "test_rules.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{folder}"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (folder / "results").exists(), ended.stdout + ended.stderr
    found = json.loads((folder / "results").read_text())
    return {each["change"]: each["verdict"] for each in found}


def test_a_mutant_is_noticed_by_a_test_that_fails_or_does_not_end(tmp_path):
    assert verdicts(
        tmp_path,
        mutant("larger", 3, "max(", "min("),
        mutant("larger", 3, "return max(one, other)", "continue"),
        mutant("larger", 3, "max(one, other)", "max(other, one)"),
        mutant("unasked", 8, "return 1", "return 2"),
    ) == {
        "max( -> min(": "killed",
        "return max(one, other) -> continue": "killed",
        "max(one, other) -> max(other, one)": "survived",
        "return 1 -> return 2": "no test",
    }


def test_tests_that_fail_without_a_mutant_say_nothing_of_one(tmp_path):
    wrong = TESTS.replace("(1, 2) == 2", "(1, 2) == 1")
    with pytest.raises(AssertionError, match="test_the_larger_is_found fails without a mutant"):
        verdicts(tmp_path, mutant("larger", 3, "max(", "min("), tests=wrong)
