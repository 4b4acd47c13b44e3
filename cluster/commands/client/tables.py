# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of plain text, which programs cut by columns as well as people read them. Pure."""

from collections.abc import Sequence
from typing import Final

_GAP: Final = "  "


def cells(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    """Return what is shown of rows: a line a cell, a dash where there is nothing."""
    return [[" ".join(str(cell).split()) or "-" for cell in row] for row in rows]


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table: a line a row, columns in line with each other."""
    lines = [list(titles), *cells(rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(titles))]
    return "\n".join(
        _GAP.join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
