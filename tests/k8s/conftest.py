# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is rendered once for all tests."""

import sys

import pytest

from tests.support.server import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import k8s_render as render


@pytest.fixture(scope="session")
def overlays() -> dict[str, render.Rendering]:
    """Every folder of Kustomize that is meant to be applied."""
    return {
        name: render.Rendering(name, render.kustomize(folder))
        for name, folder in render.overlays().items()
    }


@pytest.fixture(scope="session")
def charts() -> dict[str, render.Rendering]:
    """The chart with each file of values in ci/."""
    return {each.name.removeprefix("helm-"): each for each in render.charts()}
