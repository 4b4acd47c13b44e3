# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The pool of a node batches and balances as one, whoever sent the requests."""

from dataclasses import replace

import pytest

from backends.api.errors import RequestCancelledError, UnavailableError
from backends.api.model_config import DynamicBatching, ModelConfig, QueuePolicy
from deployments.routing.routed_request import RoutedRequest
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import Sink, until
from tests.support.pool_node import node_of, outcome
from tests.support.pool_rig import PooledInstance, request_for

PLAIN = ModelConfig("m")
BATCHING = ModelConfig("m", max_batch_size=8)
WAITING = replace(
    BATCHING, max_batch_size=4, dynamic_batching=DynamicBatching((4,), max_queue_delay_us=5_000_000)
)
GREEDY = replace(BATCHING, max_batch_size=4, dynamic_batching=DynamicBatching())


async def test_a_batch_is_formed_of_what_came_to_different_routers() -> None:
    async with node_of(WAITING, router_count=2) as node:
        requests = [node.send(router=at % 2) for at in range(8)]
        for request in requests:
            assert (await outcome(request)).outputs
        assert node.sizes == [4, 4]


async def test_a_request_goes_to_whichever_instance_is_free_first() -> None:
    async with node_of(PLAIN, instance_count=2) as node:
        with node.busy():
            requests = [node.send() for _ in range(3)]
            await until(lambda: sum(len(each.model.sizes) for each in node.instances) == 2)
            assert node.held.load.waiting_count == 1
            node.instances[1].model.gate.set()
            await until(lambda: node.instances[1].model.sizes == [1, 1])
        for request in requests:
            assert (await outcome(request)).outputs


async def test_the_bound_of_the_queue_is_that_of_the_pool() -> None:
    policy = QueuePolicy(max_queue_size=3)
    config = replace(
        GREEDY,
        max_batch_size=1,
        dynamic_batching=replace(DynamicBatching(), default_queue_policy=policy),
    )
    async with node_of(config, instance_count=2, router_count=2) as node:
        with node.busy():
            running = [node.send() for _ in range(2)]
            await until(lambda: sum(len(each.model.sizes) for each in node.instances) == 2)
            waiting = [node.send(router=at % 2) for at in range(5)]
            await until(lambda: sum(each.sink.error is not None for each in waiting) == 2)
            errors = [each.sink.error for each in waiting if each.sink.error is not None]
            assert all(isinstance(error, UnavailableError) for error in errors)
            assert all("Exceeds maximum queue size" in error.message for error in errors)
        for request in [*running, *waiting]:
            await outcome(request)


@pytest.mark.parametrize("router", [0, 1])
async def test_a_request_that_waits_is_cancelled(router: int) -> None:
    async with node_of(PLAIN, instance_count=2, router_count=2) as node:
        with node.busy():
            running = [node.send() for _ in range(2)]
            await until(lambda: sum(len(each.model.sizes) for each in node.instances) == 2)
            waiting = node.send(router=router)
            waiting.cancel()
            assert isinstance(await outcome(waiting), RequestCancelledError)
        for request in running:
            await outcome(request)
        assert sum(len(each.model.sizes) for each in node.instances) == 2


async def test_a_cancelled_request_that_its_instance_bounces_has_ended() -> None:
    async with node_of(PLAIN, instance_count=2) as node:
        router = node.routers[0]
        pool = router.find("m").pool
        request = RoutedRequest(router.resend, pool, request_for(), Sink())
        pool.lanes[0].start(request)
        request.cancel()
        assert isinstance(await outcome(request), RequestCancelledError)


async def test_what_waits_at_a_holder_that_ends_waits_at_the_next_one() -> None:
    async with node_of(PLAIN, instance_count=2, router_count=2) as node:
        with node.busy():
            requests = [node.send(router=1) for _ in range(6)]
            await until(lambda: node.sizes == [1, 1])
            await node.end(node.routers[0])
            await until(lambda: node.routers[0].find("m").pool.held is not None)
            await until(lambda: node.held is not None and node.held.load.waiting_count == 4)
        for request in requests:
            assert (await outcome(request)).outputs
        assert sum(len(each.model.sizes) for each in node.instances) == 6


async def test_an_instance_that_joins_takes_what_waits() -> None:
    async with node_of(PLAIN, instance_count=3) as node:
        third = node.instances.pop()
        node.publish()
        with node.busy():
            requests = [node.send() for _ in range(3)]
            await until(lambda: node.held.load.waiting_count == 1)
            node.instances.append(third)
            node.publish()
            await until(lambda: third.model.sizes == [1])
        for request in requests:
            assert (await outcome(request)).outputs


@pytest.mark.slow
@pytest.mark.parametrize("router", [0, 1])
async def test_what_waits_beside_idle_instances_waits_for_their_successors(router: int) -> None:
    async with (
        node_of(WAITING, instance_count=2, router_count=2) as node,
        PooledInstance(WAITING, ScriptedModel()) as third,
        PooledInstance(WAITING, ScriptedModel()) as fourth,
    ):
        # For others to share its batch, which an idle instance is there for.
        early = [node.send(router=router) for _ in range(2)]
        await until(lambda: node.held.load.waiting_count == 2)
        node.instances.clear()
        node.add(third)
        node.add(fourth)
        node.publish()
        late = [node.send(router=router) for _ in range(2)]
        for request in [*early, *late]:
            result = await outcome(request)
            assert not isinstance(result, Exception), result
        assert node.sizes == [4]


async def test_no_request_is_lost_or_doubled_when_many_come_at_once() -> None:
    async with node_of(GREEDY, instance_count=2) as node:
        requests = [node.send(request_for(str(at))) for at in range(40)]
        assert [(await outcome(each)).id for each in requests] == [str(at) for at in range(40)]
        assert sum(node.sizes) == 40
        assert node.held.load.waiting_count == 0
