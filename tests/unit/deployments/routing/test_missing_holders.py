# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""While a node has no holder, requests of the sequences there wait; none goes to and fro."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from backends.api.errors import RequestCancelledError, UnavailableError
from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START, InferenceResponse
from deployments.lane.batches import Holder
from deployments.routing import waiting_requests
from deployments.routing.routed_request import MOST_BOUNCES, RoutedRequest
from deployments.routing.router import Router
from deployments.slabs.pool import SlabPool
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import SECRET, until
from tests.support.pool_cluster import Cluster, cluster_of
from tests.support.pool_node import Node, outcome, publish
from tests.support.pool_rig import PooledInstance, pooled, request_for

PLAIN = ModelConfig("m")
SEQUENCES = ModelConfig(
    "m", max_batch_size=4, sequence_batching=SequenceBatching(max_sequence_idle_us=60_000_000)
)
START, END = SEQUENCE_START, SEQUENCE_END


def send(node: Node, correlation_id: int, flags: int = 0, router: int = 0) -> RoutedRequest:
    return node.send(request_for(correlation_id=correlation_id, flags=flags), router)


async def answered(request: RoutedRequest) -> None:
    result = await outcome(request)
    assert isinstance(result, InferenceResponse), result


def running(node: Node) -> set[int]:
    return {each for x in node.instances for each in x.executor.feeder.running.values()}


async def started_at(node: Node, by: Node, router: int = 0) -> int:
    """Have a router start sequences until one runs on a node; return that."""
    for correlation_id in range(1, 17):
        await answered(send(by, correlation_id, START, router))
        if correlation_id in running(node):
            return correlation_id
    raise AssertionError("no sequence runs there")


async def without_holder(cluster: Cluster, node: Node, router: Router) -> None:
    """End the only router of a node, and wait until another node's has heard of it."""
    await cluster.stop_holder(node)
    links = [link for link in router.find("m").pool.links if not link.is_local]
    await until(lambda: all(link.lane.holder == Holder(0) for link in links))


@contextlib.asynccontextmanager
async def next_holder(cluster: Cluster, node: Node) -> AsyncIterator[None]:
    """Have a router on a node that has none."""
    router = await node.join()
    cluster.publish()
    yield
    await node.end(router)


def sent_count(router: Router) -> int:
    """Return how many requests a router has sent to any instance, but for those sent back."""
    return sum(lane.request_count for lane in router.find("m").pool.lanes)


async def waits(router: Router, before: int) -> None:
    """Check that a request waits, and has not been sent anywhere."""
    await until(lambda: router.waiting_count("m", 1))
    for _ in range(100):
        await until(lambda: True)
    assert (router.waiting_count("m", 1), sent_count(router)) == (1, before)
    (request,) = router.find("m").pool.waiting
    assert isinstance(request, RoutedRequest)
    assert not request.bounce_count


@pytest.mark.parametrize("flags", [0, END])
async def test_a_request_of_a_sequence_waits_while_its_node_has_no_holder(flags: int) -> None:
    async with cluster_of(SEQUENCES, [2, 2]) as cluster:
        first, second = cluster.nodes
        router = first.routers[0]
        correlation_id = await started_at(second, first)
        await without_holder(cluster, second, router)
        before = sent_count(router)
        request = send(first, correlation_id, flags)
        await waits(router, before)
        async with next_holder(cluster, second):
            await answered(request)
            assert (sent_count(router), request.bounce_count) == (before + 1, 0)
            await until(lambda: (correlation_id in running(second)) is not bool(flags))


async def test_a_request_waits_for_the_holder_of_instances_that_have_left_the_table() -> None:
    async with cluster_of(SEQUENCES, [1, 2]) as cluster:
        first, second = cluster.nodes
        router = first.routers[0]
        correlation_id = await started_at(second, first)
        await without_holder(cluster, second, router)
        # What is left is one instance on its own, which no request of the sequence may go to.
        leaving = tuple(second.instances)
        second.instances.clear()
        publish(cluster.nodes, leaving)
        request = send(first, correlation_id)
        await until(lambda: router.waiting_count("m", 1) or request.sink.ended.done())
        assert router.waiting_count("m", 1) == 1
        second.instances.extend(leaving)
        async with next_holder(cluster, second):
            await answered(request)


