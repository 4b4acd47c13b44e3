# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The site: its nav has all pages, links lead to files, what is made by scripts is current."""

import posixpath
import re
from pathlib import Path

import pytest

from scripts import make_llms, make_session
from scripts.docs_hooks import LINK, REPOSITORY, relinked
from tests.unit.docs.pages import DOCS, ROOT, anchors, pages, prose_with_links

EXAMPLES = sorted((ROOT / "examples").iterdir())


def in_nav() -> list[str]:
    return [path for _, _, path in make_llms.pages(make_llms.site()["nav"])]


def test_the_nav_has_every_page_once() -> None:
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert sorted(in_nav()) == sorted({"index.md", *there})


def test_the_page_of_examples_has_a_row_for_each() -> None:
    page = (DOCS / "examples.md").read_text()
    rows = re.findall(r"^\| \[[^|]*\]\(\.\./examples/([^)]*)\) \|", page, re.MULTILINE)
    assert sorted(rows) == [each.name for each in EXAMPLES]


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda each: each.name)
def test_an_example_is_read_in_minutes(folder: Path) -> None:
    files = [each for each in folder.rglob("*") if each.suffix in {".md", ".pbtxt", ".py", ".yaml"}]
    assert folder / "README.md" in files
    assert sum(len(each.read_text().splitlines()) for each in files) <= 160


def test_llms_txt_is_what_the_script_makes() -> None:
    assert make_llms.PAGE.read_text() == make_llms.page(), "run: python scripts/make_llms.py"


def test_the_picture_of_a_session_is_what_the_script_makes_of_its_transcript() -> None:
    drawn = make_session.picture(make_session.TRANSCRIPT.read_text())
    assert make_session.PICTURE.read_text() == drawn, "run: python scripts/make_session.py"
    assert len(drawn) < 20_000


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = prose_with_links(page.read_text())
    broken = []
    for found in LINK.finditer(text):
        path = page.parent / found[1]
        if not path.exists() or (
            found[2] and path.suffix == ".md" and found[2][1:] not in anchors(path.read_text())
        ):
            broken.append(found[0])
    own = set(re.findall(r"\]\(#([^)\s]+)\)", text))
    assert (broken, own - anchors(page.read_text())) == ([], set())


def test_a_link_out_of_the_docs_goes_to_the_repository() -> None:
    text = "[a](../k8s/x.yaml) [b](perf.md#c) [d](https://x/y) [e](#f) [g](decisions)"
    assert relinked(text, "docs/y.md") == (
        f"[a]({REPOSITORY}/k8s/x.yaml) [b](perf.md#c) [d](https://x/y) [e](#f)"
        f" [g]({REPOSITORY}/docs/decisions)"
    )
    assert relinked("[a](docs/perf.md) [b](LICENSE)", "README.md") == (
        f"[a](perf.md) [b]({REPOSITORY}/LICENSE)"
    )
    assert posixpath.basename(REPOSITORY) == "main"


def test_the_readme_has_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert [line.split("#")[0].strip() for line in lines if line.startswith("make ")][:4] == [
        "make install",
        "make wheel",
        "make serve",
        "make test",
    ]


def test_a_request_of_the_readme_waits_for_the_server_that_was_started_before_it() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    started = next(
        at for at, line in enumerate(lines) if line.endswith("--model-repository models &")
    )
    request = next(line for line in lines[started:] if line.startswith("curl "))
    # While the model is loading the answer is an error, which curl retries with -f alone.
    assert request.startswith("curl -f --retry 30 --retry-all-errors ")
