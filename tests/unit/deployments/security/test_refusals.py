# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import logging

import pytest

from deployments.security.refusals import RefusalLog

_LOG = logging.getLogger("test.refusals")


def test_refusals_of_a_kind_are_logged_once_an_interval(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 100.0
    refusals = RefusalLog(_LOG, lambda: now_s)
    for _ in range(1000):
        refusals.note(logging.WARNING, "connections", "refused")
    refusals.note(logging.WARNING, "requests", "another kind")
    assert [each.message for each in caplog.records] == ["refused", "another kind"]
    now_s = 101.5
    refusals.note(logging.WARNING, "connections", "refused")
    assert caplog.records[-1].message == "refused (999 more since the last such line)"
    now_s = 103.0
    refusals.note(logging.WARNING, "connections", "refused")
    assert caplog.records[-1].message == "refused"
