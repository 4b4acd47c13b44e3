# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Some rows of the table that ``make faults`` runs, with fewer clients."""

import pytest

from tests.faults.report import Report, table
from tests.faults.run import run_fault
from tests.faults.scene import Options
from tests.faults.table import HEARTBEAT_TIMEOUT_S

_FEW_CLIENTS = Options(concurrency=8)

# A start for each row; make test has these claims in test_crashes, test_wedged, test_draining.
pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


def _run(name: str) -> Report:
    report = run_fault(name, _FEW_CLIENTS)
    assert report.is_kept, "\n" + table([report])
    assert report.ok > 0
    return report


def test_killed_instance_costs_no_answer_and_is_replaced() -> None:
    _run("sigkill-instance")


def test_stopped_instance_costs_no_answer_and_is_replaced() -> None:
    report = _run("sigstop-instance")
    assert report.healed_s is not None
    assert report.healed_s > HEARTBEAT_TIMEOUT_S / 2, "it was given up before its time"


def test_dead_execution_thread_costs_no_answer_and_its_instance_is_replaced() -> None:
    _run("execution-thread")


def test_sigterm_under_load_costs_no_answer() -> None:
    _run("sigterm")
