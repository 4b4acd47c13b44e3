# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The nodes of the cluster, as Ray knows them."""

import asyncio
from typing import Any, Final

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.devices.inventory import Inventory
from cluster.devices.local import read_local
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.threads import GCS

# A first process on a node takes seconds to start, and NVML one where nothing keeps the driver
# loaded.
_DEVICES_TIMEOUT_S: Final = 30.0
# Made once, so that it is handed to the cluster once.
_READ_LOCAL: Final[Any] = ray.remote(num_cpus=0, max_retries=0)(read_local)


async def read_cluster() -> ClusterResources:
    """Ask Ray for its nodes and what is free on each."""
    return await GCS.run(_read_cluster)


async def read_draining() -> frozenset[str]:
    """Ask Ray which nodes drain, by id."""
    return await GCS.run(draining_nodes)


def draining_nodes() -> frozenset[str]:
    """Ask Ray which nodes drain, by id; not on an event loop."""
    state: Any = ray._private.state.state  # noqa: SLF001 - no public twin tells of drains
    return frozenset(state.get_draining_nodes())


def emptied_nodes() -> frozenset[str]:
    """Ask Ray which nodes drain and have nothing reserved any more; not on an event loop."""
    return frozenset(node.node_id for node in _read_cluster().nodes if node.is_emptied)


def _read_cluster() -> ClusterResources:
    state: Any = ray._private.state  # noqa: SLF001 - no public twin tells nodes apart
    available = state.available_resources_per_node()
    draining = draining_nodes()
    nodes: list[dict[str, Any]] = ray.nodes()
    return ClusterResources(
        tuple(
            NodeResources(
                node["NodeID"],
                node["Resources"],
                available.get(node["NodeID"], {}),
                labels=node.get("Labels") or {},
                names=frozenset(
                    (node["NodeID"], node["NodeManagerAddress"], node["NodeManagerHostname"])
                ),
                is_draining=node["NodeID"] in draining,
            )
            for node in nodes
            if node["Alive"]
        )
    )


async def read_devices(node_id: str) -> Inventory:
    """Ask a node for its GPUs: a task that takes milliseconds and holds nothing there.

    Raises:
        OSError: The node does not answer; the message is one line that says why.
    """
    options = _READ_LOCAL.options(
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        enable_task_events=False,
    )
    try:
        answer = await GCS.run(options.remote)
        async with asyncio.timeout(_DEVICES_TIMEOUT_S):
            inventory: Inventory = await asyncio.wrap_future(answer.future())
    except TimeoutError:
        raise OSError(f"no answer within {_DEVICES_TIMEOUT_S:g} s") from None
    except RayError as error:
        raise OSError(str(error).strip().split("\n")[-1]) from error
    return inventory
