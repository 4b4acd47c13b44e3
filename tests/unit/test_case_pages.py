# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The pages that map upstream's cases name tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def exists(text: str, name: str) -> bool:
    # Tables of cases are tests, too.
    test = rf"^((async )?def {name}\(|{name} = \w+_test\()"
    return not name or re.search(test, text, re.MULTILINE) is not None


@pytest.mark.parametrize(
    "page", ["scheduler-cases.md", "repository-cases.md", "backends/upstream-cases.md"]
)
def test_every_test_the_page_names_exists(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    files: dict[str, str] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in (path.name, f"{path.parent.name}/{path.name}"):
            files[name] = files.get(name, "") + path.read_text()
    named = re.findall(r"`((?:\w+/)?test_\w+\.py)(?:::(\w+))?`", text)
    assert len(named) > 60
    missing = [
        each for each in named if each[0] not in files or not exists(files[each[0]], each[1])
    ]
    assert missing == []
