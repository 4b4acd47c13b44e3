# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import pytest

from tests.support.skips import refuse_skip

CI = {"CI": "true"}
ALLOWED = {"tests/a.py::test_gpu": "no GPU"}


def _report(nodeid: str, outcome: str = "skipped") -> pytest.TestReport:
    return pytest.TestReport(
        nodeid, ("tests/a.py", 1, "a"), {}, outcome, ("tests/a.py", 1, "Skipped: no tool"), "setup"
    )


def test_a_skip_in_ci_is_a_failure_that_says_what_to_do() -> None:
    report = _report("tests/a.py::test_tool")
    refuse_skip(report, CI, ALLOWED)
    assert report.failed
    assert "tests/a.py::test_tool is skipped in CI: Skipped: no tool" in str(report.longrepr)


@pytest.mark.parametrize("environ", [{}, {"CI": ""}, {"CI": "false"}])
def test_elsewhere_a_skip_is_a_skip(environ: dict[str, str]) -> None:
    report = _report("tests/a.py::test_tool")
    refuse_skip(report, environ, ALLOWED)
    assert report.skipped


def test_a_skip_on_the_list_is_a_skip() -> None:
    report = _report("tests/a.py::test_gpu[0]")
    refuse_skip(report, CI, ALLOWED)
    assert report.skipped


def test_an_expected_failure_is_no_skip() -> None:
    report = _report("tests/a.py::test_tool")
    report.wasxfail = "known"
    refuse_skip(report, CI, ALLOWED)
    assert report.skipped


def test_what_passes_is_left_alone() -> None:
    report = _report("tests/a.py::test_tool", "passed")
    refuse_skip(report, CI, ALLOWED)
    assert report.passed
