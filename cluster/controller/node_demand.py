# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asks Ray's autoscaler for nodes while instances wait; see `cluster.placement.node_requests`."""

import asyncio
import logging
from dataclasses import dataclass, field

from cluster.controller.host import Nodes
from cluster.instances.placer import Placer
from cluster.placement.node_requests import NodeRequests, decide, requests_of, shape_for

_log = logging.getLogger(__name__)


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
        asked = decide(self._asked, wanted, cluster.nodes, now_s)
        requests = requests_of(asked)
        if requests != requests_of(self._asked):
            _log.info("nodes that are asked for: %s", list(map(str, requests)) or "none")
        await self.nodes.ask_for_nodes(requests)
        self._asked = asked
