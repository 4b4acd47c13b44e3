# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the check says of generated models is what loading them in this process says."""

import asyncio
import sys
from pathlib import Path

import pytest

from cluster.commands.check.repository import check_repositories
from cluster.options.parsing import from_mapping
from tests.support.broken_repositories import HEALTHY, PARTS, generated, write_repository
from tests.support.loads_in_process import load_each

# 300 in tests/integration/test_check.py.
COUNT = 100


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_verdict_on_each_generated_model_is_that_of_its_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Loads set them.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(sys, "path", list(sys.path))
    models = write_repository(tmp_path, generated(COUNT))
    options = from_mapping({"model_repository": str(tmp_path)})
    verdicts = check_repositories(options, gpu_count=0).verdicts
    assert verdicts.keys() == models.keys()
    found = asyncio.run(load_each(tmp_path, models))
    different = {
        name: (models[name].kind, models[name].faults, found[name], verdict.reason)
        for name, verdict in verdicts.items()
        if verdict.loads != (not found[name])
    }
    # What code completes is left open, and said so; such a model may still fail for its tensors.
    left_open = {name for name in different if not verdicts[name].is_complete}
    assert {name: row for name, row in different.items() if name not in left_open} == {}
    assert all(verdicts[name].loads and found[name] for name in left_open)
    assert len(left_open) <= COUNT // 50


def test_the_models_that_faults_are_put_into_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(sys, "path", list(sys.path))
    models = write_repository(tmp_path, list(HEALTHY))
    report = check_repositories(from_mapping({"model_repository": str(tmp_path)}), gpu_count=0)
    failing = {"broken", "circle_a", "circle_b"}
    assert {name for name, verdict in report.verdicts.items() if not verdict.loads} == failing
    found = asyncio.run(load_each(tmp_path, models))
    assert {name for name, reason in found.items() if reason} == failing
    assert failing < PARTS.keys()
