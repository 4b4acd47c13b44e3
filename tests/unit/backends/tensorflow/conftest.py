# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of what OpenVINO has compiled."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MANTA_OPENVINO_CACHE", str(folder))
    return folder
