# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a running Ray cluster tells a driver of itself, as plain data."""

from dataclasses import dataclass

import ray
from ray._private.worker import global_worker

from cluster.actors.connection import connected


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """A cluster.

    Attributes:
        node_count: Nodes that are alive.
        node_address: Of the node that the driver runs on.
        dashboard: host:port of the dashboard; empty without one.
    """

    node_count: int
    node_address: str
    dashboard: str


def see_cluster(address: str) -> SeenCluster:
    """Join a cluster as a driver for a moment.

    Args:
        address: As for ``ray.init``; ``auto`` is the cluster that runs on this machine.

    Raises:
        UnavailableError: There is none.
    """
    with connected(address):
        alive = [node for node in ray.nodes() if node["Alive"]]
        own_id = ray.get_runtime_context().get_node_id()
        own = [node["NodeManagerAddress"] for node in alive if node["NodeID"] == own_id]
        node = global_worker.node
        dashboard = "" if node is None else str(node.address_info.get("webui_url") or "")
        return SeenCluster(len(alive), own[0] if own else "127.0.0.1", dashboard)
