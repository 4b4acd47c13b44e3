# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of plain text, which programs cut by columns as well as people read them. Pure."""

import textwrap
from collections.abc import Sequence
from typing import Final

_GAP: Final = "  "
_LEAST_LAST: Final = 20


def table(titles: Sequence[str], rows: Sequence[Sequence[object]], width: int = 0) -> str:
    """Return a table: a line a row, columns in line with each other.

    Args:
        titles: Of the columns.
        rows: Their cells; empty ones are shown as a dash.
        width: Of a terminal, to which the last column is cut; 0 for no limit.
    """
    lines = [[str(each) for each in titles]]
    lines += [[" ".join(str(cell).split()) or "-" for cell in row] for row in rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(titles))]
    room = max(width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1), _LEAST_LAST)
    if width:
        for line in lines:
            line[-1] = textwrap.shorten(line[-1], room, placeholder=" ...")
    return "\n".join(
        _GAP.join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
