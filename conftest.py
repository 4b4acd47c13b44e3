# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of all tests, of the server's in tests/ and of the tools' in tools/tests/."""

import gc
import os
from collections.abc import Generator

import hypothesis
import pytest
from slipcover import pytest_plugin

from tests.support.examples import examples
from tests.support.skips import (
    ALLOWED_SKIPS,
    LONG_TESTS,
    is_ci,
    reason_of,
    refuse_skip,
    unlisted,
    unmatched,
)

# A busy machine makes any example slow; no test is about time.
hypothesis.settings.register_profile("all-tests", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("all-tests")


# slipcover takes out its probes of lines that were run by way of the locals of every frame, which
# keep from then on what they refer to: tests of when memory is freed would fail. Left in they take
# no longer. Its option for that does not reach the processes of xdist.
if pytest_plugin._slipcover_instance is not None:  # noqa: SLF001
    pytest_plugin._slipcover_instance.d_miss_threshold = 1 << 30  # noqa: SLF001

_deselected = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Let no list of tests that CI does not run name one that is not there, or leave one out."""
    if session.testsfailed:  # a module that cannot be imported has no tests
        return
    arguments = [os.path.relpath(each, session.config.rootpath) for each in session.config.args]
    marked = [each.nodeid for each in items if any(each.iter_markers("long"))]
    wrong = unmatched(
        (row.test for row in ALLOWED_SKIPS), (each.nodeid for each in items), arguments
    )
    wrong += unmatched(LONG_TESTS, marked, arguments)
    if wrong:
        pytest.exit(
            f"ALLOWED_SKIPS or LONG_TESTS of tests/support name what no test is called: {wrong}",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )
    if missing := unlisted(marked):
        pytest.exit(
            f"tests are marked long: {missing}. Give the reason in LONG_TESTS of"
            " tests/support/skips.py.",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Note what is left out, for the end."""
    for each in items:
        each.config.stash.setdefault(_deselected, []).append(each.nodeid)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name what CI has left out, and why."""
    left_out = config.stash.get(_deselected, [])
    if not is_ci(os.environ) or not left_out:
        return
    terminalreporter.section("deselected")
    for nodeid in left_out:
        terminalreporter.write_line(f"{nodeid}: {reason_of(nodeid)}")


def pytest_collection_finish() -> None:
    """Keep tests and modules out of full collections: with them, each takes 0.3 s."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let no test be skipped in CI without a reason on the list."""
    report = yield
    refuse_skip(report, os.environ)
    # Some tests log what is no text, which does not pass from process to process.
    report.sections = [(name, _as_text(content)) for name, content in report.sections]
    return report


def _as_text(content: str) -> str:
    return content.encode(errors="backslashreplace").decode()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for whole modules."""
    report = yield
    refuse_skip(report, os.environ)
    return report
