# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences that were sent to a node without a free slot, while another node has some."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable

import pytest

from backends.api.backend import ExecuteBatch
from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.routing.router import Router
from tests.support import virtual_time
from tests.support.lane_requests import echo
from tests.support.lane_rig import Sink
from tests.support.pool_cluster import is_known
from tests.support.pool_node import publish
from tests.support.pool_rig import request_for
from tests.support.virtual_nodes import VirtualInstance, VirtualNode, until, virtual_clock

SLOTS = 4
CONFIG = ModelConfig(
    "m", max_batch_size=SLOTS, sequence_batching=SequenceBatching(max_sequence_idle_us=600_000_000)
)


class Nodes:
    """Two nodes, and the outcomes of what was sent by their routers."""

    def __init__(self) -> None:
        self.clock_ns = virtual_clock()
        self.nodes = [VirtualNode(CONFIG, random.Random(1)) for _ in range(2)]

    def add_instance(self, index: int) -> None:
        self.nodes[index].add(VirtualInstance(CONFIG, self.clock_ns, lambda: 0.001))

    async def begin(
        self, router_counts: tuple[int, int], instance_counts: tuple[int, int]
    ) -> list[list[Router]]:
        """Serve; return the routers of each node, once they know all instances."""
        for index, node in enumerate(self.nodes):
            for _ in range(instance_counts[index]):
                self.add_instance(index)
            for _ in range(router_counts[index]):
                await node.join()
        publish(self.nodes)
        routers = [list(node.routers) for node in self.nodes]
        for router in (each for group in routers for each in group):
            await until(lambda router=router: is_known(router, self.nodes))
        for node in self.nodes:
            await until(lambda node=node: not node.instances or node.held is not None)
        return routers

    def send(
        self,
        router: Router,
        ids: Iterable[int],
        flags: int = 0,
        *,
        is_local: bool = False,
        name: str = "",
    ) -> list[Sink]:
        """Send a request of each sequence, only to the router's own node if so said."""
        sinks = []
        for each in ids:
            sinks.append(Sink())
            submit = router.submit_local if is_local else router.submit
            asked = request_for(name, correlation_id=each, flags=flags)
            submit(router.find("m"), asked, sinks[-1])
        return sinks

    def log_executed(self) -> list[dict[int, list[str]]]:
        """Return what is filled, for each node, with what it executes of each sequence."""
        return [self._log_executed(node) for node in self.nodes]

    @staticmethod
    def _log_executed(node: VirtualNode) -> dict[int, list[str]]:
        executed: dict[int, list[str]] = defaultdict(list)

        def script(batch: ExecuteBatch) -> None:
            for each in batch.requests:
                executed[each.request.correlation_id].append(each.request.id)
            echo(batch)

        for instance in node.instances:
            instance.model.script = script
        return executed

    def running(self, index: int) -> set[int]:
        """Return the sequences that run on a node."""
        (instance,) = self.nodes[index].instances
        return set(instance.executor.feeder.running.values())

    async def end(self) -> None:
        for node in self.nodes:
            for router in list(node.routers):
                await node.end(router)
            for instance in node.instances:
                await instance.close()


async def answered(sinks: Iterable[Sink], within_s: float = 1.0) -> None:
    for sink in sinks:
        await until(sink.ended.done, within_s)
        assert sink.error is None


def withdrawn(router: Router) -> list[int]:
    """Return the sequences whose first request a router of the other node takes back."""
    (remote,) = router._membership._remote.values()
    waiting = remote.lane.waiting.values()
    return [each.request.correlation_id for each in waiting if each.is_withdrawn]


async def turned(condition: Callable[[], bool]) -> None:
    """Turn the loop until a condition holds, which may be for no time at all."""
    while not condition():  # noqa: ASYNC110 - it is a state of a router, which tells nobody
        await asyncio.sleep(0)


