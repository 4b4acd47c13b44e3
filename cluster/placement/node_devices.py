# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the controller knows of the GPUs of its nodes.

Only nodes whose Ray has GPUs are asked, so that a cluster without any pays nothing. No process
stays there for it: whatever runs on a node keeps Ray's autoscaler from taking it away.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from cluster.devices.inventory import Inventory
from cluster.placement.demand import ClusterResources, NodeResources

_log = logging.getLogger(__name__)

# GPUs are plugged in, and divided, seldom. Who is about to take one asks again.
MAX_AGE_S: Final = 30.0

ReadDevices = Callable[[str], Awaitable[Inventory]]


@dataclass(frozen=True, slots=True)
class _Report:
    inventory: Inventory
    read_s: float


class NodeDevices:
    """The last report of each node.

    Args:
        read: Asks a node; raises OSError where that fails.
    """

    def __init__(self, read: ReadDevices) -> None:
        self._read = read
        self._reports: dict[str, _Report] = {}
        self._readings: dict[str, asyncio.Task[None]] = {}

    async def look(self, cluster: ClusterResources) -> ClusterResources:
        """Return the cluster with the GPUs of its nodes; waits for those never asked before."""
        nodes = [node for node in cluster.nodes if node.gpu_count]
        self._forget_all_but({node.node_id for node in nodes})
        stale = [node.node_id for node in nodes if self._is_older(node.node_id, MAX_AGE_S)]
        await asyncio.gather(*(self.refresh(node_id, MAX_AGE_S) for node_id in stale))
        devices = {}
        for node in nodes:
            inventory = self._usable(node)
            if inventory is not None:
                devices[node.node_id] = inventory
        return replace(cluster, devices=devices)

    async def refresh(self, node_id: str, max_age_s: float) -> bool:
        """Ask a node again whose report is older than that; whether it was."""
        if not self._is_older(node_id, max_age_s):
            return False
        reading = self._readings.get(node_id)
        if reading is None:
            reading = asyncio.create_task(self._ask(node_id))
            self._readings[node_id] = reading
            reading.add_done_callback(lambda _: self._readings.pop(node_id, None))
        await asyncio.shield(reading)
        return True

    def report(self, node_id: str) -> Inventory:
        """Return what a node told last."""
        known = self._reports.get(node_id)
        return Inventory() if known is None else known.inventory

    def _is_older(self, node_id: str, max_age_s: float) -> bool:
        report = self._reports.get(node_id)
        return report is None or asyncio.get_running_loop().time() - report.read_s > max_age_s

    async def _ask(self, node_id: str) -> None:
        known = self._reports.get(node_id)
        try:
            inventory = await self._read(node_id)
        except OSError as error:
            _log.warning("node %s does not tell its GPUs: %s", node_id, error)
            inventory = Inventory() if known is None else known.inventory
        if known is None or known.inventory.problems != inventory.problems:
            for problem in inventory.problems:
                _log.warning("GPUs of node %s: %s", node_id, problem)
        # Arranged as it comes, not when somebody asks all nodes for a MIG device.
        inventory.mig_devices("")
        self._reports[node_id] = _Report(inventory, asyncio.get_running_loop().time())

    def _usable(self, node: NodeResources) -> Inventory | None:
        """Return a node's GPUs; None when Ray says that it has some, and the node says nothing."""
        report = self._reports.get(node.node_id)
        if report is None or not report.inventory.gpus:
            return None
        return report.inventory.usable(node.gpu_count)

    def _forget_all_but(self, node_ids: set[str]) -> None:
        for node_id in self._reports.keys() - node_ids:
            del self._reports[node_id]
