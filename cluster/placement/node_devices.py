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
# A first process on a node takes seconds to start, and NVML one where nothing keeps the driver
# loaded. A driver that hangs says nothing for ever.
SILENT_AFTER_S: Final = 15.0

ReadDevices = Callable[[str], Awaitable[Inventory]]


@dataclass(frozen=True, slots=True)
class _Report:
    inventory: Inventory
    read_s: float


@dataclass(frozen=True, slots=True)
class _Reading:
    node_id: str
    work: asyncio.Task[None]
    begun_s: float


class NodeDevices:
    """The last report of each node.

    A node that says nothing keeps nobody waiting for longer than once, and its GPUs are nobody's
    until it tells them again. It is not asked anew before the question that hangs has ended.

    Args:
        read: Asks a node, which may take for ever; raises anything where it fails.
    """

    def __init__(self, read: ReadDevices) -> None:
        self._read = read
        self._reports: dict[str, _Report] = {}
        self._readings: dict[str, _Reading] = {}
        self._silent: set[str] = set()
        # What a look has come to is as good for the next, while neither nodes nor reports change.
        self._seen: tuple[ClusterResources, ClusterResources] | None = None

    async def look(self, cluster: ClusterResources) -> ClusterResources:
        """Return the cluster with the GPUs of its nodes; waits for those never asked before."""
        nodes = [node for node in cluster.nodes if node.gpu_count]
        self._forget_all_but({node.node_id for node in nodes})
        stale = [node.node_id for node in nodes if self._is_older(node.node_id, MAX_AGE_S)]
        readings = [self._begun(node_id) for node_id in stale]
        await asyncio.gather(*(self._wait(r) for r in readings if r.node_id not in self._reports))
        if self._seen is None or self._seen[0] is not cluster:
            usable = ((node.node_id, self._usable(node)) for node in nodes)
            devices = {node_id: found for node_id, found in usable if found is not None}
            self._seen = cluster, replace(cluster, devices=devices)
        return self._seen[1]

    async def refresh(self, node_id: str, max_age_s: float) -> bool:
        """Ask a node again whose report is older than that; whether something else is known now."""
        if not self._is_older(node_id, max_age_s):
            return False
        return await self._wait(self._begun(node_id))

    def report(self, node_id: str) -> Inventory:
        """Return what a node told last."""
        known = self._reports.get(node_id)
        return Inventory() if known is None else known.inventory

    def _is_older(self, node_id: str, max_age_s: float) -> bool:
        report = self._reports.get(node_id)
        return report is None or asyncio.get_running_loop().time() - report.read_s > max_age_s

    def _begun(self, node_id: str) -> _Reading:
        """Return the question to a node that is under way, or is from now on."""
        reading = self._readings.get(node_id)
        if reading is None:
            work = asyncio.create_task(self._ask(node_id))
            reading = _Reading(node_id, work, asyncio.get_running_loop().time())
            self._readings[node_id] = reading
        return reading

    async def _wait(self, reading: _Reading) -> bool:
        """Wait for a node as long as it may take; whether it has told, or is silent from now on."""
        node_id = reading.node_id
        left_s = reading.begun_s + SILENT_AFTER_S - asyncio.get_running_loop().time()
        if (await asyncio.wait({reading.work}, timeout=max(0.0, left_s)))[0]:
            return True
        if node_id in self._silent:
            return False
        text = "node %s has not told its GPUs for %g s; they are left alone until it does"
        _log.warning(text, node_id, SILENT_AFTER_S)
        self._silent.add(node_id)
        self._seen = None
        return True

    async def _ask(self, node_id: str) -> None:
        known = self._reports.get(node_id)
        try:
            inventory = await self._read(node_id)
            self._silent.discard(node_id)
        except Exception as error:
            # Ray's client raises what it likes.
            if node_id not in self._silent:
                _log.warning("node %s does not tell its GPUs: %s", node_id, error)
            inventory = Inventory() if known is None else known.inventory
        if known is None or known.inventory.problems != inventory.problems:
            for problem in inventory.problems:
                _log.warning("GPUs of node %s: %s", node_id, problem)
        # Arranged as it comes, not when somebody asks all nodes for a MIG device.
        inventory.mig_devices("")
        self._reports[node_id] = _Report(inventory, asyncio.get_running_loop().time())
        del self._readings[node_id]
        self._seen = None

    def _usable(self, node: NodeResources) -> Inventory | None:
        """Return a node's GPUs; None when Ray says that it has some, and the node says nothing."""
        report = self._reports.get(node.node_id)
        if report is None or not report.inventory.gpus or node.node_id in self._silent:
            return None
        return report.inventory.usable(node.gpu_count)

    def _forget_all_but(self, node_ids: set[str]) -> None:
        for node_id in (self._reports.keys() | self._readings.keys()) - node_ids:
            self._reports.pop(node_id, None)
            self._silent.discard(node_id)
            reading = self._readings.pop(node_id, None)
            if reading is not None:
                reading.work.cancel()
