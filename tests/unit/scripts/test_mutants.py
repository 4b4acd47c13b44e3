# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What counts of the mutants of a room, and what is said of those that no test notices."""

import pytest

from scripts.mutants.__main__ import Survivor, outcome, survivors
from scripts.mutants.rooms import ROOMS, ROOT


def row(change: str, verdict: str) -> dict[str, str]:
    return {"file": "rules.py", "function": "larger", "change": change, "verdict": verdict}


def test_an_explained_mutant_is_counted_as_not_noticed():
    rows = [row("a", "killed"), row("b", "timeout"), row("c", "survived"), row("d", "no test")]
    known = [Survivor("access", "rules.py", "larger", "c", "the same")]
    found = outcome("access", rows, known, 1.0)
    assert found.percent == 50
    assert (found.killed, found.no_test, found.explained) == (2, 1, 1)
    assert [each["change"] for each in found.unexplained] == ["d"]


def test_an_explanation_of_what_tests_notice_is_outdated():
    known = [Survivor("access", "rules.py", "larger", "a", "the same")]
    assert outcome("access", [row("a", "killed")], known, 1.0).outdated == tuple(known)
    assert outcome("models", [row("a", "killed")], known, 1.0).outdated == ()


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_mutated_where_its_tests_are(room):
    assert ROOMS[room].files(ROOT)
    assert all((ROOT / each).exists() for each in ROOMS[room].tests)


def test_survivors_are_explained_in_files_that_there_are():
    for each in survivors():
        assert each.file in ROOMS[each.room].files(ROOT), each
        assert each.reason, each
