# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A holder that comes or goes concerns the pools that it holds, and no instance on its own."""

import asyncio

import pytest

from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest
from deployments.contracts.routing_table import (
    Model,
    ModelReadyState,
    ModelVersion,
    RoutingTable,
)
from deployments.routing.routed_request import RoutedRequest
from deployments.routing.router import Router
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import Sink, until
from tests.support.pool_cluster import Cluster, cluster_of, executed
from tests.support.pool_node import has_holder, outcome
from tests.support.pool_rig import PooledInstance, request_for

PLAIN = ModelConfig("m")
ALONE = ModelConfig("alone")


def publish_alone(cluster: Cluster, instance: PooledInstance) -> None:
    """Give all routers a table with one instance of another model on the last node."""
    node = cluster.nodes[-1]
    node.add(instance)
    node.instances.remove(instance)
    entry = ModelVersion(
        1, ModelReadyState.READY, config=ALONE, instances=(node.endpoint(instance),)
    )
    for each in cluster.nodes:
        for router in each.routers:
            models = {**router.table.models, "alone": Model("alone", (entry,))}
            router.update(RoutingTable(10**6, models, initialised=True))


def send_alone(router: Router) -> RoutedRequest:
    request = InferenceRequest("alone", inputs=request_for().inputs)
    inflight = router.submit(router.find("alone"), request, Sink())
    assert isinstance(inflight, RoutedRequest)
    return inflight


async def answered(*requests: RoutedRequest) -> None:
    for request in requests:
        async with asyncio.timeout(5):
            result = await outcome(request)
        assert not isinstance(result, Exception), result


async def test_an_instance_on_its_own_is_reached_on_a_node_that_holds_queues_of_others() -> None:
    async with (
        cluster_of(PLAIN, [0, 2]) as cluster,
        PooledInstance(ALONE, ScriptedModel()) as instance,
    ):
        publish_alone(cluster, instance)
        for node in cluster.nodes:
            await answered(*[send_alone(node.routers[0]) for _ in range(4)])
        assert len(instance.model.sizes) == 8


async def test_a_pool_of_one_serves_its_node_when_the_holder_of_that_has_changed() -> None:
    async with cluster_of(PLAIN, [1, 2], router_count=3) as cluster:
        first, _ = cluster.nodes
        await first.end(first.routers[0])
        for router in first.routers:
            await until(lambda router=router: has_holder(router))
        for router in (0, 1):
            for _ in range(4):
                await answered(first.send(router=router))
        assert executed(first) == 8


@pytest.mark.parametrize("router", [0, 1])
async def test_a_router_without_a_holder_sends_nothing_to_a_queue(router: int) -> None:
    async with cluster_of(PLAIN, [2, 2], router_count=2) as cluster:
        first, second = cluster.nodes
        there = first.routers[router]
        pool = there.find("m").pool
        own = next(place for place in pool.routes._places if place.is_own)
        assert own.queue is pool.queue is not None
        there.node_pools.follow(None)
        assert own.queue is pool.queue is None
        await answered(first.send(router=router))
        assert (executed(first), executed(second)) == (0, 1)


async def test_a_change_of_holders_concerns_the_pools_that_they_hold() -> None:
    async with (
        cluster_of(PLAIN, [0, 2]) as cluster,
        PooledInstance(ALONE, ScriptedModel()) as instance,
    ):
        publish_alone(cluster, instance)
        first, second = cluster.nodes
        router = first.routers[0]
        await answered(send_alone(router))
        changed: list[object] = []
        router.node_pools._queue_changed = changed.append
        router.node_pools.follow(None)
        router.node_pools.remote_changed("another node")
        assert changed == []
        router.node_pools.remote_changed(second.node_id)
        assert changed == [router.find("m").pool]
