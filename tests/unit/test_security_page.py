# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The table of bounds in docs/security.md: tests and flags that it names exist."""

import re
from pathlib import Path

from cluster.options.table import FLAGS
from tests.unit.test_case_pages import exists

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/security.md").read_text()


def rows() -> list[list[str]]:
    table = PAGE.split("## What a client can make the server use")[1].split("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_bound_has_a_test_that_exists() -> None:
    files: dict[str, str] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        files[path.name] = files.get(path.name, "") + path.read_text()
    assert len(rows()) > 40
    for what, _, _, shown in rows():
        named = re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", shown)
        assert named, what
        missing = [
            each for each in named if each[0] not in files or not exists(files[each[0]], each[1])
        ]
        assert missing == [], what


def test_every_flag_of_the_page_is_one() -> None:
    known = {f"--{flag.name}" for flag in FLAGS.values()}
    # Of `manta doctor` and `make attack`.
    others = {"--running", "--quick", "--only", "--seed"}
    named = set(re.findall(r"`?(--[a-z0-9][a-z0-9-]+)", PAGE))
    assert named - known - others == set()


def test_every_bound_says_by_which_flag_it_changes_or_that_it_is_fixed() -> None:
    for what, _, flag, _ in rows():
        assert flag == "fixed" or "--" in flag or flag.startswith("parameters "), what
