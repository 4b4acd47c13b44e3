# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What failed servers have printed is shown, and the process ends, as for integration tests."""

from tests.integration.conftest import (
    pytest_runtest_makereport,
    pytest_sessionfinish,
    pytest_unconfigure,
)

__all__ = ["pytest_runtest_makereport", "pytest_sessionfinish", "pytest_unconfigure"]
