# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has under-used nodes emptied, if that is asked for; see `cluster.placement.consolidation`."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
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


class Consolidation:
    """Looks at the nodes of one cluster again and again.

    Args:
        nodes: The nodes.
        placer: Starts nothing on those that are emptied.
        lifecycle: The models.
        ingress_labels: What the labels of nodes with an ingress meet; such nodes are not emptied.
        after_s: For how long a node must be under-used.
    """

    def __init__(
        self,
        nodes: Nodes,
        placer: Placer,
        lifecycle: ModelLifecycle,
        ingress_labels: Mapping[str, str],
        after_s: float,
    ) -> None:
        self._nodes = nodes
        self._placer = placer
        self._lifecycle = lifecycle
        self._ingress_labels = ingress_labels
        self._after_s = after_s
        self._state = ConsolidationState()

    async def look(self) -> None:
        """Look once, and begin to empty a node if there is one to be emptied."""
        cluster = await self._nodes.read_cluster()
        now_s = asyncio.get_running_loop().time()
        residents = tuple(self._residents())
        removable = tuple(self._removable(cluster))
        before = self._state.emptied
        # With thousands of instances it takes longer than the loop may stand still.
        self._state = state = await COMPUTING.run(
            decide, self._state, cluster, residents, removable, now_s, self._after_s
        )
        if state.emptied != before:
            _log.info("under-used node that is emptied: %s", state.emptied or "none")
        self._placer.kept_free = state.kept_free
        self._lifecycle.evacuation.look(state.leaving)

    def _residents(self) -> Iterator[Resident]:
        for name, record in self._lifecycle.records.items():
            for number in record.versions:
                pool = self._lifecycle.pool_of(name, number)
                for place in pool.places if pool is not None else ():
                    if place.node_id:
                        yield Resident(place.spec, place.node_id)

    def _removable(self, cluster: ClusterResources) -> Iterator[str]:
        for node in cluster.nodes:
            if _HEAD not in node.total and unmet(self._ingress_labels, node.labels):
                yield node.node_id
