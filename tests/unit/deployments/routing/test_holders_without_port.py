# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A node whose queues other nodes cannot reach, as no TCP port is free there, in virtual time."""

import asyncio
import random
import socket
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest

from backends.api.errors import TritonError, UnavailableError
from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_START, InferenceResponse
from deployments.routing.router import Router
from deployments.settings.port_range import PortRange
from tests.support import virtual_time
from tests.support.free_ports import free_ports
from tests.support.pool_node import has_holder, outcome, publish
from tests.support.pool_rig import request_for
from tests.support.virtual_nodes import VirtualInstance, VirtualNode, until, virtual_clock

PLAIN = ModelConfig("m", max_batch_size=4)
SEQUENCES = ModelConfig(
    "m", max_batch_size=4, sequence_batching=SequenceBatching(max_sequence_idle_us=60_000_000)
)


class Used:
    """A range of one port, which something else listens at."""

    def __init__(self) -> None:
        self.ports: PortRange = free_ports(1)
        self._sock = socket.create_server(("127.0.0.1", self.ports.first))

    def free(self) -> None:
        self._sock.close()


class Nodes:
    """Two nodes, the second of which finds no port."""

    def __init__(self, config: ModelConfig, used: Used) -> None:
        self._used = used
        clock_ns = virtual_clock()
        self.first, self.second = (VirtualNode(config, random.Random(1)) for _ in range(2))
        self._make: Callable[[], VirtualInstance] = lambda: VirtualInstance(
            config, clock_ns, lambda: 0.001
        )

    async def begin(self, counts: tuple[int, int]) -> Router:
        """Serve; return the first node's router once it has heard of the second's queues."""
        nodes = (self.first, self.second)
        for node, count in zip(nodes, counts, strict=True):
            for _ in range(count):
                node.add(self._make())
        router = await self.first.join()
        other = await self.second.join(ports=self._used.ports)
        publish(nodes)
        await until(lambda: len(router.find("m").pool.lanes) == sum(counts))
        await until(lambda: other.find("m").pool.held is not None)
        await until(router.node_pools.cut_off_nodes)
        await until(lambda: not self.first.instances or self.first.held is not None)
        return router

    async def end(self) -> None:
        for node in (self.first, self.second):
            for router in list(node.routers):
                await node.end(router)
            for instance in node.instances:
                await instance.close()


async def ask(
    node: VirtualNode, correlation_id: int = 0, flags: int = 0
) -> InferenceResponse | TritonError:
    """Send a request by a node's router and return its outcome, which comes at once."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    result = await outcome(node.send(request_for(correlation_id=correlation_id, flags=flags)))
    assert loop.time() - began_s < 1.0
    return result


@pytest.fixture
def used() -> Iterator[Used]:
    made = Used()
    yield made
    made.free()


def in_virtual_time(
    monkeypatch: pytest.MonkeyPatch, config: ModelConfig, used: Used
) -> Callable[[Callable[[Nodes], Awaitable[None]]], None]:
    async def run(main: Callable[[Nodes], Awaitable[None]]) -> None:
        nodes = Nodes(config, used)
        with monkeypatch.context() as patched:
            patched.setattr(time, "monotonic_ns", virtual_clock())
            await asyncio.wait_for(main(nodes), 120)
            await nodes.end()

    random.seed(1)
    return lambda main: virtual_time.run(run(main))


def test_requests_of_other_nodes_are_refused_at_once_and_served_once_a_port_is_free(
    monkeypatch: pytest.MonkeyPatch, used: Used
) -> None:
    async def main(nodes: Nodes) -> None:
        router = await nodes.begin((0, 2))
        assert isinstance(await ask(nodes.second), InferenceResponse)
        error = await ask(nodes.first)
        assert isinstance(error, UnavailableError)
        assert f"model 'm' is served on node {nodes.second.node_id}" in error.message
        assert "--lane-port-range" in error.message
        used.free()
        await until(lambda: not router.node_pools.cut_off_nodes())
        await until(lambda: len(router.find("m").pool.routes.queues()))
        assert isinstance(await ask(nodes.first), InferenceResponse)
        assert isinstance(await ask(nodes.second), InferenceResponse)

    in_virtual_time(monkeypatch, PLAIN, used)(main)


def test_requests_go_to_nodes_that_can_be_reached(
    monkeypatch: pytest.MonkeyPatch, used: Used
) -> None:
    async def main(nodes: Nodes) -> None:
        await nodes.begin((2, 2))
        for _ in range(8):
            assert isinstance(await ask(nodes.first), InferenceResponse)
        assert not nodes.second.sizes

    in_virtual_time(monkeypatch, PLAIN, used)(main)


def test_a_sequence_there_is_refused_and_others_start_elsewhere(
    monkeypatch: pytest.MonkeyPatch, used: Used
) -> None:
    async def main(nodes: Nodes) -> None:
        await nodes.begin((2, 2))
        assert isinstance(await ask(nodes.second, 1, SEQUENCE_START), InferenceResponse)
        running = [*nodes.second.instances[0].executor.feeder.running.values()]
        running += nodes.second.instances[1].executor.feeder.running.values()
        assert running == [1]
        error = await ask(nodes.first, 1)
        assert isinstance(error, UnavailableError)
        assert f"sequence 1 of model 'm' runs on node {nodes.second.node_id}" in error.message
        assert isinstance(await ask(nodes.first, 2, SEQUENCE_START), InferenceResponse)
        assert isinstance(await ask(nodes.first, 2), InferenceResponse)

    in_virtual_time(monkeypatch, SEQUENCES, used)(main)


def test_a_process_that_has_a_port_holds_rather_than_one_that_has_none(
    monkeypatch: pytest.MonkeyPatch, used: Used
) -> None:
    async def main(nodes: Nodes) -> None:
        node = nodes.second
        without = asyncio.create_task(node.join(ports=used.ports))
        await until(lambda: bool(node.routers))
        router = await node.join()
        await without
        (other,) = [each for each in node.routers if each is not router]
        assert has_holder(router)
        assert router._membership._candidacy.is_holder
        assert not other._membership._candidacy.is_holder

    in_virtual_time(monkeypatch, PLAIN, used)(main)
