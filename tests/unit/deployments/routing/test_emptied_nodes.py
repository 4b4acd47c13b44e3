# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What waits to begin at a node that loses its last instance begins at another one."""

import asyncio
from collections.abc import Iterable
from functools import partial

import pytest

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.routing.routed_request import RoutedRequest
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import until
from tests.support.pool_cluster import Cluster, cluster_of
from tests.support.pool_node import Node, outcome, publish
from tests.support.pool_rig import PooledInstance, request_for

SEQUENCES = ModelConfig(
    "m", max_batch_size=4, sequence_batching=SequenceBatching(max_sequence_idle_us=60_000_000)
)
START, END = SEQUENCE_START, SEQUENCE_END
# Two nodes of two instances.
TAKEN, MOST_WAITING = range(1, 17), 64


def begin(node: Node, ids: Iterable[int], flags: int, router: int = 0) -> list[RoutedRequest]:
    return [node.send(request_for(correlation_id=each, flags=flags), router=router) for each in ids]


async def answered(requests: Iterable[RoutedRequest]) -> None:
    for each in requests:
        result = await outcome(each)
        assert not isinstance(result, TritonError), result


def running(node: Node) -> set[int]:
    return {each for x in node.instances for each in x.executor.feeder.running.values()}


async def waiting_at(cluster: Cluster, node: Node, router: int) -> list[RoutedRequest]:
    """Have all slots taken and sequences wait to begin, some of them at one of the nodes."""
    first = cluster[0]
    waiting: list[RoutedRequest] = []
    await answered(begin(first, TAKEN, START))
    await until(lambda: all(each.held.load.free_count == 2 for each in cluster.nodes))
    for correlation_id in range(100, 100 + MOST_WAITING):
        waiting += begin(first, [correlation_id], START, router)
        await until(partial(are_waiting, cluster, len(waiting)))
        if node.held.load.waiting_count > 1:
            break
    assert node.held.load.waiting_count
    return waiting


def are_waiting(cluster: Cluster, count: int) -> bool:
    return sum(node.held.load.waiting_count for node in cluster.nodes) == count


async def empty(cluster: Cluster, node: Node, *, is_told: bool) -> None:
    """End a node's instances, before the routers are told or after."""
    gone = list(node.instances)
    node.instances.clear()
    if is_told:
        cluster.publish()
    for instance in gone:
        await asyncio.wrap_future(instance.reactor.submit(instance.server.close))
    if not is_told:
        await until(lambda: node.held is None or not node.held.is_open)
        cluster.publish()


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize(("emptied", "router"), [(0, 0), (0, 1), (1, 1)])
async def test_a_sequence_that_waits_to_begin_begins_elsewhere(
    emptied: int, router: int, *, is_told: bool
) -> None:
    async with cluster_of(SEQUENCES, [2, 2], router_count=2) as cluster:
        first, other = cluster[0], cluster[1 - emptied]
        waiting = await waiting_at(cluster, cluster[emptied], router)

        async def live(request: RoutedRequest) -> None:
            await answered([request])
            for flags, by in ((0, 1 - router), (END, router)):
                await answered(begin(first, [request.request.correlation_id], flags, by))

        await empty(cluster, cluster[emptied], is_told=is_told)
        await answered(begin(first, running(other), END, router))
        await asyncio.gather(*map(live, waiting))
        await until(lambda: not running(other))


@pytest.mark.parametrize(("emptied", "router"), [(0, 0), (0, 1), (1, 1)])
async def test_requests_behind_the_first_one_of_a_sequence_follow_it(
    emptied: int, router: int
) -> None:
    async with cluster_of(SEQUENCES, [2, 2], router_count=2) as cluster:
        first, other = cluster[0], cluster[1 - emptied]
        waiting = await waiting_at(cluster, cluster[emptied], router)
        ids = [each.request.correlation_id for each in waiting]
        waiting += [each for flags in (0, END) for each in begin(first, ids, flags, router)]
        await until(partial(are_waiting, cluster, len(waiting)))
        await empty(cluster, cluster[emptied], is_told=False)
        await answered(begin(first, running(other), END, router))
        await answered(waiting)
        await until(lambda: not running(other))


async def test_what_finds_the_only_queue_away_waits_for_it() -> None:
    async with cluster_of(SEQUENCES, [0, 2]) as cluster:
        near, far = cluster.nodes
        router, leaving = near.routers[0], tuple(far.instances)
        async with PooledInstance(SEQUENCES, ScriptedModel()) as instance:
            far.instances.clear()
            far.add(instance)
            publish(cluster.nodes, leaving, routers=[router])
            await until(lambda: len(router.find("m").pool.lanes) == 1)
            # As its holder says which has no instance that stays, and has not heard of the new one.
            (place,) = router.find("m").pool.routes._places
            assert place._turned_away() is False
            waiting = begin(near, [1], START)
            publish(cluster.nodes, leaving)
            await answered(waiting)


async def test_what_waits_at_the_only_node_there_is_keeps_its_place() -> None:
    async with cluster_of(ModelConfig("m"), [2, 2], router_count=2) as cluster:
        near, far = cluster.nodes
        pool = near.routers[1].find("m").pool
        await empty(cluster, far, is_told=True)
        await until(lambda: pool.routes is None)
        for instance in near.instances:
            await asyncio.wrap_future(instance.reactor.submit(instance.server.close))
        await until(lambda: near.held is None or not near.held.is_open)
        request = near.send(router=1)
        await until(lambda: bool(pool.queue._parked))
        number = request.number
        for _ in range(3):
            await until(lambda: not pool.queue._parked)
            await until(lambda: bool(pool.queue._parked))
        assert request.number == number
        request.cancel()


async def test_the_holder_of_a_node_that_is_gone_is_forgotten() -> None:
    async with cluster_of(SEQUENCES, [1, 1, 1]) as cluster:
        first, second, third = cluster.nodes
        (router,) = first.routers
        remote = router._membership._remote
        await until(lambda: len(remote) == 2 and all(each.lane for each in remote.values()))
        away, stays = remote[second.node_id], remote[third.node_id]
        await cluster.stop_holder(second)
        await until(lambda: away.lane is None)
        gone = tuple(second.instances)
        second.instances.clear()
        publish(cluster.nodes, gone, routers=[router])
        # A node whose instances leave is one yet.
        await asyncio.sleep(0)
        assert second.node_id in remote
        for instance in gone:
            await asyncio.wrap_future(instance.reactor.submit(instance.server.close))
        publish(cluster.nodes, routers=[router])
        await until(lambda: list(remote.values()) == [stays])
        await until(lambda: not away._supervisor._tasks)
