# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences over the pools of several nodes: each stays where it has started."""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import replace

import pytest

from backends.api.errors import TritonError, UnavailableError
from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import Sink, until
from tests.support.pool_cluster import Cluster, cluster_of, executed
from tests.support.pool_node import Node, outcome, publish
from tests.support.pool_rig import PooledInstance, request_for

SEQUENCES = ModelConfig(
    "m", max_batch_size=4, sequence_batching=SequenceBatching(max_sequence_idle_us=60_000_000)
)


async def send(node: Node, ids: Iterable[int], flags: int = 0, router: int = 0) -> list:
    """Send one request of each sequence, and return what they end with."""
    return [await outcome(each) for each in begin(node, ids, flags, router)]


def begin(node: Node, ids: Iterable[int], flags: int = 0, router: int = 0) -> list:
    """Send one request of each sequence."""
    return [node.send(request_for(correlation_id=each, flags=flags), router=router) for each in ids]


def running(node: Node) -> set[int]:
    """Return the sequences that run on a node."""
    return {each for x in node.instances for each in x.executor.feeder.running.values()}


def failures(outcomes: list) -> list:
    return [each for each in outcomes if isinstance(each, TritonError)]


async def settled(cluster: Cluster) -> None:
    """Wait until no execution is under way."""
    await until(lambda: all(n.held.load.free_count == len(n.instances) for n in cluster.nodes))


async def test_a_new_sequence_starts_on_the_node_with_most_free_slots() -> None:
    async with cluster_of(SEQUENCES, [2, 3]) as cluster:
        first, second = cluster.nodes
        assert not failures(await send(first, range(1, 21), SEQUENCE_START))
        assert len(running(first)) == 8
        assert len(running(second)) == 12


async def test_a_sequence_goes_on_where_it_runs_whatever_router_gets_it() -> None:
    async with cluster_of(SEQUENCES, [2, 3], router_count=2) as cluster:
        first, second = cluster.nodes
        assert not failures(await send(first, range(1, 21), SEQUENCE_START))
        began = running(first), running(second)
        for node in (second, first):
            for router in (0, 1):
                assert not failures(await send(node, range(1, 21), router=router))
        assert (running(first), running(second)) == began
        assert not failures(await send(second, range(1, 21), SEQUENCE_END, router=1))
        await until(lambda: not running(first) and not running(second))


async def test_a_sequence_that_begins_again_takes_the_place_of_the_one_before() -> None:
    async with cluster_of(SEQUENCES, [2, 2]) as cluster:
        first, second = cluster.nodes
        for _ in range(3):
            assert not failures(await send(first, range(1, 9), SEQUENCE_START))
        assert len(running(first)) + len(running(second)) == 8
        assert sum(len(x.executor.feeder.running) for n in cluster.nodes for x in n.instances) == 8


async def test_instances_that_are_lost_end_their_sequences_only() -> None:
    async with cluster_of(SEQUENCES, [2, 2]) as cluster:
        first, second = cluster.nodes
        assert not failures(await send(first, range(1, 17), SEQUENCE_START))
        await settled(cluster)
        lost = second.instances.pop()
        ended = set(lost.executor.feeder.running.values())
        assert ended
        await asyncio.wrap_future(lost.reactor.submit(lost.server.close))
        cluster.publish()
        await until(lambda: second.held.load.instance_count == 1)
        outcomes = await send(first, range(1, 17))
        failed = {at for at, each in enumerate(outcomes, 1) if isinstance(each, TritonError)}
        assert failed == ended
        assert executed(first) + executed(second)


async def test_a_request_with_memory_of_this_node_is_told_that_its_sequence_runs_elsewhere() -> (
    None
):
    async with cluster_of(SEQUENCES, [2, 2]) as cluster:
        first, second = cluster.nodes
        assert not failures(await send(first, range(1, 9), SEQUENCE_START))
        router, sink = first.routers[0], Sink()
        elsewhere = min(running(second))
        asked = request_for(correlation_id=elsewhere)
        error = await outcome(router.submit_local(router.find("m"), asked, sink))
        assert isinstance(error, UnavailableError)
        assert "runs on another node" in error.message
        # It begins anew here, though it has run there.
        asked = request_for(correlation_id=elsewhere, flags=SEQUENCE_START)
        assert not failures([await outcome(router.submit_local(router.find("m"), asked, Sink()))])
        assert elsewhere in running(first)


async def test_a_sequence_has_ended_when_its_node_is_gone() -> None:
    async with cluster_of(SEQUENCES, [2, 2]) as cluster:
        first, second = cluster.nodes
        assert not failures(await send(first, range(1, 9), SEQUENCE_START))
        ended = running(second)
        await cluster.stop_holder(second)
        for lost in second.instances:
            await asyncio.wrap_future(lost.reactor.submit(lost.server.close))
        second.instances.clear()
        cluster.publish()
        pool = first.routers[0].find("m").pool
        await until(lambda: len(pool.lanes) == 2 and not pool.retired)
        async with asyncio.timeout(5):
            outcomes = await send(first, ended)
        assert all(isinstance(each, TritonError) for each in outcomes)
        assert "ended with its instance" in outcomes[0].message


@pytest.mark.parametrize("router", [0, 1])
async def test_a_sequence_that_waits_for_a_slot_is_found_by_all_routers(router: int) -> None:
    async with cluster_of(SEQUENCES, [2, 2], router_count=2) as cluster:
        first, second = cluster.nodes
        taken = range(1, 17)
        assert not failures(await send(first, taken, SEQUENCE_START))
        await settled(cluster)
        waiting = range(20, 28)
        begins = begin(first, waiting, SEQUENCE_START)
        await until(lambda: sum(n.held.load.waiting_count for n in cluster.nodes) == 8)
        ends = begin(second, waiting, SEQUENCE_END, router)
        assert not failures(await send(first, taken, SEQUENCE_END))
        assert not failures([await outcome(each) for each in (*begins, *ends)])


@pytest.mark.slow
@pytest.mark.parametrize("is_leaving", [True, False])
@pytest.mark.parametrize("after", [[1, 1], [0, 2], [2, 0], [2, 1], [1, 2]])
@pytest.mark.parametrize("before", [[3, 0], [2, 1], [0, 2], [1, 1]])
async def test_sequences_go_on_at_instances_that_a_reload_replaces_on_whichever_nodes(
    before: list[int], after: list[int], *, is_leaving: bool
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(cluster_of(SEQUENCES, before, router_count=2))
        first, second = cluster.nodes
        assert not failures(await send(first, range(1, 5), SEQUENCE_START))
        assert not failures(await send(second, range(5, 9), SEQUENCE_START))
        leaving: list[PooledInstance] = []
        for node, count in zip(cluster.nodes, after, strict=True):
            leaving += node.instances
            node.instances.clear()
            node.config = replace(SEQUENCES, parameters={"round": "2"})
            for _ in range(count):
                instance = PooledInstance(node.config, ScriptedModel())
                node.add(await stack.enter_async_context(instance))
        publish(cluster.nodes, tuple(leaving) if is_leaving else ())
        for flags in (0, SEQUENCE_END):
            asked = [
                *begin(first, range(1, 3), flags, router=0),
                *begin(first, range(3, 5), flags, router=1),
                *begin(second, range(5, 7), flags, router=0),
                *begin(second, range(7, 9), flags, router=1),
            ]
            assert not failures([await outcome(each) for each in asked])
