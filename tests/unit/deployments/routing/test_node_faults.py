# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What waits or runs in a pool of a node survives what happens to its instances and its holder."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from backends.api.errors import UnavailableError
from backends.api.model_config import DynamicBatching, ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.contracts.routing_table import RoutingTable
from deployments.routing.routed_request import RoutedRequest
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import until
from tests.support.pool_node import Node, node_of, outcome
from tests.support.pool_rig import PooledInstance, request_for

PLAIN = ModelConfig("m")
GREEDY = ModelConfig("m", max_batch_size=4, dynamic_batching=DynamicBatching())
SEQUENCES = ModelConfig(
    "m", max_batch_size=4, sequence_batching=SequenceBatching(max_sequence_idle_us=60_000_000)
)


async def answered(requests: Sequence[RoutedRequest]) -> None:
    for request in requests:
        result = await outcome(request)
        assert not isinstance(result, Exception), result


async def replaced(node: Node, stack: AsyncExitStack, config: ModelConfig) -> None:
    """Have a table with other instances, of another config; the old ones leave."""
    old = tuple(node.instances)
    node.instances.clear()
    node.config = config
    for _ in old:
        instance = PooledInstance(config, ScriptedModel())
        node.add(await stack.enter_async_context(instance))
    node.publish(leaving=old)


async def test_what_another_router_has_waiting_is_served_by_a_queue_that_is_made_anew() -> None:
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(node_of(PLAIN, instance_count=2, router_count=2))
        with node.busy():
            running = [node.send(router=0) for at in range(2)]
            await until(lambda: node.held.load.free_count == 0)
            waiting = [node.send(router=at % 2) for at in range(4)]
            await until(lambda: node.held.load.waiting_count == 4)
            await replaced(node, stack, replace(PLAIN, max_batch_size=4))
            await answered(waiting)
        await answered(running)


async def test_what_another_router_has_waiting_survives_the_loss_of_all_instances() -> None:
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(node_of(PLAIN, instance_count=2, router_count=2))
        old = list(node.instances)
        with node.busy():
            running = [node.send(router=0) for at in range(2)]
            await until(lambda: node.held.load.free_count == 0)
            waiting = [node.send(router=at % 2) for at in range(4)]
            await until(lambda: node.held.load.waiting_count == 4)
            for instance in old:
                await asyncio.wrap_future(instance.reactor.submit(instance.server.close))
            await until(lambda: node.held is None or not node.held.has_instances)
            await replaced(node, stack, PLAIN)
            await answered(waiting)
        for request in running:
            await outcome(request)


async def test_a_router_that_does_not_reach_an_instance_yet_waits_for_it() -> None:
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(node_of(PLAIN, instance_count=2, router_count=2))
        late = node.routers.pop()
        await replaced(node, stack, PLAIN)
        await node.serving()
        node.routers.append(late)
        requests = [node.send(router=1) for _ in range(4)]
        await asyncio.sleep(0.1)
        node.publish()
        await answered(requests)


async def test_no_sequence_starts_at_an_instance_that_has_left_the_table() -> None:
    async with node_of(SEQUENCES, instance_count=2, router_count=2) as node:
        begun = [request_for(correlation_id=at, flags=SEQUENCE_START) for at in range(1, 9)]
        await answered([node.send(each, router=at % 2) for at, each in enumerate(begun)])
        leaving = node.instances.pop()
        node.publish(leaving=(leaving,))
        assert len(leaving.executor.feeder.running) == 4
        ends = [request_for(correlation_id=at, flags=SEQUENCE_END) for at in range(1, 9)]
        await answered([node.send(each, router=at % 2) for at, each in enumerate(ends)])
        rest = [request_for(correlation_id=at, flags=SEQUENCE_START) for at in range(11, 19)]
        started = [node.send(each, router=at % 2) for at, each in enumerate(rest)]
        (staying,) = node.instances
        await until(lambda: sum(each.sink.ended.done() for each in started) == 4)
        await until(lambda: node.held.load.waiting_count == 4)
        assert len(staying.executor.feeder.running) == 4
        assert not leaving.executor.feeder.running
        assert await leaving.executor.drain(10)
        for request in started:
            request.cancel()


async def test_sequences_go_on_when_their_holder_is_gone() -> None:
    async with node_of(SEQUENCES, instance_count=4, router_count=2) as node:
        begun = [request_for(correlation_id=at, flags=SEQUENCE_START) for at in range(1, 17)]
        await answered([node.send(each, router=1) for each in begun])
        await node.end(node.routers[0])
        for flags in (0, 0, SEQUENCE_END):
            going_on = [request_for(correlation_id=at, flags=flags) for at in range(1, 17)]
            await answered([node.send(each) for each in going_on])


