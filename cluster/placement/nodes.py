# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The nodes of the cluster, as Ray knows them."""

import asyncio
from typing import Any

import ray

from cluster.placement.demand import ClusterResources, NodeResources


async def read_cluster() -> ClusterResources:
    """Ask Ray for its nodes and what is free on each."""
    return await asyncio.to_thread(_read_cluster)


async def read_draining() -> frozenset[str]:
    """Ask Ray which nodes drain, by id."""
    return await asyncio.to_thread(_read_draining)


def _read_draining() -> frozenset[str]:
    state: Any = ray._private.state.state  # noqa: SLF001 - no public twin tells of drains
    return frozenset(state.get_draining_nodes())


def _read_cluster() -> ClusterResources:
    state: Any = ray._private.state  # noqa: SLF001 - no public twin tells nodes apart
    available = state.available_resources_per_node()
    nodes: list[dict[str, Any]] = ray.nodes()
    return ClusterResources(
        tuple(
            NodeResources(node["NodeID"], node["Resources"], available.get(node["NodeID"], {}))
            for node in nodes
            if node["Alive"]
        )
    )
