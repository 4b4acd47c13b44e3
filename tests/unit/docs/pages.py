# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The pages for people, and their prose: a page without code, links' targets and quotations."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
DOCS: Final = ROOT / "docs"
_NO_PROSE: Final = re.compile(
    r"```.*?```|^ {4}[^\n]*$|`[^`\n]*`|\]\([^)]*\)|\"[^\"\n]*\"", re.DOTALL | re.MULTILINE
)


def pages() -> list[Path]:
    """Return README.md, all pages of the site, decisions too, and the README of each example."""
    examples = sorted((ROOT / "examples").glob("*/README.md"))
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), *examples]


def prose(text: str) -> str:
    """Return a page's text with what is not prose cut out; lines keep their numbers."""
    return _NO_PROSE.sub(lambda found: "\n" * found[0].count("\n"), text)


def prose_with_links(text: str) -> str:
    """Return a page's text without code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    without_code = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", without_code, re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", each) for each in headings)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in plain}
