# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import pytest

from tests.support.skips import AllowedSkip, reason_of, refuse_skip, unlisted, unmatched

CI = {"CI": "true"}
ALLOWED = (AllowedSkip("tests/a.py::test_gpu", "no GPU", "CI has none"),)
ENTRIES = ["tests/unit/a.py::", "tests/unit/b.py::test_gone"]
COLLECTED = ["tests/unit/a.py::test_x", "tests/unit/b.py::test_y"]


def _report(
    nodeid: str, outcome: str = "skipped", reason: str = "Skipped: no tool"
) -> pytest.TestReport:
    place = ("tests/a.py", 1, "a")
    return pytest.TestReport(nodeid, place, {}, outcome, (*place[:2], reason), "setup")


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
    report = _report("tests/a.py::test_gpu[0]", reason="Skipped: no GPU here")
    refuse_skip(report, CI, ALLOWED)
    assert report.skipped


def test_a_test_on_the_list_is_not_skipped_for_another_reason() -> None:
    report = _report("tests/a.py::test_gpu[0]", reason="Skipped: no namespaces")
    refuse_skip(report, CI, ALLOWED)
    assert report.failed


def test_an_expected_failure_is_no_skip() -> None:
    report = _report("tests/a.py::test_tool")
    report.wasxfail = "known"
    refuse_skip(report, CI, ALLOWED)
    assert report.skipped


def test_what_passes_is_left_alone() -> None:
    report = _report("tests/a.py::test_tool", "passed")
    refuse_skip(report, CI, ALLOWED)
    assert report.passed


@pytest.mark.parametrize("folder", ["tests/unit", "tests", "."])
def test_an_entry_that_no_test_of_a_whole_suite_matches_is_found(folder: str) -> None:
    assert unmatched(ENTRIES, COLLECTED, [folder]) == ["tests/unit/b.py::test_gone"]


@pytest.mark.parametrize(
    "argument", ["tests/unit/b.py", "tests/unit/b.py::test_y", "tests/stores", "tests/unit/a"]
)
def test_an_entry_is_not_judged_where_its_suite_is_not_run(argument: str) -> None:
    assert unmatched(ENTRIES, COLLECTED, [argument]) == []


def test_what_is_left_to_test_all_has_a_reason() -> None:
    listed = {"tests/a.py::test_x": "two nodes"}
    assert unlisted(["tests/a.py::test_x[1]", "tests/a.py::test_y"], listed) == [
        "tests/a.py::test_y"
    ]
    assert reason_of("tests/a.py::test_x[1]", listed) == "two nodes"
    assert "no reason" in reason_of("tests/a.py::test_y", listed)
