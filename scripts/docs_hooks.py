# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""MkDocs hooks: README.md is the home page, links out of docs/ go to the repository, the search
prefers pages of newcomers.

https://www.mkdocs.org/dev-guide/plugins/#events
"""

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
REPOSITORY: Final = "https://github.com/manta-serve/manta/blob/main"
_HOME: Final = "index.md"
_DOCS: Final = "docs/"
# What a hit counts in the search, by the nav's top section; 1 elsewhere. Pages for contributors use
# the words of each question, too.
BOOSTS: Final = {"Tutorials": 2.0, "How-to": 2.0, "Explanation": 0.5, "Contributing": 0.1}
# Target and anchor of a link or picture; not of a URL, nor of an anchor of the same page.
LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")


def on_files(files: Any, config: Any) -> Any:
    """Add the home page."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - tests need no MkDocs

    text = (ROOT / "README.md").read_text()
    files.append(File.generated(config, _HOME, content=relinked(text, "README.md")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return a page with links that work on the site, and note what it counts in the search."""
    top = page.ancestors[-1].title if page.ancestors else ""
    page.meta["search"] = {"boost": BOOSTS.get(top, 1.0)}
    if page.file.src_uri == _HOME:
        return markdown
    return relinked(markdown, _DOCS + page.file.src_uri)


def relinked(text: str, page: str) -> str:
    """Return a page's text with links to pages of the site, or to files of the repository.

    Args:
        text: Markdown.
        page: Where it lies in the repository.
    """
    return LINK.sub(_target(page), text)


def _target(page: str) -> Callable[[re.Match[str]], str]:
    def target(found: re.Match[str]) -> str:
        path, anchor = found[1], found[2] or ""
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if not whole.startswith(_DOCS) or (ROOT / whole).is_dir():
            return f"{REPOSITORY}/{whole}{anchor}"
        # The home page lies beside the others on the site.
        return f"{whole.removeprefix(_DOCS)}{anchor}" if page == "README.md" else found[0]

    return target
