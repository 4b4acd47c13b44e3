# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The gate of tests that take too long for every change."""

import pytest

from tests.support.gates import VARIABLE, amount, is_all


def test_the_gate_is_open_for_all_only(monkeypatch):
    assert is_all({VARIABLE: "all"})
    assert not is_all({})
    with pytest.raises(ValueError, match="MANTA_TESTS is 'all' or not set, not 'al'"):
        is_all({VARIABLE: "al"})


@pytest.mark.parametrize(
    ("value", "asked", "found"), [("", "", 10), ("all", "", 30), ("", "7", 7), ("all", "7", 7)]
)
def test_a_test_makes_more_where_the_gate_is_open(monkeypatch, value, asked, found):
    monkeypatch.setenv(VARIABLE, value)
    monkeypatch.setenv("MANTA_SOME", asked)
    assert amount(10, 30, "MANTA_SOME") == found
