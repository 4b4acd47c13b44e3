# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import re

from scripts import state_diagrams


def test_the_page_of_state_machines_is_current():
    assert state_diagrams.PAGE.read_text() == state_diagrams.page(), (
        "run: python scripts/state_diagrams.py"
    )


def test_every_table_has_transitions_with_names_that_mermaid_can_draw():
    for _, _, arrows in state_diagrams.MACHINES:
        rows = list(arrows())
        assert rows
        assert all(re.fullmatch(r"[A-Za-z_]+", word) for row in rows for word in row)
