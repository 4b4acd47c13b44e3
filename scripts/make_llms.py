#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/llms.txt: the pages of the site for programs that read, from mkdocs.yml.

https://llmstxt.org. Usage: make_llms.py
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "llms.txt"
_SITE: Final = ROOT / "mkdocs.yml"
_SOURCES: Final = "https://raw.githubusercontent.com/manta-serve/manta/main"
_HOME: Final = "index.md"


def site() -> dict[str, Any]:
    """Return what mkdocs.yml says."""
    loaded: dict[str, Any] = yaml.safe_load(_SITE.read_text())
    return loaded


def pages(nav: list[Any], section: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield top section, title and path of each page of a nav."""
    for entry in nav:
        ((title, below),) = entry.items()
        if isinstance(below, str):
            yield section, title, below
        else:
            yield from pages(below, section or title)


def source(path: str) -> str:
    """Return where a page's text lies in the repository."""
    return "README.md" if path == _HOME else f"docs/{path}"


def page() -> str:
    """Render the page."""
    config = site()
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}.", ""]
    last = ""
    for section, title, path in pages(config["nav"]):
        if section != last:
            lines += ["", f"## {section}", ""]
            last = section
        about = _first_sentence((ROOT / source(path)).read_text())
        lines.append(f"- [{title}]({_SOURCES}/{source(path)}){f': {about}' if about else ''}")
    return "\n".join([*lines, ""])


def _first_sentence(text: str) -> str:
    """Return the first sentence of the first paragraph, without links."""
    for block in text.split("\n\n")[1:]:
        if re.match(r"\w|`[^`]|\[", block) and not block.startswith("Made by "):
            plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(block.split()))
            return re.split(r"(?<=\.)\s", plain)[0].rstrip(":")
    return ""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
