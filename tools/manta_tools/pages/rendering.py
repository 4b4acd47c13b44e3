# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""From a page to HTML and to PDF, with libraries of the extra ``reports``.

matplotlib draws the figures: its layout of axes, ticks and legends is the hard part of a plot.
jinja2 makes HTML and escapes it. fpdf2 makes the PDF: it breaks tables over pages, which matplotlib
cannot, and needs no browser. All are imported when a page is drawn, no earlier.
"""

from importlib.util import find_spec
from typing import Final

from backends.api.errors import UnavailableError
from manta_tools.pages.content import Page

# Names of the packages by their modules.
_LIBRARIES: Final = {"matplotlib": "matplotlib", "jinja2": "jinja2", "fpdf": "fpdf2"}


def require_libraries() -> None:
    """Check that pages can be drawn; a tool does so before a long run.

    Raises:
        UnavailableError: A library is not installed.
    """
    missing = [package for module, package in _LIBRARIES.items() if find_spec(module) is None]
    if missing:
        raise UnavailableError(
            f"a report needs {' and '.join(missing)}; install manta-tools[reports]"
        )


def html(page: Page) -> str:
    """Return a page as one HTML file: no scripts, nothing to load, light and dark.

    Raises:
        UnavailableError: A library is not installed.
    """
    require_libraries()
    from manta_tools.pages.html_page import render  # noqa: PLC0415 - of the extra

    return render(page)


def pdf(page: Page) -> bytes:
    """Return a page as PDF, on A4.

    Raises:
        UnavailableError: A library is not installed.
    """
    require_libraries()
    from manta_tools.pages.pdf_page import render  # noqa: PLC0415 - of the extra

    return render(page)
