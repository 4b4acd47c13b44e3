# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the controller does of its own accord about nodes: those that drain, lack or idle."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cluster.controller.host import Nodes
from cluster.instances.placer import Placer
from cluster.models.lifecycle import ModelLifecycle
from cluster.placement import consolidation, node_requests
from cluster.placement.affinity import unmet
from cluster.placement.consolidation import ConsolidationState, Resident
from cluster.placement.demand import ClusterResources
from cluster.placement.node_requests import NodeRequests, requests_of, shape_for
from cluster.threads import COMPUTING

_log = logging.getLogger(__name__)

# Between two ends of what is left, while no node drains.
_END_EVERY_S: Final = 10.0
# The head has it, and is never removed.
_HEAD: Final = "node:__internal_head__"


@dataclass(slots=True, eq=False)
class DrainingNodes:
    """The nodes that drain."""

    nodes: Nodes
    placer: Placer
    lifecycle: ModelLifecycle
    _draining: frozenset[str] = frozenset()
    _ended_s: float = 0.0

    async def look(self) -> None:
        """Have instances moved off nodes that drain."""
        draining = await self.nodes.read_draining()
        if draining != self._draining:
            _log.info("nodes that drain: %s", ", ".join(sorted(draining)) or "none")
            self._draining = draining
        self.lifecycle.evacuation.look(draining)

    async def end_unused(self) -> None:
        """End what nobody uses on nodes: at once on those that drain."""
        now_s = asyncio.get_running_loop().time()
        if self._draining or now_s >= self._ended_s + _END_EVERY_S:
            self._ended_s = now_s
            await self.nodes.end_unused_actors(self.placer.nodes_in_use, self._draining)


@dataclass(slots=True, eq=False)
class NodeDemand:
    """Looks at who waits again and again."""

    nodes: Nodes
    placer: Placer
    _asked: NodeRequests = field(default_factory=dict)

    async def look(self) -> None:
        """Look once; ask for a node, or withdraw what was asked for."""
        waiting = self.placer.waiting_for_nodes
        if not waiting and not self._asked:
            return
        cluster = await self.nodes.read_cluster()
        shapes = {name: shape_for(spec, cluster) for name, spec in waiting.items()}
        wanted = {name: shape for name, shape in shapes.items() if shape is not None}
        now_s = asyncio.get_running_loop().time()
        asked = node_requests.decide(self._asked, wanted, cluster.nodes, now_s)
        requests = requests_of(asked)
        if requests != requests_of(self._asked):
            _log.info("nodes that are asked for: %s", list(map(str, requests)) or "none")
        await self.nodes.ask_for_nodes(requests)
        self._asked = asked


@dataclass(slots=True, eq=False)
class Consolidation:
    """Looks at the nodes of one cluster again and again.

    Attributes:
        placer: Starts nothing on those that are emptied.
        ingress_labels: What the labels of nodes with an ingress meet; such nodes are not emptied.
        after_s: For how long a node must be under-used.
    """

    nodes: Nodes
    placer: Placer
    lifecycle: ModelLifecycle
    ingress_labels: Mapping[str, str]
    after_s: float
    _state: ConsolidationState = field(default_factory=ConsolidationState)

    async def look(self) -> None:
        """Look once, and begin to empty a node if there is one to be emptied."""
        cluster = await self.nodes.read_cluster()
        now_s = asyncio.get_running_loop().time()
        residents = tuple(self._residents())
        removable = tuple(self._removable(cluster))
        before = self._state.emptied
        # With thousands of instances it takes longer than the loop may stand still.
        self._state = state = await COMPUTING.run(
            consolidation.decide, self._state, cluster, residents, removable, now_s, self.after_s
        )
        if state.emptied != before:
            _log.info("under-used node that is emptied: %s", state.emptied or "none")
        self.placer.kept_free = state.kept_free
        self.lifecycle.evacuation.look(state.leaving)

    def _residents(self) -> Iterator[Resident]:
        for _, _, pool in self.lifecycle.pools():
            for place in pool.places:
                if place.node_id:
                    yield Resident(place.spec, place.node_id)

    def _removable(self, cluster: ClusterResources) -> Iterator[str]:
        for node in cluster.nodes:
            if _HEAD not in node.total and unmet(self.ingress_labels, node.labels):
                yield node.node_id
