# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has under-used nodes emptied, if that is asked for; see `cluster.placement.consolidation`."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cluster.controller.host import Nodes
from cluster.instances.placer import Placer
from cluster.models.lifecycle import ModelLifecycle
from cluster.placement.consolidation import ConsolidationState, Resident, decide
from cluster.placement.demand import ClusterResources
from cluster.placement.labels import unmet
from cluster.threads import COMPUTING

_log = logging.getLogger(__name__)

# The head has it, and is never removed.
_HEAD: Final = "node:__internal_head__"


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
            decide, self._state, cluster, residents, removable, now_s, self.after_s
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
