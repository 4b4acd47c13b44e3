# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A pool with a queue of its own comes to rest and is woken, through every router of its node."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from backends.api.model_config import ModelConfig
from backends.api.request import InferenceResponse
from deployments.routing.wakes import Wakes
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import until
from tests.support.pool_node import Node, node_of, outcome
from tests.support.pool_rig import PooledInstance

PLAIN = ModelConfig("m")


class Controller:
    """Wakes the model of a node with new instances."""

    def __init__(self, node: Node, stack: contextlib.AsyncExitStack, count: int) -> None:
        self.node = node
        self.calls = 0
        self._stack = stack
        self._count = count
        for router in node.routers:
            router.wake_with(Wakes(self._wake))

    async def _wake(self, key: str, version: int) -> None:
        assert (key, version) == ("m", 1)
        self.calls += 1
        if not self.node.instances:
            started = [PooledInstance(PLAIN, ScriptedModel()) for _ in range(self._count)]
            for instance in started:
                self.node.add(await self._stack.enter_async_context(instance))
            self.node.publish()

    def rest(self) -> tuple[PooledInstance, ...]:
        """Put the model to rest; returns the instances that leave."""
        leaving = tuple(self.node.instances)
        self.node.instances.clear()
        self.node.publish(leaving, is_dormant=True)
        return leaving


@contextlib.asynccontextmanager
async def resting(routers: int, instances: int, woken: int) -> AsyncIterator[Controller]:
    async with (
        contextlib.AsyncExitStack() as stack,
        node_of(PLAIN, instance_count=instances, router_count=routers) as node,
    ):
        yield Controller(node, stack, woken)


@pytest.mark.parametrize("routers", [1, 2, 3])
@pytest.mark.parametrize("woken", [1, 2])
async def test_requests_of_every_router_wake_a_pool_and_are_answered(
    routers: int, woken: int
) -> None:
    async with resting(routers, 2, woken) as controller:
        node = controller.node
        leaving = controller.rest()
        node.publish(is_dormant=True)
        requests = [node.send(router=at % routers) for at in range(60)]
        for request in requests:
            assert isinstance(await outcome(request), InferenceResponse)
        assert 1 <= controller.calls <= routers
        assert sum(node.sizes) == 60
        assert not any(each.model.sizes for each in leaving)


@pytest.mark.parametrize("routers", [1, 2])
async def test_no_request_is_lost_when_a_pool_comes_to_rest_under_load(routers: int) -> None:
    async with resting(routers, 2, 2) as controller:
        node = controller.node
        with node.busy():
            first = [node.send(router=at % routers) for at in range(20)]
            await until(lambda: sum(len(each.model.sizes) for each in node.instances) == 2)
            leaving = controller.rest()
            later = [node.send(router=at % routers) for at in range(20)]
        for request in (*first, *later):
            assert isinstance(await outcome(request), InferenceResponse)
        assert sum(node.sizes) + sum(len(each.model.sizes) for each in leaving) == 40


async def test_a_pool_rests_and_wakes_again_and_again() -> None:
    async with resting(2, 2, 2) as controller:
        node = controller.node
        for _ in range(5):
            leaving = controller.rest()
            requests = [node.send(router=at % 2) for at in range(10)]
            for request in requests:
                assert isinstance(await outcome(request), InferenceResponse)
            node.publish()
            del leaving
        assert controller.calls >= 5
