# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A page as one HTML file; ``page.html.jinja`` beside this module is its form."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from manta_tools.pages.content import Block, Page, Paragraph, Preformatted, Section, Table
from manta_tools.pages.figures import Figure
from manta_tools.pages.plotting import svg

_KINDS: Final = {Paragraph: "paragraph", Table: "table", Preformatted: "preformatted"}


def render(page: Page) -> str:
    """Return a page as HTML."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sections = [
        (section, list(_groups(section, f"{index}"))) for index, section in enumerate(page.sections)
    ]
    return environment.get_template("page.html.jinja").render(page=page, sections=sections)


def _groups(section: Section, key: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield the blocks by kind; figures that follow each other are one group."""
    number = 0
    for kind, blocks in groupby(section.blocks, _kind):
        if kind != "figures":
            yield from ((kind, [each]) for each in blocks)
            continue
        drawn: list[Any] = []
        for each in blocks:
            assert isinstance(each, Figure)  # noqa: S101 - what is no figure has another kind
            # Its texts are escaped by matplotlib.
            drawn.append((each, Markup(svg(each, f"{key}-{number}"))))  # noqa: S704
            number += 1
        yield kind, drawn


def _kind(block: Block) -> str:
    return _KINDS.get(type(block), "figures")