async def test_a_request_of_a_sequence_waits_between_two_holders_of_its_own_node() -> None:
    async with cluster_of(SEQUENCES, [2, 2], router_count=2) as cluster:
        first = cluster[0]
        router = first.routers[1]
        correlation_id = await started_at(first, first, router=1)
        tickets = router.node_pools._tickets
        router.node_pools.follow(None)
        before = sent_count(router)
        request = send(first, correlation_id, router=1)
        await waits(router, before)
        router.node_pools.follow(tickets)
        await answered(request)
        assert (sent_count(router), request.bounce_count) == (before + 1, 0)


async def test_a_request_that_waits_for_a_holder_is_cancelled() -> None:
    async with cluster_of(SEQUENCES, [2, 2]) as cluster:
        first, second = cluster.nodes
        router = first.routers[0]
        correlation_id = await started_at(second, first)
        await without_holder(cluster, second, router)
        request = send(first, correlation_id)
        await waits(router, sent_count(router))
        request.cancel()
        assert isinstance(await outcome(request), RequestCancelledError)
        assert router.waiting_count("m", 1) == 0


@pytest.mark.slow
async def test_a_request_waits_for_a_holder_as_long_as_for_a_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_requests, "WAIT_S", 1.5)
    async with cluster_of(SEQUENCES, [0, 2]) as cluster:
        first, second = cluster.nodes
        router = first.routers[0]
        # It is tried again each second; nobody knows the sequence, so the instances are asked.
        await without_holder(cluster, second, router)
        before = sent_count(router)
        request = send(first, 7)
        error = await outcome(request)
        assert isinstance(error, UnavailableError)
        assert "its queue has moved and is not found" in error.message
        assert (sent_count(router), request.bounce_count) == (before, 0)


async def test_a_sequence_starts_at_an_instance_on_its_own_beside_those_without_a_holder() -> None:
    async with (
        cluster_of(SEQUENCES, [0, 2]) as cluster,
        PooledInstance(SEQUENCES, ScriptedModel()) as alone,
    ):
        first, second = cluster.nodes
        router = first.routers[0]
        await without_holder(cluster, second, router)
        second.add(alone)
        cluster.publish()
        await until(lambda: len(router.find("m").pool.lanes) == 3)
        before = sent_count(router)
        for flags in (START, 0):
            request = send(first, 7, flags)
            await answered(request)
            assert not request.bounce_count
        assert alone.model.sizes == [1, 1]
        assert sent_count(router) == before + 2


@contextlib.asynccontextmanager
async def adopted_by_others(config: ModelConfig) -> AsyncIterator[tuple[Node, Router]]:
    """Have a router that has no way to the queue of two instances."""
    async with pooled(config) as one, pooled(config) as other:
        node = Node(config)
        for instance in (one, other):
            await instance.holder()
            node.add(instance)
        router = Router(node.node_id, SECRET, SlabPool(1 << 20))
        node.routers.append(router)
        node.publish()
        pool = router.find("m").pool
        await until(lambda: len(pool.lanes) == 2)
        # Its lanes have opened before they have told.
        await until(lambda: not any(link.is_on_its_own for link in pool.links))
        yield node, router
        await node.end(router)


async def test_a_request_that_instances_send_back_without_end_is_unavailable() -> None:
    async with adopted_by_others(PLAIN) as (node, router):
        request = node.send()
        error = await outcome(request)
        assert isinstance(error, UnavailableError)
        assert error.message == (
            f"a request of model 'm' was sent back by its instances {MOST_BOUNCES + 1} times: the "
            f"queue that they are served from was not found; the request was not executed, try "
            f"again"
        )
        assert (sent_count(router), request.bounce_count) == (0, MOST_BOUNCES + 1)


async def test_a_request_of_a_sequence_goes_to_no_instance_that_would_send_it_back() -> None:
    async with adopted_by_others(SEQUENCES) as (node, router):
        for flags in (START, 0):
            request = send(node, 7, flags)
            assert isinstance(await outcome(request), UnavailableError)
            assert (sent_count(router), request.bounce_count) == (0, 0)
