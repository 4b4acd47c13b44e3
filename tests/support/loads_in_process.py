# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Loads models as a controller and its instances do, in this process: no Ray, no server."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from backends.api.errors import TritonError
from cluster.controller.durable_state import DurableState
from cluster.controller.host import Nodes
from cluster.controller.repository_source import RepositorySource
from cluster.controller.shared_files import SharedFiles
from cluster.instances.pool import InstancePool
from cluster.models.contracts import LifecycleSettings
from cluster.models.lifecycle import ModelLifecycle
from cluster.options.parsing import from_mapping
from deployments.instance.loading import load_instance
from deployments.instance.spec import InstanceSpec
from deployments.instance.watchdog import execution_timeout_us
from deployments.scheduling.factory import make_feeder, make_scheduler
from deployments.scheduling.shape_buckets import shape_buckets_of
from tests.support.control_plane_fakes import FakePool
from tests.support.controller_fakes import NODE_FILES, FakeHost


class PoolHere(FakePool):
    """Instances that are loaded and closed again in this process."""

    async def _start(self, spec: InstanceSpec) -> None:
        loaded = load_instance(spec)
        loaded.instance.close()
        self.staged_config = loaded.config
        self.staged[spec.name] = spec
        make_feeder(loaded.config, loaded.state_files)
        shape_buckets_of(loaded.config)
        make_scheduler(loaded.config)
        execution_timeout_us(loaded.config)


async def load_each(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Load models one after the other; return why each failed, empty for those that loaded."""
    host = FakeHost()
    files = SharedFiles(cast("Nodes", host), host.files, NODE_FILES)
    state = await DurableState.create(host.store)
    options = from_mapping({"model_repository": str(root)})
    source = RepositorySource(options, state, host.read_cluster, files)

    async def know() -> None:
        await asyncio.sleep(0)

    lifecycle = ModelLifecycle(
        source,
        lambda changed: cast("InstancePool", PoolHere(host.world, changed)),
        lambda _: None,
        LifecycleSettings(),
        know,
    )
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
