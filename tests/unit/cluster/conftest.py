# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.support import fake_ray
from tests.support.fake_ray import FakeRay


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """Ray, for this test."""
    return fake_ray.install(monkeypatch)
