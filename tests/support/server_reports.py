# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A hook for conftest files of tests that start servers."""

from collections.abc import Generator
from typing import Any

import pytest

from tests.support.server import RunningServer

_SHOWN_LINES = 200


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Show, with a failure, what the servers have printed."""
    report = yield
    if report.failed:
        for server in RunningServer.started:
            text = "".join(server.printed()[-_SHOWN_LINES:])
            report.sections.append((f"server {server.pid}, exit {server.process.poll()}", text))
    return report
