# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asks Ray for nodes: a placement group for each, which has no room until the node is there."""

import hashlib
from collections.abc import Collection

from cluster.actors.placement_groups import ask_for_node, withdraw_node
from cluster.placement.node_requests import NodeRequest


class RequestedNodes:
    """The nodes that one controller asks for.

    What an earlier controller has asked for is removed with the groups of instances that are gone.
    """

    def __init__(self) -> None:
        self._held: set[NodeRequest] = set()

    def become(self, requests: Collection[NodeRequest]) -> None:
        """Ask for these nodes and for no others; blocks.

        Raises:
            RayError: Ray cannot be reached; a second call goes on.
        """
        for request in self._held.difference(requests):
            withdraw_node(_key(request))
            self._held.discard(request)
        for request in set(requests) - self._held:
            ask_for_node(_key(request), dict(request.shape.resources), request.label_selector)
            self._held.add(request)


def _key(request: NodeRequest) -> str:
    text = f"{request.shape} {sorted(request.other_than)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
