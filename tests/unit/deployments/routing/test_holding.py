# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The holder of a node that drains stays until the instances there have left."""

import asyncio

from backends.api.model_config import ModelConfig
from deployments.routing.holding import hold_while_needed
from tests.support.pool_cluster import cluster_of, executed
from tests.support.pool_node import outcome

PLAIN = ModelConfig("m")
FOR_EVER_S = 3600.0


async def drains() -> bool:
    return True


async def stays() -> bool:
    return False


async def test_the_queues_of_a_node_that_drains_are_held_until_its_instances_have_left() -> None:
    async with cluster_of(PLAIN, [2, 2]) as cluster:
        first, second = cluster.nodes
        pools = first.routers[0].node_pools
        holding = asyncio.create_task(hold_while_needed(pools, drains, FOR_EVER_S))
        request = first.send()
        assert not isinstance(await outcome(request), Exception)
        assert executed(first) == 1
        assert not holding.done()
        first.instances.clear()
        cluster.publish()
        async with asyncio.timeout(30):
            await holding
        assert not isinstance(await outcome(second.send()), Exception)


async def test_nobody_is_waited_for_longer_than_allowed() -> None:
    async with cluster_of(PLAIN, [2]) as cluster:
        (node,) = cluster.nodes
        await hold_while_needed(node.routers[0].node_pools, drains, 0.01)
        assert node.held.has_instances


async def test_a_node_that_stays_has_another_holder() -> None:
    async with cluster_of(PLAIN, [2]) as cluster:
        (node,) = cluster.nodes
        await hold_while_needed(node.routers[0].node_pools, stays, FOR_EVER_S)
        assert node.held.has_instances
