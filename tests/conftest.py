# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of all tests."""

import gc
import os
from collections.abc import Generator

import hypothesis
import pytest

from tests.support.examples import examples
from tests.support.skips import refuse_skip

# A busy machine makes any example slow; no test is about time.
hypothesis.settings.register_profile("all-tests", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("all-tests")


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
