# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences of which each request comes by another router, while instances and routers change."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.routing.router import Router
from tests.support import virtual_time
from tests.support.gates import amount
from tests.support.lane_rig import Sink
from tests.support.pool_cluster import is_known
from tests.support.pool_node import publish
from tests.support.pool_rig import request_for
from tests.support.virtual_nodes import VirtualInstance, VirtualNode, until, virtual_clock

CONFIG = ModelConfig(
    "m",
    max_batch_size=4,
    sequence_batching=SequenceBatching(
        strategy="oldest", max_candidate_sequences=32, max_sequence_idle_us=600_000_000
    ),
)
CLIENTS = 6
# Few moves, so that a history that fails can be read; many histories make up for it.
ROUNDS = 4
SEEDS = amount(34, 334, "MANTA_HISTORIES")
DIAL_S = 0.05
LONGEST_S = 3.0
COUNTS = ([1, 1], [2, 1], [1, 2], [2, 2], [3, 1])


class History:
    """A controller's doings, routers that come and go, and clients that ask meanwhile."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock_ns = virtual_clock()
        self.nodes = [VirtualNode(CONFIG, self.chance, DIAL_S) for _ in range(2)]
        self.leaving: list[VirtualInstance] = []
        self.draining: list[asyncio.Task[None]] = []
        self.is_over = False
        self.last_id = 0
        self.round = 0
        self.failures: list[str] = []
        self.open_counts: Counter[Router] = Counter()
        # Those that a load balancer knows.
        self.usable: list[Router] = []
        self.killed: set[Router] = set()
        self.given_up: set[int] = set()

    # Clients

    async def client(self) -> None:
        while not self.is_over:
            self.last_id += 1
            await self.sequence(self.last_id, self.chance.choice((2, 5, 9)))

    async def sequence(self, correlation_id: int, last: int) -> None:
        for place in range(last + 1):
            flags = (SEQUENCE_START * (place == 0)) | (SEQUENCE_END * (place == last))
            if not await self.request(correlation_id, flags, f"{place} of {last}"):
                # It may run somewhere: a client that has lost its connection ends it. If that is
                # lost, too, it goes idle.
                self.given_up.add(correlation_id)
                killed_count = -1
                while killed_count < len(self.killed):
                    killed_count = len(self.killed)
                    await self.request(correlation_id, SEQUENCE_END, "")
                return
            await asyncio.sleep(self.chance.random() * 0.01)

    async def request(self, correlation_id: int, flags: int, place: str) -> bool:
        """Send a request by some router; return whether it was answered."""
        router = self.chance.choice(self.usable)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self.open_counts[router] += 1
        asked = request_for(correlation_id=correlation_id, flags=flags)
        sink = Sink()
        router.submit(router.find("m"), asked, sink)
        await asyncio.wait([sink.ended], timeout=60)
        result = sink.error if sink.ended.done() else "no answer"
        self.open_counts[router] -= 1
        took_s = loop.time() - began_s
        if router in self.killed:
            return False
        is_failed = result is not None
        if place and (is_failed or took_s > LONGEST_S):
            told = f"{began_s:.3f} sequence {correlation_id} {place}: {took_s:.2f} s {result}"
            self.failures.append(told)
        return not is_failed

    # The controller

    def _duration_s(self) -> float:
        return self.chance.random() * 0.003

    def new(self, node: VirtualNode, count: int) -> None:
        for _ in range(count):
            node.add(VirtualInstance(node.config, self.clock_ns, self._duration_s))

    async def tell(self, share: float = 1.0) -> None:
        """Give some routers, each in its time, a table of how things are then."""
        told = [router for node in self.nodes for router in node.routers]
        self.chance.shuffle(told)
        for router in told[: max(1, round(len(told) * share))]:
            if any(router in node.routers for node in self.nodes):
                publish(self.nodes, tuple(self.leaving), routers=[router])
            await asyncio.sleep(self.chance.choice((0, 0, 0.005, 0.02)) * self.chance.random())

    def change(self, **changes: object) -> None:
        self.round += 1
        for node in self.nodes:
            parameters = {"round": str(self.round)}
            node.config = replace(node.config, parameters=parameters, **changes)

    @property
    def members(self) -> list[list[VirtualInstance]]:
        return [list(node.instances) for node in self.nodes]

    def drain(self, gone: Sequence[VirtualInstance]) -> None:
        for each in gone:
            self.draining.append(asyncio.create_task(self._drain(each)))

    async def _drain(self, instance: VirtualInstance) -> None:
        is_done = await instance.drain()
        if not is_done and not self.given_up.issuperset(instance.executor.feeder.running.values()):
            self.failures.append("an instance that left was not done in time")
        self.leaving.remove(instance)
        await self.tell()

    async def _switch(self) -> None:
        before = [each for node in self.members for each in node]
        for node, count in zip(self.nodes, self.chance.choice(COUNTS), strict=True):
            node.instances.clear()
            self.new(node, count)
        self.leaving += before
        await self.tell()
        self.drain(before)

    # Moves

    async def switch(self) -> None:
        """Replace all instances."""
        self.change()
        await self._switch()

    async def undo(self) -> None:
        """Replace all instances; the controller dies when some have heard, and its successor
        goes on with those that there were.
        """
        self.change()
        before = self.members
        for node, count in zip(self.nodes, self.chance.choice(COUNTS), strict=True):
            node.instances.clear()
            self.new(node, count)
        old = [each for node in before for each in node]
        self.leaving += old
        await self.tell(0.6)
        await asyncio.sleep(self.chance.random() * 0.05)
        undone = [each for node in self.members for each in node]
        for node, instances in zip(self.nodes, before, strict=True):
            node.instances[:] = instances
        self.leaving[:] = [each for each in self.leaving if each not in old] + undone
        self.change()
        await self.tell()
        self.drain(undone)

    async def scale(self) -> None:
        """Have more or fewer instances."""
        gone: list[VirtualInstance] = []
        for node in self.nodes:
            self.new(node, self.chance.choice((0, 1, 1)))
            if len(node.instances) > 1 and self.chance.random() < 0.6:
                gone.append(node.instances.pop(self.chance.randrange(len(node.instances))))
        self.leaving += gone
        await self.tell()
        self.drain(gone)

    async def rebatch(self) -> None:
        """Replace all instances by some with other settings of their batcher."""
        idle_us = CONFIG.sequence_batching.max_sequence_idle_us + self.round + 1
        self.change(
            sequence_batching=replace(CONFIG.sequence_batching, max_sequence_idle_us=idle_us)
        )
        await self._switch()

    async def retell(self) -> None:
        """Tell of another config of the same instances."""
        idle_us = CONFIG.sequence_batching.max_sequence_idle_us + self.round + 1
        self.change(
            sequence_batching=replace(CONFIG.sequence_batching, max_sequence_idle_us=idle_us)
        )
        await self.tell()

    async def join(self) -> Router:
        """Start a router."""
        return await self.join_at(self.chance.choice(self.nodes))

    async def join_at(self, node: VirtualNode) -> Router:
        router = await node.join()
        publish(self.nodes, tuple(self.leaving), routers=[router])
        self.usable.append(router)
        return router

    async def end(self) -> None:
        """Replace a router in order: its successor comes before it goes."""
        node = self.chance.choice(self.nodes)
        router = self.chance.choice(node.routers)
        await self.join_at(node)
        self.usable.remove(router)
        await until(lambda: not self.open_counts[router])
        await node.end(router)

    async def kill(self) -> None:
        """Kill a router of a node that has others."""
        node = self.chance.choice(self.nodes)
        if len(node.routers) < 2:
            await self.join_at(node)
        router = self.chance.choice(node.routers)
        self.usable.remove(router)
        self.killed.add(router)
        await node.kill(router)

    async def run(self, moves: Sequence[str], rounds: int) -> None:
        """Make moves while clients ask."""
        for node in self.nodes:
            self.new(node, 1)
        for node in self.nodes * 2:
            await self.join_at(node)
        for router in self.usable:
            publish(self.nodes, routers=[router])
        for router in self.usable:
            await until(lambda router=router: is_known(router, self.nodes))
        clients = [asyncio.create_task(self.client()) for _ in range(CLIENTS)]
        for _ in range(rounds):
            await getattr(self, self.chance.choice(moves))()
            await asyncio.sleep(self.chance.random() * 0.1)
        self.is_over = True
        await asyncio.gather(*clients)
        for node in self.nodes:
            self.leaving += node.instances
            self.drain(node.instances)
            node.instances.clear()
        await asyncio.gather(*self.draining)
        for node in self.nodes:
            for router in list(node.routers):
                await node.end(router)


def failures_of(
    seed: int, moves: Sequence[str], rounds: int, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Run a history; return what went wrong."""

    async def run() -> list[str]:
        history = History(seed)
        with monkeypatch.context() as patched:
            patched.setattr(time, "monotonic_ns", history.clock_ns)
            await history.run(moves, rounds)
        return history.failures

    random.seed(seed)
    return virtual_time.run(run())


HISTORIES = {
    "instances": ("switch", "scale"),
    "routers": ("join", "end", "kill"),
    "both": ("switch", "scale", "end", "kill"),
    "undone": ("undo", "scale"),
    "settings": ("rebatch", "retell"),
    "all": ("switch", "scale", "undo", "rebatch", "retell", "end", "kill"),
}


@pytest.fixture(autouse=True)
def _no_fault(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A lane that a fault of its router breaks heals, and the history would not show it."""
    yield
    assert not [each.getMessage() for each in caplog.get_records("call") if each.exc_info]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", HISTORIES)
def test_no_sequence_is_lost_whichever_router_its_requests_come_by(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = HISTORIES[kind]
    if failures_of(seed, moves, ROUNDS, monkeypatch):
        # The shortest that fails is the one to read.
        for rounds in range(ROUNDS + 1):
            found = failures_of(seed, moves, rounds, monkeypatch)
            assert not found, f"after {rounds} moves"
        raise AssertionError("it failed once, and did not when it was run again")