def run(
    history: Callable[[Nodes, list[list[Router]]], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
    router_counts: tuple[int, int] = (1, 1),
    instance_counts: tuple[int, int] = (1, 1),
) -> None:
    """Run a history in virtual time."""

    async def whole() -> None:
        nodes = Nodes()
        with monkeypatch.context() as patched:
            patched.setattr(time, "monotonic_ns", nodes.clock_ns)
            await history(nodes, await nodes.begin(router_counts, instance_counts))
            await nodes.end()

    random.seed(1)
    virtual_time.run(whole())


@pytest.mark.parametrize("sender", [0, 1])
def test_a_sequence_sent_to_a_full_node_begins_where_a_slot_is_free(
    sender: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def history(nodes: Nodes, routers: list[list[Router]]) -> None:
        (first, *_), second = routers[0], routers[1][sender]
        # Of these the routers of the other node hear nothing.
        await answered(nodes.send(first, range(1, 5), SEQUENCE_START, is_local=True))
        await answered(nodes.send(second, range(5, 9), SEQUENCE_START))
        assert nodes.running(0) == {1, 2, 3, 4}
        assert nodes.running(1) == {5, 6, 7, 8}
        await answered(nodes.send(first, range(5, 9), SEQUENCE_END))

    run(history, monkeypatch, (1, 2))


def test_sequences_that_wait_at_the_own_node_begin_on_a_node_that_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def history(nodes: Nodes, routers: list[list[Router]]) -> None:
        (first,), _ = routers
        await answered(nodes.send(first, range(1, 5), SEQUENCE_START))
        waiting = nodes.send(first, range(5, 9), SEQUENCE_START)
        # What is followed by others stays.
        waiting += nodes.send(first, [8])
        await until(lambda: nodes.nodes[0].held.load.waiting_count == 5)
        nodes.add_instance(1)
        publish(nodes.nodes)
        await answered(waiting[:3])
        assert nodes.running(1) == {5, 6, 7}
        await answered(nodes.send(first, [1], SEQUENCE_END))
        await answered(waiting)
        assert nodes.running(0) == {2, 3, 4, 8}

    run(history, monkeypatch, instance_counts=(1, 0))


@pytest.mark.parametrize("follower", [0, 1])
def test_what_follows_a_first_request_closely_is_executed_after_it(
    follower: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def history(nodes: Nodes, routers: list[list[Router]]) -> None:
        (first,), seconds = routers
        await answered(nodes.send(first, range(1, 5), SEQUENCE_START, is_local=True))
        sent = nodes.send(seconds[0], range(5, 9), SEQUENCE_START)
        sent += nodes.send(seconds[follower], range(5, 9))
        sent += nodes.send(seconds[follower], range(5, 9), SEQUENCE_END)
        # What is followed by others at a full node waits there.
        await answered(nodes.send(first, range(1, 5), SEQUENCE_END))
        await answered(sent)

    run(history, monkeypatch, (1, 2))


def test_what_comes_while_a_first_request_is_taken_back_is_executed_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def history(nodes: Nodes, routers: list[list[Router]]) -> None:
        (first,), (second,) = routers
        await answered(nodes.send(first, range(1, 5), SEQUENCE_START, is_local=True))
        sent = nodes.send(second, range(5, 9), SEQUENCE_START)
        await turned(lambda: bool(withdrawn(second)))
        back = withdrawn(second)
        sent += nodes.send(second, back)
        sent += nodes.send(second, back, SEQUENCE_END)
        await answered(sent)
        assert nodes.running(1) == set(range(5, 9)).difference(back)

    run(history, monkeypatch)


def test_what_comes_by_another_router_while_a_first_request_is_taken_back_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def history(nodes: Nodes, routers: list[list[Router]]) -> None:
        (first,), (second, other) = routers
        await answered(nodes.send(first, range(1, 5), SEQUENCE_START, is_local=True))
        sent = nodes.send(second, range(5, 9), SEQUENCE_START)
        await turned(lambda: bool(withdrawn(second)))
        back = withdrawn(second)
        # For a while no queue has it.
        (remote,) = second._membership._remote.values()
        remote.lane._connection.transport.pause_reading()
        sent += nodes.send(other, back, SEQUENCE_END)
        await asyncio.sleep(0.01)
        remote.lane._connection.transport.resume_reading()
        await answered(sent)

    run(history, monkeypatch, (1, 2))


def test_an_id_may_be_used_again_while_a_first_request_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def history(nodes: Nodes, routers: list[list[Router]]) -> None:
        (first,), (second,) = routers
        await answered(nodes.send(first, range(1, 5), SEQUENCE_START, is_local=True))
        sent = nodes.send(second, range(5, 9), SEQUENCE_START)
        await turned(lambda: bool(withdrawn(second)))
        back = withdrawn(second)
        executed = nodes.log_executed()
        for place, flags in enumerate((0, SEQUENCE_END, SEQUENCE_START, 0, SEQUENCE_END)):
            sent += nodes.send(second, back, flags, name=str(place))
        await answered(nodes.send(first, range(1, 5), SEQUENCE_END))
        await answered(sent)
        # Two sequences, which may run beside each other, each at its node and in its order.
        for names in ["", "0", "1"], ["2", "3", "4"]:
            for each in back:
                there = [[x for x in node[each] if x in names] for node in executed]
                assert sorted(there) == [[], names]

    run(history, monkeypatch)


def test_what_follows_a_first_request_stays_behind_it_when_its_holder_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def history(nodes: Nodes, routers: list[list[Router]]) -> None:
        (first,), (second,) = routers
        await answered(nodes.send(first, range(1, 5), SEQUENCE_START, is_local=True))
        sent = nodes.send(second, range(5, 9), SEQUENCE_START)
        await turned(lambda: bool(withdrawn(second)))
        for lane in first._membership._server.lanes:
            lane.connection.transport.pause_reading()
        sent += nodes.send(second, withdrawn(second), SEQUENCE_END)
        await nodes.nodes[0].kill(first)
        await answered(sent)

    run(history, monkeypatch)


def test_a_first_request_that_is_cancelled_while_it_is_taken_back_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def history(nodes: Nodes, routers: list[list[Router]]) -> None:
        (first,), (second,) = routers
        await answered(nodes.send(first, range(1, 5), SEQUENCE_START, is_local=True))
        sinks = [Sink() for _ in range(4)]
        model = second.find("m")
        sent = [
            second.submit(model, request_for(correlation_id=each, flags=SEQUENCE_START), sink)
            for each, sink in enumerate(sinks, 5)
        ]
        await turned(lambda: bool(withdrawn(second)))
        for each in sent:
            each.cancel()
        for sink in sinks:
            await until(sink.ended.done, 1.0)
        assert nodes.nodes[0].held.load.waiting_count == 0

    run(history, monkeypatch)
