# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences under random switches of generations, of which each router hears in its own time."""

import asyncio
import random
import time
from dataclasses import replace

import pytest

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.routing.router import Router
from tests.support import virtual_time
from tests.support.pool_cluster import is_known
from tests.support.pool_node import outcome, publish
from tests.support.pool_rig import request_for
from tests.support.virtual_nodes import VirtualInstance, VirtualNode, until, virtual_clock

CONFIG = ModelConfig(
    "m",
    max_batch_size=4,
    sequence_batching=SequenceBatching(
        strategy="oldest", max_candidate_sequences=32, max_sequence_idle_us=60_000_000
    ),
)
SWITCHES = 10
DIAL_S = 0.01
# No instance waits for a part of a batch that does not come.
LONGEST_S = 3.0
# Each node keeps one: what is to start on a node that has none else waits for those that leave.
COUNTS = ([1, 1], [2, 1], [1, 2], [2, 2])
Members = list[list[VirtualInstance]]


class History:
    """A controller's doings, and clients that ask meanwhile."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock_ns = virtual_clock()
        self.nodes = [VirtualNode(CONFIG, self.chance, DIAL_S) for _ in range(2)]
        self.round = 0
        self.is_over = False
        self.ids = iter(range(1, 100_000))
        self.failures: list[str] = []

    async def client(self, node: VirtualNode, router: int) -> None:
        """Run one sequence after the other by the same router."""
        while not self.is_over:
            correlation_id, last = next(self.ids), self.chance.choice((2, 5, 9))
            for place in range(last + 1):
                flags = (SEQUENCE_START if place == 0 else 0) | (
                    SEQUENCE_END if place == last else 0
                )
                if not await self.ask(node, router, correlation_id, flags):
                    return
                await asyncio.sleep(self.chance.random() * 0.01)

    async def ask(self, node: VirtualNode, router: int, correlation_id: int, flags: int) -> bool:
        """Send a request and return whether it was answered in time."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        asked = request_for(correlation_id=correlation_id, flags=flags)
        result = await outcome(node.send(asked, router=router))
        took_s = loop.time() - began_s
        if not isinstance(result, TritonError) and took_s <= LONGEST_S:
            return True
        what = result if isinstance(result, TritonError) else "answered"
        self.failures.append(f"{began_s:.3f} sequence {correlation_id}: {took_s:.2f} s {what}")
        return False

    async def tell(self, leaving: tuple[VirtualInstance, ...] = (), share: float = 1.0) -> None:
        """Give some routers, each in its time, a table with the instances there are now."""
        self.round += 1
        for node in self.nodes:
            node.config = replace(node.config, parameters={"round": str(self.round)})
        told: list[Router] = [x for node in self.nodes for x in node.routers]
        self.chance.shuffle(told)
        told = told[: max(1, round(len(told) * share))]
        for router in told:
            publish(self.nodes, leaving, routers=[router])
            await asyncio.sleep(self.chance.choice((0, 0, 0.005, 0.02)) * self.chance.random())

    @property
    def members(self) -> Members:
        return [list(node.instances) for node in self.nodes]

    def _duration_s(self) -> float:
        return self.chance.random() * 0.003

    def take(self, counts: list[int]) -> None:
        """Have as many new instances in place of those there are."""
        for node, count in zip(self.nodes, counts, strict=True):
            node.instances.clear()
            for _ in range(count):
                node.add(VirtualInstance(CONFIG, self.clock_ns, self._duration_s))

    async def switch(self) -> None:
        """Replace all instances; now and then a controller dies over it, and all is as before."""
        before = self.members
        leaving = tuple(each for node in before for each in node)
        is_undone = self.chance.random() < 0.3
        self.take(self.chance.choice(COUNTS))
        await self.tell(leaving if self.chance.random() < 0.6 else (), 0.6 if is_undone else 1.0)
        if not is_undone:
            await self.drain(before)
            return
        await asyncio.sleep(self.chance.random() * 0.05)
        undone = self.members
        for node, instances in zip(self.nodes, before, strict=True):
            node.instances[:] = instances
        await self.tell()
        await self.drain(undone)

    async def drain(self, gone: Members) -> None:
        """End instances once they have nothing more to do."""
        for instance in [each for node in gone for each in node]:
            assert await instance.drain()

    async def run(self) -> None:
        """Switch while clients ask."""
        self.take([1, 1])
        for node in self.nodes * 2:
            await node.join()
        publish(self.nodes)
        routers = [router for node in self.nodes for router in node.routers]
        for router in routers:
            await until(lambda router=router: is_known(router, self.nodes))
        clients = [
            asyncio.create_task(self.client(node, router))
            for node in self.nodes
            for router in (0, 1)
            for _ in range(2)
        ]
        for _ in range(SWITCHES):
            await self.switch()
        self.is_over = True
        await asyncio.gather(*clients)
        for router in routers:
            await router.close()
        for instance in [each for node in self.members for each in node]:
            await instance.close()


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_no_sequence_is_lost_however_instances_are_replaced(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> list[str]:
        history = History(seed)
        with monkeypatch.context() as patched:
            patched.setattr(time, "monotonic_ns", history.clock_ns)
            await history.run()
        return history.failures

    random.seed(seed)
    assert not virtual_time.run(run())
