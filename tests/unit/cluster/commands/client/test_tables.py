# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of plain text."""

from cluster.commands.client.tables import table


def test_columns_are_in_line_and_empty_cells_are_dashes() -> None:
    assert table(("NAME", "N"), [("a", 1), ("long name", "")]).splitlines() == [
        "NAME       N",
        "a          1",
        "long name  -",
    ]


def test_a_cell_of_many_lines_is_one_line() -> None:
    assert table(("A",), [("one\n  two",)]) == "A\none two"