async def test_sequences_of_an_instance_that_leaves_go_on_when_their_holder_is_gone() -> None:
    async with node_of(SEQUENCES, instance_count=2, router_count=2) as node:
        begun = [request_for(correlation_id=at, flags=SEQUENCE_START) for at in range(1, 7)]
        await answered([node.send(each, router=at % 2) for at, each in enumerate(begun)])
        leaving = node.instances.pop()
        node.publish(leaving=(leaving,))
        assert len(leaving.executor.feeder.running) == 3
        await node.end(node.routers[0])
        for flags in (0, SEQUENCE_END):
            going_on = [request_for(correlation_id=at, flags=flags) for at in range(1, 7)]
            fresh = request_for(correlation_id=10 + flags, flags=SEQUENCE_START)
            await answered([node.send(each) for each in [*going_on, fresh]])
            assert 10 + flags not in leaving.executor.feeder.running.values()
        assert await leaving.executor.drain(10)


async def test_a_holder_that_closes_gives_out_nothing_once_another_may_hold() -> None:
    async with node_of(SEQUENCES, instance_count=2, router_count=1) as node:
        router = node.routers[0]
        closing = asyncio.create_task(router.close())
        await asyncio.sleep(0)
        assert not router.node_pools.all_held()
        await closing


async def test_what_waits_when_all_instances_drain_is_executed_before_they_end() -> None:
    async with node_of(PLAIN, instance_count=2, router_count=2) as node:
        with node.busy():
            running = [node.send(router=0) for _ in range(2)]
            await until(lambda: node.held.load.free_count == 0)
            waiting = [node.send(router=at % 2) for at in range(4)]
            await until(lambda: node.held.load.waiting_count == 4)
            for instance in node.instances:
                await asyncio.wrap_future(instance.reactor.submit(instance.server.start_draining))
            for instance in node.instances:
                await until(
                    lambda instance=instance: instance.executor.outbox.outstanding_count == 3
                )
        await answered([*running, *waiting])


@pytest.mark.slow
async def test_what_cannot_be_executed_any_more_is_told_so() -> None:
    async with node_of(PLAIN, instance_count=2, router_count=2) as node:
        with node.busy():
            running = [node.send(router=0) for _ in range(2)]
            await until(lambda: node.held.load.free_count == 0)
            waiting = node.send(router=1)
            await until(lambda: node.held.load.waiting_count == 1)
            # The holder has not heard of it.
            node.routers[1].update(RoutingTable(10**9, {}, initialised=True))
            async with asyncio.timeout(10):
                assert isinstance(await outcome(waiting), UnavailableError)
        await answered(running)


async def test_a_request_is_not_sent_again_to_the_instance_that_its_router_has_lost() -> None:
    async with node_of(PLAIN, instance_count=2, router_count=2) as node:
        with node.busy():
            requests = [node.send(router=1) for _ in range(2)]
            await until(lambda: node.sizes == [1, 1])
            lost, other = node.instances
            incarnation = node.endpoint(lost).incarnation
            links = node.routers[1].links_of("m", 1)
            (link,) = [each for each in links if each.endpoint.incarnation == incarnation]
            assert link.lane is not None
            link.lane.close()
            await until(lambda: link.lane is not None)
            await until(lambda: node.held.load.waiting_count == 1)
            lost.model.gate.set()
            await until(lambda: node.held.load.free_count == 1)
            assert node.held.load.waiting_count == 1
            other.model.gate.set()
            await answered(requests)
            assert (lost.model.sizes, other.model.sizes) == ([1], [1, 1])


async def test_what_waits_at_a_holder_that_closes_ends_at_once() -> None:
    async with node_of(PLAIN, instance_count=2, router_count=1) as node:
        with node.busy():
            requests = [node.send() for _ in range(4)]
            await until(lambda: node.held.load.waiting_count == 2)
            await node.routers[0].close()
            async with asyncio.timeout(3):
                for request in requests:
                    assert isinstance(await outcome(request), UnavailableError)


async def test_what_a_router_has_waiting_elsewhere_ends_when_it_closes() -> None:
    async with node_of(PLAIN, instance_count=2, router_count=2) as node:
        with node.busy():
            running = [node.send(router=0) for _ in range(2)]
            await until(lambda: node.held.load.free_count == 0)
            waiting = [node.send(router=1) for _ in range(2)]
            await until(lambda: node.held.load.waiting_count == 2)
            await node.routers[1].close()
            waiting.append(node.send(router=1))
            async with asyncio.timeout(3):
                for request in waiting:
                    assert isinstance(await outcome(request), UnavailableError)
        await answered(running)
