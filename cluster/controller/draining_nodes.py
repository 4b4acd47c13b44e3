# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has nodes emptied that drain, and ends what instances have left on nodes without any."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from cluster.controller.host import Nodes
from cluster.instances.placer import Placer
from cluster.models.lifecycle import ModelLifecycle

_log = logging.getLogger(__name__)

# Between two ends of what is left, while no node drains.
_END_EVERY_S: Final = 10.0


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
