# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request has waited since it first waited anywhere, whichever queue it has come to since."""

import asyncio

import pytest

from backends.api.errors import UnavailableError
from backends.api.model_config import DynamicBatching, ModelConfig, QueuePolicy
from deployments.pool_queue.held_queue import HeldQueue
from deployments.pool_queue.ticket_queue import TicketQueue
from deployments.routing.routed_request import RoutedRequest
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import until
from tests.support.pool_cluster import begun, cluster_of
from tests.support.pool_node import Node, node_of, outcome
from tests.support.pool_rig import PooledInstance

PLAIN = ModelConfig("m")
EARLIER_NS = 100_000_000_000
POLICY = QueuePolicy(default_timeout_us=60_000_000)
TIMED = ModelConfig(
    "m",
    max_batch_size=1,
    dynamic_batching=DynamicBatching(default_queue_policy=POLICY),
)
EXPIRED = "Request timeout expired"


async def filled(node: Node) -> list[RoutedRequest]:
    """Have all instances of a node execute, which is busy."""
    requests = []
    for count in range(1, len(node.instances) + 1):
        requests.append(node.send())
        await begun(node, count)
    return requests


def queue_ns(node: Node) -> int:
    """Return how long all that a node has executed had waited."""
    return sum(each.executor.statistics().queue_ns for each in node.instances)


async def bereaved(node: Node) -> tuple[list[RoutedRequest], RoutedRequest]:
    """Have a request of the second router wait at the first, which ends; return what runs, and it.

    The node is busy.
    """
    running = [node.send(router=1) for _ in range(2)]
    await begun(node, 2)
    waiting = node.send(router=1)
    await until(lambda: node.held.load.waiting_count == 1)
    came_earlier(waiting)
    await node.end(node.routers[0])
    return running, waiting


async def answered(*requests: RoutedRequest) -> None:
    for request in requests:
        result = await outcome(request)
        assert not isinstance(result, Exception), result


async def expired(request: RoutedRequest) -> None:
    result = await outcome(request)
    assert isinstance(result, UnavailableError)
    assert result.message == EXPIRED


def came_earlier(request: RoutedRequest) -> None:
    """Have a request wait for longer already."""
    assert request.queue is not None
    request.enqueue_ns -= EARLIER_NS


def is_movable(request: RoutedRequest) -> bool:
    """Whether a request waits in the queue of its router's node."""
    queue = request.queue
    return isinstance(queue, HeldQueue) or (isinstance(queue, TicketQueue) and queue._lane.is_local)


async def waiting_at(node: Node, router: int) -> list[RoutedRequest]:
    """Send a router requests until some wait at its node, which is busy; return those."""
    requests = [node.send(router=router) for _ in range(8)]
    await until(lambda: node.held.load.waiting_count)
    waiting = [each for each in requests if is_movable(each)]
    for request in waiting:
        came_earlier(request)
    return waiting


@pytest.mark.slow
@pytest.mark.parametrize("router", [0, 1])
@pytest.mark.parametrize("instance_count", [1, 2])
async def test_a_request_that_is_taken_back_for_another_node_has_waited_all_the_time(
    instance_count: int, router: int
) -> None:
    async with cluster_of(PLAIN, [2, instance_count], router_count=2) as cluster:
        first, second = cluster.nodes
        with first.busy():
            with second.busy():
                running = await filled(first)
                waiting = await waiting_at(first, router)
                assert waiting
            await answered(*waiting)
            assert queue_ns(second) > EARLIER_NS
        await answered(*running)


@pytest.mark.slow
@pytest.mark.parametrize("router", [0, 1])
async def test_a_request_that_is_taken_back_after_its_timeout_expires(router: int) -> None:
    async with cluster_of(TIMED, [2, 2], router_count=2) as cluster:
        first, second = cluster.nodes
        with first.busy():
            with second.busy():
                running = await filled(first)
                waiting = await waiting_at(first, router)
                assert waiting
            for request in waiting:
                await expired(request)
        await answered(*running)


async def test_a_request_of_another_node_has_waited_at_the_holder_too() -> None:
    async with cluster_of(PLAIN, [0, 2]) as cluster:
        first, second = cluster.nodes
        with second.busy():
            running = [first.send() for _ in range(2)]
            await begun(second, 2)
            waiting = first.send()
            await until(lambda: second.held.load.waiting_count == 1)
            came_earlier(waiting)
        await answered(*running, waiting)
        assert queue_ns(second) > EARLIER_NS


async def test_what_waited_at_a_holder_that_is_gone_has_waited_all_the_time() -> None:
    async with node_of(PLAIN, instance_count=2, router_count=2) as node:
        with node.busy():
            running, waiting = await bereaved(node)
            await until(lambda: node.held is not None and node.held.load.waiting_count == 1)
        await answered(*running, waiting)
        assert queue_ns(node) > EARLIER_NS


async def test_what_waited_at_a_holder_that_is_gone_for_longer_than_its_timeout_expires() -> None:
    async with node_of(TIMED, instance_count=2, router_count=2) as node:
        with node.busy():
            running, waiting = await bereaved(node)
            await expired(waiting)
        await answered(*running)


async def test_a_request_that_waits_for_an_instance_waits_already() -> None:
    async with cluster_of(PLAIN, [2]) as cluster:
        (node,) = cluster.nodes
        for instance in node.instances:
            await asyncio.wrap_future(instance.reactor.submit(instance.server.close))
        await until(lambda: not node.held.has_instances)
        waiting = node.send()
        assert waiting in waiting.pool.waiting
        waiting.enqueue_ns -= EARLIER_NS
        node.instances.clear()
        async with PooledInstance(PLAIN, ScriptedModel()) as instance:
            node.add(instance)
            cluster.publish()
            await answered(waiting)
            assert queue_ns(node) > EARLIER_NS


async def test_a_request_that_is_sent_once_more_begins_to_wait_anew() -> None:
    async with node_of(TIMED, instance_count=2) as node:
        with node.busy():
            running = await filled(node)
            for request in running:
                request.enqueue_ns -= EARLIER_NS
            lost, other = node.instances
            await asyncio.wrap_future(lost.reactor.submit(lost.server.close))
            other.model.gate.set()
            await answered(*running)
