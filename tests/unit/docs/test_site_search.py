# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What newcomers ask the search of the site: make docs asks it, here is what needs no site."""

from scripts import docs_hooks, make_llms
from tests.site.__main__ import QUESTIONS, not_found
from tests.unit.docs.pages import DOCS


def test_each_question_has_pages_that_there_are() -> None:
    assert len(QUESTIONS) >= 20
    right = {page for pages in QUESTIONS.values() for page in pages}
    assert [page for page in right if not (DOCS / f"{page}.md").exists()] == []


def test_a_question_is_found_by_any_of_its_pages_among_the_first_three() -> None:
    asked = {"a": ("x", "y"), "b": ("x",)}
    assert not_found(asked, [["p", "q", "y"], ["x"]]) == []
    (line,) = not_found(asked, [["x"], ["p", "q", "r", "x"]])
    assert line == "'b': expected x among the first 3, which are p, q, r"


def test_what_counts_more_in_the_search_are_sections_of_the_nav() -> None:
    sections = {section for section, _, _ in make_llms.pages(make_llms.site()["nav"])}
    assert docs_hooks.BOOSTS.keys() <= sections
