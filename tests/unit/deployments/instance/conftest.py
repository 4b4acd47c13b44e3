# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What instances keep until their process ends."""

from collections.abc import Iterator

import pytest

from deployments.instance import model_files


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets go of what instances of a test hold, as the end of their process would."""
    monkeypatch.setattr(model_files, "_caches", [])
    yield
    while model_files._caches:
        model_files._caches.pop().close()
