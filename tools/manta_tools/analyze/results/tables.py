# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of results, for the console and as CSV.

Triton: model_analyzer/model_analyzer/result/result_table.py @63a0fec
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from manta_tools.analyze.results.rows import COLUMNS, Row
from manta_tools.analyze.tags import TAGS


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        title: What it is about.
        columns: Columns or tags, that have data.
        rows: Its rows, by column.
        missing: Columns that were asked for and have no data.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    missing: tuple[str, ...] = ()


def table(title: str, fields: Sequence[str], rows: Sequence[Row]) -> Table:
    """Return a table of some columns; those without any data are left out and named."""
    seen = {column for row in rows for column in row}
    return Table(
        title,
        tuple(each for each in fields if each in seen),
        tuple(rows),
        tuple(each for each in fields if each not in seen),
    )


def heading(column: str) -> str:
    """Return the heading of a column or tag."""
    if column in COLUMNS:
        return COLUMNS[column]
    return TAGS[column].title if column in TAGS else column


def as_text(shown: Table) -> str:
    """Return a table for a console."""
    lines = [[heading(each) for each in shown.columns]]
    lines += [[row.get(each, "") for each in shown.columns] for row in shown.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([f"{shown.title}:", *text, ""])


def as_csv(shown: Table, *, has_tags: bool = False) -> str:
    """Return a table as CSV, with headings; or with the columns' own names, for programs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([each if has_tags else heading(each) for each in shown.columns])
    writer.writerows([row.get(each, "") for each in shown.columns] for row in shown.rows)
    return text.getvalue()


def read_csv(text: str) -> list[Row]:
    """Read what `as_csv` has written with the columns' own names; empty cells are missing."""
    return [
        {column: cell for column, cell in row.items() if cell}
        for row in csv.DictReader(io.StringIO(text))
    ]
