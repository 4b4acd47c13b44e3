# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of all tests."""

import os
from collections.abc import Generator

import hypothesis
import pytest

from tests.support.skips import refuse_skip

# A busy machine makes any example slow; no test is about time.
hypothesis.settings.register_profile("no-deadline", deadline=None)
hypothesis.settings.load_profile("no-deadline")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let no test be skipped in CI without a reason on the list."""
    report = yield
    refuse_skip(report, os.environ)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for whole modules."""
    report = yield
    refuse_skip(report, os.environ)
    return report
