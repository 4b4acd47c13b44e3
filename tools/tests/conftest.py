# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The tools' tests: doubles are those of `tests.support`, settings those of the root's conftest."""

from pathlib import Path

import pytest

from tests.support.tools_distribution import declared_commands, write_metadata


@pytest.fixture
def installed_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an installation of the tools declares, also where they are only in the path."""
    monkeypatch.syspath_prepend(write_metadata(tmp_path / "installed", declared_commands()))
