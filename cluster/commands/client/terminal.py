# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tables and progress on a terminal, drawn by rich.

Imported where there is a terminal only: rich takes a tenth of a second, and programs that read the
output get what `cluster.commands.client.tables` writes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

_GOOD: Final = "green"
_BUSY: Final = "yellow"
_BAD: Final = "red"
_STYLES: Final = {
    "READY": _GOOD,
    "live": _GOOD,
    "LOADING": _BUSY,
    "UNLOADING": _BUSY,
    "starting": _BUSY,
    "waiting": _BUSY,
    "leaving": _BUSY,
    "UNAVAILABLE": _BAD,
}


def drawn(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table whose last column is folded where a line would be wider than the terminal."""
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in titles[:-1]:
        made.add_column(title, no_wrap=True)
    made.add_column(titles[-1], overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell, _STYLES.get(cell, "")) for cell in row))
    return made


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print such a table."""
    Console().print(drawn(titles, rows))


@contextmanager
def screen() -> Iterator[Live]:
    """Give the whole terminal to what is shown, until the block ends; then it is as before."""
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        yield live


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Say what is being done, and for how long, until the block ends; then the line is gone."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        shown.add_task(doing, total=None)
        yield
