# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the check says of generated models is what loading them in this process says."""

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from backends.api.errors import TritonError
from cluster.commands.check.repository import check_repositories
from cluster.controller.durable_state import DurableState
from cluster.controller.host import Nodes
from cluster.controller.repository_source import RepositorySource
from cluster.controller.shared_files import SharedFiles
from cluster.models.contracts import LifecycleSettings
from cluster.models.lifecycle import ModelLifecycle
from cluster.options.parsing import from_mapping
from deployments.instance.loading import load_instance
from deployments.instance.spec import InstanceDescription
from deployments.instance.watchdog import execution_timeout_us
from deployments.scheduling.factory import make_feeder, make_scheduler
from deployments.scheduling.shape_buckets import shape_buckets_of
from tests.support import instance_host
from tests.support.broken_repositories import HEALTHY, PARTS, generated, write_repository
from tests.support.controller_fakes import NODE_FILES, FakeHost
from tests.support.instance_host import FakeActor

# Loads models as a controller and its instances do, in this process: no Ray, no server.


class LoadingHost(instance_host.FakeHost):
    """Instances that are loaded and closed again in this process."""

    async def _describe(self, actor: FakeActor) -> InstanceDescription:
        loaded = load_instance(actor.spec)
        loaded.instance.close()
        make_feeder(loaded.config, loaded.state_files)
        shape_buckets_of(loaded.config)
        make_scheduler(loaded.config)
        execution_timeout_us(loaded.config)
        return replace(actor.description(), config=loaded.config)


async def load_each(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Load models one after the other; return why each failed, empty for those that loaded."""
    host = FakeHost(instances=LoadingHost())
    files = SharedFiles(cast("Nodes", host), host, NODE_FILES)
    state = await DurableState.create(host.store)
    options = from_mapping({"model_repository": str(root)})
    source = RepositorySource(options, state, host.read_cluster, files)

    async def know() -> None:
        await asyncio.sleep(0)

    lifecycle = ModelLifecycle(source, host.make_pool, lambda _: None, LifecycleSettings(), know)
    outcomes = {}
    for name in names:
        try:
            await lifecycle.load(name)
            outcomes[name] = ""
        except TritonError as error:
            cause = error.__cause__
            outcomes[name] = (cause if isinstance(cause, TritonError) else error).message
    await lifecycle.close(0)
    return outcomes


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
