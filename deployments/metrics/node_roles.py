# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which ingress tells the metrics of a node that has none. Pure.

Each such node has one teller, so that sums over all pages count nothing twice. It is found by
rendezvous hashing: all ingresses that know the same nodes agree, and when one comes or goes only
the nodes that it tells of change theirs.
"""

import hashlib
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeRoles:
    """The nodes that are alive.

    Attributes:
        with_ingress: Ids of those that have an ingress, and keep it.
        without_ingress: Ids of those that shall have none.
    """

    with_ingress: Collection[str] = ()
    without_ingress: Collection[str] = ()

    def told_by(self, node_id: str) -> tuple[str, ...]:
        """Return the nodes without an ingress that the ingresses of a node tell of."""
        if node_id not in self.with_ingress:
            return ()
        return tuple(each for each in sorted(self.without_ingress) if self._teller(each) == node_id)

    def _teller(self, node_id: str) -> str:
        def weight(teller: str) -> bytes:
            return hashlib.sha256(f"{teller} {node_id}".encode()).digest()

        return max(self.with_ingress, key=weight)


ReadNodeRoles = Callable[[], Awaitable[NodeRoles]]
