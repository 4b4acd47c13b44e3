# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How many replicas the ingress has: so many on each live node that shall have any.

A node that drains is none once its instances have left: the replicas there leave then, rather than
shortly before its deadline, if it has one. Serve ends those on nodes that drain first when there
are to be fewer. Until then they hold the queues of the instances there.

Ray: python/ray/serve/_private/deployment_state.py migrate_replicas_on_draining_nodes
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import ray

from cluster.placement.affinity import unmet
from cluster.placement.nodes import draining_nodes, emptied_nodes
from cluster.threads import GCS
from deployments.metrics.node_roles import NodeRoles

_log = logging.getLogger(__name__)

_ROLES_TIMEOUT_S: Final = 1.0

# A node is noticed within twice this.
_NODE_COUNT_TTL_S: Final = 1.0


def roles_of(
    nodes: Iterable[Mapping[str, Any]],
    without: Collection[str],
    label_selector: Mapping[str, str],
) -> NodeRoles:
    """Tell which nodes have an ingress.

    Args:
        nodes: As `ray.nodes` returns them.
        without: Ids of those that have none though their labels say so.
        label_selector: What the labels of one must meet to have an ingress.
    """
    alive = {node["NodeID"]: node.get("Labels") or {} for node in nodes if node["Alive"]}
    entries = {node_id for node_id, labels in alive.items() if not unmet(label_selector, labels)}
    return NodeRoles(frozenset(entries.difference(without)), frozenset(alive.keys() - entries))


class NodeRoleReader:
    """Tells an ingress which nodes have one; what was known before while Ray does not answer.

    Args:
        label_selector: What the labels of a node must meet to have an ingress.
    """

    def __init__(self, label_selector: Mapping[str, str]) -> None:
        self._label_selector = label_selector
        self._known = NodeRoles()

    async def __call__(self) -> NodeRoles:
        """Ask Ray."""
        try:
            async with asyncio.timeout(_ROLES_TIMEOUT_S):
                self._known = await GCS.run(self._read)
        except Exception as error:
            # Ray's client raises what it likes.
            _log.warning("the nodes without an ingress are not known: %r", error)
        return self._known

    def _read(self) -> NodeRoles:
        return roles_of(ray.nodes(), draining_nodes(), self._label_selector)


class NodeCountingPolicy:
    """Autoscaling policy that asks for K replicas per live node.

    It runs in the control loop of Serve, which must not wait for the GCS: nodes are counted on a
    thread, and the last count is good until the next.

    Args:
        replicas_per_node: Replicas on each node.
        label_selector: What the labels of a node must meet; empty for all nodes.
        read_nodes: Returns the nodes as `ray.nodes` does; may block.
        read_emptied: Returns the ids of those that drain and have no instance; may block.
        clock_s: Monotonic clock.
    """

    def __init__(
        self,
        replicas_per_node: int,
        label_selector: Mapping[str, str] | None = None,
        read_nodes: Callable[[], list[dict[str, Any]]] = ray.nodes,
        read_emptied: Callable[[], Collection[str]] = emptied_nodes,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._replicas_per_node = replicas_per_node
        self._label_selector = label_selector or {}
        self._read_nodes = read_nodes
        self._read_emptied = read_emptied
        self._clock_s = clock_s
        self._count: int | None = None
        self._look: threading.Thread | None = None
        self._expires_s = float("-inf")

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """Return the wanted number of replicas; what there is until nodes were counted."""
        is_looking = self._look is not None and self._look.is_alive()
        if not is_looking and self._clock_s() >= self._expires_s:
            self._expires_s = self._clock_s() + _NODE_COUNT_TTL_S
            self._look = threading.Thread(target=self._count_nodes, name="nodes", daemon=True)
            self._look.start()
        if self._count is None:
            return context.target_num_replicas, context.policy_state
        return self._count * self._replicas_per_node, context.policy_state

    def _count_nodes(self) -> None:
        try:
            roles = roles_of(self._read_nodes(), self._read_emptied(), self._label_selector)
            self._count = max(1, len(roles.with_ingress))
        except Exception as error:
            _log.warning("the nodes of the cluster cannot be counted: %s", error)
