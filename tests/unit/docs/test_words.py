# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The pages use the field's words, so that a reader can search for them."""

import re
from pathlib import Path

import pytest

from tests.unit.docs.pages import DOCS, ROOT, pages, prose

# What is not to be said, and what is said in its place.
WORDS = {
    r"(?<!onnection )refuse[sd]?": "reject",
    r"refus(als?|ing)": "rejection, rejecting",
    r"(tells?|told|teller)": "report, notify, say",
    r"mend(s|ed|ing)?": "fix",
    r"anew": "again",
    r"go(es)? on": "continue",
    r"whoever": "a noun: a client, a process, a caller",
    r"whom": "which, or a noun",
}
# Of some pages alone, where an entry is a node with an ingress; elsewhere it may be one of a list.
ENTRIES = {"autoscaling.md", "kubernetes.md", "nodes.md", "operations.md"}
# Made from the tables of the code, and of what was decided when.
NOT_PASSED_OVER = {"state-machines.md"}


def passed_over() -> list[Path]:
    return [
        page
        for page in pages()
        if page.name not in NOT_PASSED_OVER and DOCS / "decisions" not in page.parents
    ]


def odd_words(text: str, page: str = "") -> list[str]:
    words = {**WORDS, **({r"entr(y|ies)": "ingress node"} if page in ENTRIES else {})}
    return [
        f"line {number}: '{found[0]}', say: {better}"
        for number, line in enumerate(prose(text).splitlines(), 1)
        for word, better in words.items()
        for found in re.finditer(rf"\b{word}\b", line, re.IGNORECASE)
    ]


def test_an_odd_word_is_found_in_prose_only() -> None:
    assert odd_words("All is\nrefused.") == ["line 2: 'refused', say: reject"]
    assert (
        odd_words('`--refused`, "who is refused", [x](#what-is-refused) Connection refused.') == []
    )
    assert odd_words("two entries") == []
    assert odd_words("two entries", "nodes.md") == ["line 1: 'entries', say: ingress node"]


@pytest.mark.parametrize("page", passed_over(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_says_it_in_the_words_of_the_field(page: Path) -> None:
    assert odd_words(page.read_text(), page.name) == []
