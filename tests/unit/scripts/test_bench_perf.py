# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the comparison with perf_analyzer, without any server."""

import importlib

import pytest

from tests.support.server import ROOT


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("bench_perf")


def test_a_row_has_the_medians_of_the_rounds_ratios(bench):
    rounds = [
        {
            bench.OWN: bench.Measured(own, 100, 100, 300, 20),
            bench.THEIRS: bench.Measured(theirs, 200, 100, 100, 80),
        }
        for own, theirs in ((100, 100), (90, 100), (300, 100))
    ]
    assert bench.line("case", rounds) == (
        "| case | 1.00 (0.90 to 3.00) | 0.50 (0.50 to 0.50) | 1.00 (1.00 to 1.00) | "
        "3.00 (3.00 to 3.00) | 20 | 80 |"
    )


def test_a_program_that_fails_has_no_cpu_time(bench, monkeypatch):
    monkeypatch.setitem(bench.PROGRAMS, bench.THEIRS, ("false",))
    assert bench.run(bench.THEIRS, ()) is None
