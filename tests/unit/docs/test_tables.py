# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of the pages are whole: Markdown ends one at an empty line, and shows the rest as text."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.docs.pages import ROOT, pages

RULE = re.compile(r"\|?[ :]*-+[ :]*(\|[ :]*-+[ :]*)*\|?")


def blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield lines that begin with a bar and follow each other, with the first one's number."""
    rows: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("|"):
            rows.append(line)
        elif rows:
            yield number - len(rows), rows
            rows = []


def faults(text: str) -> list[str]:
    without_code = re.sub(
        r"```.*?```", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL
    )
    return [
        f"line {number}: {rows[0]}"
        for number, rows in blocks(without_code)
        if len(rows) < 2 or not RULE.fullmatch(rows[1])
    ]


def test_a_table_that_an_empty_line_cuts_is_found() -> None:
    whole = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n"
    assert faults(whole) == []
    assert faults(whole.replace("| 3", "\n| 3")) == ["line 5: | 3 | 4 |"]
    assert faults(f"```\n{whole[-12:]}```\n") == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_table_has_a_head_and_a_rule(page: Path) -> None:
    assert faults(page.read_text()) == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_paragraph_begins_with_a_space(page: Path) -> None:
    text = page.read_text()
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert re.findall(r"^ \S.*$", outside, re.MULTILINE) == []
