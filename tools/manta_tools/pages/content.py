# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a page says, as values; texts are plain, and whoever draws them escapes them."""

from dataclasses import dataclass
from typing import Final, Literal

from manta_tools.pages.figures import Figure

_WIDE_COLUMNS: Final = 10


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph.

    Attributes:
        text: Its text.
        kind: text; or warning, which stands out.
    """

    text: str
    kind: Literal["text", "warning"] = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        columns: Titles of the columns.
        rows: Cells of each row, as many as there are columns.
        caption: A sentence above; empty for none.
        text_columns: How many columns, from the left, hold words; the others hold numbers, which
            stand at the right.
        marked_rows: Indexes of rows that stand out.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    text_columns: int = 1
    marked_rows: frozenset[int] = frozenset()

    @property
    def is_wide(self) -> bool:
        """Whether it needs small print to fit a page."""
        return len(self.columns) >= _WIDE_COLUMNS

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table '{self.caption}': a row has {len(row)} cells for "
                    f"{len(self.columns)} columns: {row}"
                )


@dataclass(frozen=True, slots=True)
class Preformatted:
    """Text whose lines and spaces stay, such as a configuration."""

    text: str
    caption: str = ""


Block = Paragraph | Table | Preformatted | Figure


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page; figures in a row stand side by side where there is room."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Attributes:
        title: Its title.
        sections: Its parts.
        lead: A sentence below the title; empty for none.
    """

    title: str
    sections: tuple[Section, ...]
    lead: str = ""
