# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The table of what faults may cost: complete, and the same in docs/chaos.md."""

from tests.chaos.faults import FAULTS
from tests.chaos.rules import COSTS, Cost
from tests.support.server import ROOT


def rows_of_the_page() -> dict[str, list[str]]:
    text = (ROOT / "docs/chaos.md").read_text()
    table = text.split("| fault | what it does |")[1].split("\n\n")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {cells[0].strip("`"): cells for cells in lines}


def cells_of(cost: Cost) -> list[str]:
    connections = "the node's" if cost.node else "yes" if cost.connections else "no"
    words = {True: "yes", False: "no"}
    return [words[cost.tied], connections, words[cost.control], f"{cost.after_s:g} s", cost.why]


def test_each_fault_has_a_row_of_what_it_may_cost() -> None:
    assert set(FAULTS) == set(COSTS)


def test_the_page_has_the_same_table() -> None:
    rows = rows_of_the_page()
    assert {name: cells[2:] for name, cells in rows.items()} == {
        name: cells_of(cost) for name, cost in COSTS.items()
    }


def test_each_cost_has_a_reason() -> None:
    assert all(cost.why for cost in COSTS.values())
