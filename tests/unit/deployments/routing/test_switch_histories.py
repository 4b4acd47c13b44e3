# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences under random switches of generations, of which each router hears in its own time."""

import asyncio
import contextlib
import random
from dataclasses import replace

import pytest

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.routing.router import Router
from tests.support.lane_requests import ScriptedModel
from tests.support.pool_cluster import Cluster, cluster_of
from tests.support.pool_node import Node, outcome, publish
from tests.support.pool_rig import PooledInstance, request_for

CONFIG = ModelConfig(
    "m",
    max_batch_size=4,
    sequence_batching=SequenceBatching(
        strategy="oldest", max_candidate_sequences=32, max_sequence_idle_us=60_000_000
    ),
)
SWITCHES = 10
# Each node keeps one: what is to start on a node that has none else waits for those that leave.
COUNTS = ([1, 1], [2, 1], [1, 2], [2, 2])
Members = list[list[PooledInstance]]


class History:
    """A controller's doings, and clients that ask meanwhile."""

    def __init__(
        self, cluster: Cluster, chance: random.Random, stack: contextlib.AsyncExitStack
    ) -> None:
        self.cluster = cluster
        self.chance = chance
        self.stack = stack
        self.round = 0
        self.is_over = False
        self.ids = iter(range(1, 100_000))
        self.failures: list[TritonError] = []

    async def client(self, node: Node, router: int) -> None:
        """Run one sequence after the other by the same router."""
        while not self.is_over:
            correlation_id, last = next(self.ids), self.chance.choice((2, 5, 9))
            for place in range(last + 1):
                flags = (SEQUENCE_START if place == 0 else 0) | (
                    SEQUENCE_END if place == last else 0
                )
                asked = request_for(correlation_id=correlation_id, flags=flags)
                result = await outcome(node.send(asked, router=router))
                if isinstance(result, TritonError):
                    self.failures.append(result)
                    return
                await asyncio.sleep(self.chance.random() * 0.01)

    async def tell(self, leaving: tuple[PooledInstance, ...] = (), share: float = 1.0) -> None:
        """Give some routers, each in its time, a table with the instances there are now."""
        self.round += 1
        for node in self.cluster.nodes:
            node.config = replace(node.config, parameters={"round": str(self.round)})
        told: list[Router] = [x for node in self.cluster.nodes for x in node.routers]
        self.chance.shuffle(told)
        told = told[: max(1, round(len(told) * share))]
        for router in told:
            publish(self.cluster.nodes, leaving, routers=[router])
            await asyncio.sleep(self.chance.choice((0, 0, 0.005, 0.02)) * self.chance.random())

    @property
    def members(self) -> Members:
        return [list(node.instances) for node in self.cluster.nodes]

    async def take(self, counts: list[int]) -> None:
        """Have as many new instances in place of those there are."""
        for node, count in zip(self.cluster.nodes, counts, strict=True):
            node.instances.clear()
            for _ in range(count):
                instance = PooledInstance(CONFIG, ScriptedModel())
                node.add(await self.stack.enter_async_context(instance))

    async def switch(self) -> None:
        """Replace all instances; now and then a controller dies over it, and all is as before."""
        before = self.members
        leaving = tuple(each for node in before for each in node)
        is_undone = self.chance.random() < 0.3
        await self.take(self.chance.choice(COUNTS))
        await self.tell(leaving if self.chance.random() < 0.6 else (), 0.6 if is_undone else 1.0)
        if not is_undone:
            await self.drain(before)
            return
        await asyncio.sleep(self.chance.random() * 0.05)
        undone = self.members
        for node, instances in zip(self.cluster.nodes, before, strict=True):
            node.instances[:] = instances
        await self.tell()
        await self.drain(undone)

    async def drain(self, gone: Members) -> None:
        """End instances once they have nothing more to do."""
        for instance in [each for node in gone for each in node]:
            server = instance.server
            await asyncio.wrap_future(instance.reactor.submit(server.start_draining))
            assert await instance.executor.drain(30)
            await asyncio.wrap_future(instance.reactor.submit(server.close))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_no_sequence_is_lost_however_instances_are_replaced(seed: int) -> None:
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(cluster_of(CONFIG, [1, 1], router_count=2))
        history = History(cluster, random.Random(seed), stack)
        clients = [
            asyncio.create_task(history.client(node, router))
            for node in cluster.nodes
            for router in (0, 1)
            for _ in range(2)
        ]
        for _ in range(SWITCHES):
            await history.switch()
        history.is_over = True
        await asyncio.gather(*clients)
        assert not history.failures
