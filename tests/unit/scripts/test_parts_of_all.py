# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""`make test-all`: parts that run to their end, whatever fails, and a table of them."""

import re
import shlex
from pathlib import Path

from scripts.test_parts import CONFORMANCE, PARTS, Part, run, table

_MAKEFILE = Path(__file__).parents[3] / "Makefile"


def _make(folder: Path) -> str:
    """Write a program that notes what it is asked for and fails for the target `red`."""
    program = folder / "make"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/asked\ncase "$*" in *red*) exit 2;; esac\n'
    )
    program.chmod(0o755)
    return str(program)


def test_a_part_that_fails_keeps_no_other_from_running(tmp_path: Path) -> None:
    parts = [Part("one", "green"), Part("two", "red 'A=b c'"), Part("three", "green")]
    outcomes = run(parts, _make(tmp_path))
    assert [each.status for each in outcomes] == [0, 2, 0]
    assert (tmp_path / "asked").read_text().splitlines()[1].endswith("--keep-going red A=b c")


def test_the_table_says_what_failed_and_how_many(tmp_path: Path) -> None:
    rows = table(run([Part("one", "green"), Part("two", "red")], _make(tmp_path))).splitlines()
    assert [row.split("|")[1].strip() for row in rows[2:]] == ["one", "two", "together"]
    assert [row.split("|")[3].strip() for row in rows[2:]] == ["passed", "failed", "1 failed"]


def test_each_target_of_a_part_is_in_the_makefile() -> None:
    rules = re.findall(r"^([\w%-]+):", _MAKEFILE.read_text(), re.MULTILINE)
    for part in (*PARTS, CONFORMANCE):
        for target in shlex.split(part.targets):
            if target.startswith("--") or "=" in target:
                continue
            assert target in rules or re.sub(r"\d+$", "%", target) in rules, target
