# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asks Ray's autoscaler for nodes while instances wait; see `cluster.placement.node_requests`."""

import asyncio
import logging

from cluster.controller.host import Nodes
from cluster.instances.placer import Placer
from cluster.placement.node_requests import NodeRequests, decide, requests_of, shape_for

_log = logging.getLogger(__name__)


class NodeDemand:
    """Looks at who waits again and again.

    Args:
        nodes: The nodes there are, and whom others are asked of.
        placer: Knows who waits.
    """

    def __init__(self, nodes: Nodes, placer: Placer) -> None:
        self._nodes = nodes
        self._placer = placer
        self._asked: NodeRequests = {}

    async def look(self) -> None:
        """Look once; ask for a node, or withdraw what was asked for."""
        waiting = self._placer.waiting_for_nodes
        if not waiting and not self._asked:
            return
        cluster = await self._nodes.read_cluster()
        shapes = {name: shape_for(spec, cluster) for name, spec in waiting.items()}
        wanted = {name: shape for name, shape in shapes.items() if shape is not None}
        now_s = asyncio.get_running_loop().time()
        asked = decide(self._asked, wanted, cluster.nodes, now_s)
        requests = requests_of(asked)
        if requests != requests_of(self._asked):
            _log.info("nodes that are asked for: %s", list(map(str, requests)) or "none")
        await self._nodes.ask_for_nodes(requests)
        self._asked = asked
