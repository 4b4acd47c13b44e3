# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps idle workers on nodes for the next instances, while versions are dormant.

Workers are asked for when nothing is being woken: their processes would take the CPUs from the
instances that requests wait for.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from cluster.controller.host import Nodes
from cluster.instances.placer import Placer
from cluster.models.lifecycle import ModelLifecycle
from cluster.residency.prestart import KEPT_S, IdleWorkers
from deployments.instance.spec import InstanceDescription

# Looks at whether nodes have come, or versions have become dormant.
_LOOKS_BETWEEN: Final = 5


@dataclass(slots=True, eq=False)
class Prestarting:
    """What the controller does about it.

    Attributes:
        placer: Tells of instances that have taken a worker.
        count: How many workers each node shall have; 0 for none.
    """

    nodes: Nodes
    placer: Placer
    lifecycle: ModelLifecycle
    count: int
    _workers: IdleWorkers = field(init=False)
    _was_taken: bool = False
    _look_count: int = 0

    def __post_init__(self) -> None:
        self._workers = IdleWorkers(self.count)
        self.placer.on_loaded.append(self._loaded)

    async def look(self) -> None:
        """Ask for workers where some lack, unless something is being woken."""
        self._look_count += 1
        if not self._was_taken and self._look_count % _LOOKS_BETWEEN:
            return
        if self.lifecycle.dormancy.waking_count or not self._is_wanted():
            return
        self._was_taken = False
        cluster = await self.nodes.read_cluster()
        now_s = asyncio.get_running_loop().time()
        counts = self._workers.missing(cluster.nodes, self.placer.kept_free, now_s)
        if counts:
            self._workers.asked(await self.nodes.prestart(counts, KEPT_S), now_s)

    def _loaded(self, description: InstanceDescription) -> None:
        # With an environment of its own it had a process of its own.
        if not description.spec.runtime_env:
            self._workers.taken(description.endpoint.node_id)
            self._was_taken = True

    def _is_wanted(self) -> bool:
        return self.count > 0 and any(
            (record.is_on_demand and not record.ready_versions)
            or any(version.is_dormant for version in record.versions.values())
            for record in self.lifecycle.records.values()
        )
