# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How many idle workers nodes are asked for, so that instances need not wait for processes. Pure.

Ray gives a new actor an idle worker of its node where there is one. What is idle there nobody
tells, so it is counted here: what was asked for, less what instances have taken since. The count
may be wrong, as when somebody else's actor takes a worker; then the next instance starts in a
process of its own, and after it the node is asked again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cluster.placement.demand import CPU_RESOURCE, NodeResources

# How long Ray keeps an idle worker whatever else the node does. After that it keeps as many as the
# node has CPUs that are not reserved.
KEPT_S: Final = 600


@dataclass(slots=True, eq=False)
class IdleWorkers:
    """The idle workers of all nodes."""

    count: int
    # By node: until when Ray keeps each.
    _until_s: dict[str, list[float]] = field(default_factory=dict)

    def taken(self, node_id: str) -> None:
        """Note that an instance has started on a node; one without idle workers is no error."""
        if self._until_s.get(node_id):
            self._until_s[node_id].pop(0)

    def asked(self, counts: Mapping[str, int], now_s: float) -> None:
        """Note how many workers nodes were asked for."""
        for node_id, count in counts.items():
            self._until_s.setdefault(node_id, []).extend([now_s + KEPT_S] * count)

    def missing(
        self, nodes: Iterable[NodeResources], kept_free: frozenset[str], now_s: float
    ) -> dict[str, int]:
        """Return by node how many workers to ask for.

        Args:
            nodes: All that are alive; others are forgotten.
            kept_free: Ids of those where nothing is to start.
            now_s: The time.
        """
        found = {}
        known, self._until_s = self._until_s, {}
        for node in nodes:
            until_s = known.get(node.node_id, [])
            # Ray would have ended those that are too old if they were too many.
            if node.available.get(CPU_RESOURCE, 0.0) < self.count:
                until_s = [each for each in until_s if each > now_s]
            self._until_s[node.node_id] = until_s
            count = self.count - len(until_s)
            # By convention a node without CPUs is for other work than instances.
            is_for_instances = node.total.get(CPU_RESOURCE, 0.0) >= 1
            if count > 0 and is_for_instances and not node.is_draining:
                found[node.node_id] = count
        return {node_id: found[node_id] for node_id in found if node_id not in kept_free}
