# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has nodes emptied that drain, and ends what instances have left on nodes without any."""

import asyncio
import logging
from typing import Final

from cluster.controller.host import Nodes
from cluster.instances.placer import Placer
from cluster.models.lifecycle import ModelLifecycle

_log = logging.getLogger(__name__)

# Between two ends of what is left, while no node drains.
_END_EVERY_S: Final = 10.0


class DrainingNodes:
    """The nodes that drain.

    Args:
        nodes: All nodes.
        placer: Knows on which of them instances are.
        lifecycle: The models.
    """

    def __init__(self, nodes: Nodes, placer: Placer, lifecycle: ModelLifecycle) -> None:
        self._nodes = nodes
        self._placer = placer
        self._lifecycle = lifecycle
        self._draining: frozenset[str] = frozenset()
        self._ended_s = 0.0

    async def look(self) -> None:
        """Have instances moved off nodes that drain."""
        draining = await self._nodes.read_draining()
        if draining != self._draining:
            _log.info("nodes that drain: %s", ", ".join(sorted(draining)) or "none")
            self._draining = draining
        self._lifecycle.evacuation.look(draining)

    async def end_unused(self) -> None:
        """End what nobody uses on nodes: at once on those that drain."""
        now_s = asyncio.get_running_loop().time()
        if self._draining or now_s >= self._ended_s + _END_EVERY_S:
            self._ended_s = now_s
            await self._nodes.end_unused_actors(self._placer.nodes_in_use, self._draining)
