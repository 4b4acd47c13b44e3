# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Several nodes in one process: each has instances, routers and a holder; TCP lies between them."""

import contextlib
import functools
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from backends.api.model_config import ModelConfig
from deployments.routing.node_place import NodePlace
from deployments.routing.router import Router
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import until
from tests.support.pool_node import Node, publish
from tests.support.pool_rig import PooledInstance


class Cluster:
    """Nodes whose instances are of one model.

    Attributes:
        nodes: The nodes.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = list(nodes)

    def __getitem__(self, index: int) -> Node:
        return self.nodes[index]

    def publish(self) -> None:
        """Give all routers a table with the instances there are now."""
        publish(self.nodes)

    async def serving(self) -> None:
        """Wait until every router can send requests to every node, and knows each one's load."""
        for node in self.nodes:
            for router in node.routers:
                await until(functools.partial(is_known, router, self.nodes))

    async def stop_holder(self, node: Node) -> None:
        """End the process of a node's holder, as far as others see; it is its only router."""
        (router,) = node.routers
        node.routers.clear()
        await router.close()

    def freeze(self, node: Node) -> None:
        """Let the holder of a node read nothing from routers of other nodes any more."""
        for transport in remote_transports(node):
            transport.pause_reading()


def remote_transports(node: Node) -> list[Any]:
    """Return what the holder of a node reads that routers of other nodes say."""
    membership: Any = node.routers[0]._membership
    found = [lane.connection.transport for lane in membership._server.lanes]
    return [each for each in found if each.get_extra_info("socket").family != socket.AF_UNIX]


def is_known(router: Router, nodes: Sequence[Node]) -> bool:
    """Whether a router has heard of the instances of all nodes, where they have a queue."""
    pool = router.find("m").pool
    if len(pool.lanes) < sum(len(node.instances) for node in nodes):
        return False
    if pool.routes is None:
        return pool.queue is not None or not pool.is_pooled
    counts = {node.node_id: len(node.instances) for node in nodes}
    routes: Any = pool.routes
    places = routes._places
    late = [place for place in places if _known_count(place) != counts[place.node_id]]
    for place in late:
        # Only a router with requests hears of instances that join.
        place.ask(when_free=False)
    return not late and len(places) == sum(count > 0 for count in counts.values())


def _known_count(place: NodePlace) -> int:
    return 1 if place.queue is None else place.view.current_load.instance_count


def executed(node: Node) -> int:
    """Return how many executions a node's instances have begun."""
    return len(node.sizes)


async def begun(node: Node, count: int) -> None:
    """Wait until a node's instances have begun so many executions."""
    await until(lambda: executed(node) >= count)


@contextlib.asynccontextmanager
async def cluster_of(
    config: ModelConfig,
    instance_counts: Sequence[int],
    router_count: int = 1,
    model: Callable[[], ScriptedModel] = ScriptedModel,
    silence_s: float = 0.0,
) -> AsyncIterator[Cluster]:
    """Run nodes until all routers know all of them.

    Args:
        config: The model's config.
        instance_counts: Instances of each node.
        router_count: Routers of each node.
        model: Makes the model of an instance.
        silence_s: How long a holder may be silent.
    """
    cluster = Cluster([Node(config) for _ in instance_counts])
    async with contextlib.AsyncExitStack() as stack:
        for node, count in zip(cluster.nodes, instance_counts, strict=True):
            for _ in range(count):
                node.add(await stack.enter_async_context(PooledInstance(config, model())))
        for node in cluster.nodes:
            for _ in range(router_count):
                stack.push_async_callback((await node.join(silence_s=silence_s)).close)
        cluster.publish()
        await cluster.serving()
        yield cluster
