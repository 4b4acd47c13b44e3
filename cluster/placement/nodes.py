# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The nodes of the cluster, as Ray knows them."""

import asyncio
from collections.abc import Awaitable, Callable
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
# What happens at the same time is placed by one look at the nodes.
SHARED_S: Final = 0.5
# Made once, so that it is handed to the cluster once.
_READ_LOCAL: Final[Any] = ray.remote(num_cpus=0, max_retries=0)(read_local)


class SharedLook:
    """One look at the nodes for all who ask at about the same time: there is one at a time.

    With a thousand nodes the objects of one alone take 36 ms.
    """

    def __init__(self, read: Callable[[], Awaitable[ClusterResources]]) -> None:
        self._read = read
        self._look: asyncio.Task[ClusterResources] | None = None
        self._begun_s = 0.0

    async def __call__(self) -> ClusterResources:
        """Look, or return what a look has found that was begun just now or is under way.

        Raises:
            Exception: As the look; the next call asks again.
        """
        now_s, look = asyncio.get_running_loop().time(), self._look
        if look is None or (look.done() and (now_s >= self._begun_s + SHARED_S or _failed(look))):
            look = self._look = asyncio.create_task(self._read_once())
            self._begun_s = now_s
        return await asyncio.shield(look)

    async def _read_once(self) -> ClusterResources:
        return await self._read()


def _failed(look: asyncio.Task[ClusterResources]) -> bool:
    return look.cancelled() or look.exception() is not None


def draining_nodes() -> frozenset[str]:
    """Ask Ray which nodes drain, by id; not on an event loop."""
    state: Any = ray._private.state.state  # noqa: SLF001 - no public twin tells of drains
    return frozenset(state.get_draining_nodes())


def emptied_nodes() -> frozenset[str]:
    """Ask Ray which nodes drain and have nothing reserved any more; not on an event loop."""
    return frozenset(node.node_id for node in _read_cluster().nodes if node.is_emptied)


def _read_cluster() -> ClusterResources:
    """Ask Ray for its nodes and what is free on each."""
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


read_cluster = GCS.wrapped(_read_cluster)
read_draining = GCS.wrapped(draining_nodes)


async def read_devices(node_id: str) -> Inventory:
    """Ask a node for its GPUs: a task that takes milliseconds and holds nothing there.

    One that takes long is killed; this returns when its process has ended, so that a node whose
    driver hangs has one such process at most.

    Raises:
        OSError: The node does not answer; the message is one line that says why.
    """
    options = _READ_LOCAL.options(
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        enable_task_events=False,
    )
    try:
        answer = await GCS.run(options.remote)
        reading: asyncio.Future[Inventory] = asyncio.wrap_future(answer.future())
        if not (await asyncio.wait({reading}, timeout=_DEVICES_TIMEOUT_S))[0]:
            await GCS.run(ray.cancel, answer, force=True)
            # Not before: a process that hangs in the driver may outlive that.
            await asyncio.wait({reading})
            raise OSError(f"no answer within {_DEVICES_TIMEOUT_S:g} s")
        inventory = reading.result()
    except RayError as error:
        raise OSError(str(error).strip().split("\n")[-1]) from error
    return inventory
