# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from backends.api.errors import UnavailableError
from manta_tools.pages import rendering
from manta_tools.pages.content import Page, Paragraph, Preformatted, Section, Table
from manta_tools.pages.figures import (
    Axis,
    Bars,
    Front,
    Histogram,
    Lines,
    Part,
    Point,
    Scatter,
    Series,
)
from manta_tools.pages.rendering import html, pdf

NASTY = '<script>alert("1")</script> & $x_1$ {{ 7 }}'

FIGURES = (
    Lines(
        NASTY,
        Axis("ms", is_from_zero=True),
        Axis(NASTY),
        (Series(NASTY, (1, 2), (3, math.nan)),),
        has_points=True,
        note=NASTY,
    ),
    Lines(
        "Percentiles",
        Axis("share", "percentile"),
        Axis("us", "log"),
        (Series("1", (0, 0.5, 0.99), (10, 100, 1000)),),
        is_stepped=True,
    ),
    Scatter(
        "Configs",
        Axis("ms"),
        Axis("infer/s"),
        tuple(Point(index, index % 3, NASTY, "group") for index in range(50)),
        Front(is_less_x_better=True, is_less_y_better=False),
    ),
    Bars("Parts", ("1", NASTY), Axis("us"), (Part("queue", (1, 2)), Part("infer", (3, 4)))),
    Bars("Lying", ("1", NASTY), Axis("us"), (Part("queue", (1, 2)),), is_horizontal=True),
    Histogram("Latencies", Axis("us"), (0, 10, 20), (5, 7)),
)
EMPTY = (
    Lines("Nothing", Axis("x", "percentile"), Axis("y", "log"), ()),
    Scatter("No points", Axis("x", "log"), Axis("y"), (), Front(True, True)),
    Bars("No bars", (), Axis("y", is_from_zero=True), ()),
)
PAGE = Page(
    NASTY,
    (
        Section(
            NASTY,
            (
                Paragraph(NASTY),
                Paragraph("careful", "warning"),
                Table(("name", NASTY), ((NASTY, "1"),), NASTY, marked_rows=frozenset({0})),
                Preformatted(NASTY, NASTY),
            ),
        ),
        Section("Figures", FIGURES + EMPTY),
        Section("Wide", (Table(tuple("abcdefghijkl"), (("1",) * 12,) * 90),)),
    ),
    NASTY,
)


class Elements(HTMLParser):
    """The elements and the texts of a document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def drawn():
    return html(PAGE)


def test_every_text_is_escaped(drawn):
    elements = Elements(drawn)
    assert "script" not in {tag for tag, _ in elements.tags}
    # Title, headings, paragraphs, cells, captions, and in figures legends, labels and ticks.
    assert sum(NASTY in text for text in elements.texts) > 50


def test_a_page_loads_nothing(drawn):
    elements = Elements(drawn)
    assert {tag for tag, _ in elements.tags}.isdisjoint({"link", "img", "iframe", "object"})
    links = [
        value
        for _, attributes in elements.tags
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href")
    ]
    assert all((each or "").startswith("#") for each in links)
    assert "http" not in drawn
    assert "@import" not in drawn


def test_ids_of_a_page_are_there_once(drawn):
    ids = [attributes["id"] for _, attributes in Elements(drawn).tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([^)]*)\)", drawn)) <= set(ids)


def test_colours_of_figures_are_those_of_the_page(drawn):
    figures = re.findall(r"<svg.*?</svg>", drawn, flags=re.DOTALL)
    assert len(figures) == len(FIGURES + EMPTY)
    for each in figures:
        ElementTree.fromstring(re.sub("xlink:", "", each))
        assert not re.search(r"#[0-9a-f]{6}\b", each)
    assert "prefers-color-scheme: dark" in drawn
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", drawn))
    assert used <= set(re.findall(r"(--[a-z0-9-]+):", drawn))


def test_the_same_page_is_drawn_the_same(drawn):
    assert html(PAGE) == drawn


@pytest.mark.slow
def test_a_pdf_breaks_a_long_table_over_pages():
    drawn = pdf(PAGE)
    assert drawn.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", drawn)) > 4


def test_a_row_with_a_cell_too_few_is_refused():
    with pytest.raises(ValueError, match="a row has 1 cells for 2 columns"):
        Table(("a", "b"), (("1",),))


def test_a_missing_library_names_the_extra(monkeypatch):
    # As the import system has it for a module that is not there.
    monkeypatch.setitem(rendering._LIBRARIES, "no_such_module", "no-such-package")
    with pytest.raises(UnavailableError, match=r"needs no-such-package; .*manta-tools\[reports\]"):
        html(PAGE)


def test_libraries_are_imported_when_a_page_is_drawn():
    code = "import manta_tools.pages.rendering, sys; print('matplotlib' in sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=60
    )
    assert printed.stdout.strip() == "False"
