# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences at instances that leave, of which the routers there are now have heard late."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import until
from tests.support.pool_cluster import cluster_of
from tests.support.pool_node import Node, answered, ask, node_of, publish
from tests.support.pool_rig import PooledInstance, stopped

SEQUENCES = ModelConfig(
    "m",
    max_batch_size=4,
    sequence_batching=SequenceBatching(
        strategy="oldest", max_candidate_sequences=8, max_sequence_idle_us=60_000_000
    ),
)


@contextlib.asynccontextmanager
async def replaced(node: Node) -> AsyncIterator[tuple[PooledInstance, ...]]:
    """Put two instances in the place of those that a node has, which leave."""
    leaving = tuple(node.instances)
    node.instances.clear()
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            node.add(await stack.enter_async_context(PooledInstance(node.config, ScriptedModel())))
        yield leaving


async def test_a_holder_that_came_after_instances_had_left_knows_their_sequences() -> None:
    async with node_of(SEQUENCES, 2) as node:
        await answered(ask(node, 1, SEQUENCE_START), ask(node, 2, SEQUENCE_START))
        async with replaced(node) as leaving:
            node.publish(leaving)
            await node.join()
            node.publish(leaving)
            await until(lambda: len(node.routers[1].find("m").pool.lanes) == 2)
            await node.end(node.routers[0])
            await until(lambda: node.routers[0].find("m").pool.held is not None)
            await answered(*[ask(node, each) for each in (1, 2)])
            await answered(*[ask(node, each, SEQUENCE_END) for each in (1, 2)])
            await node.end(node.routers[0])


async def test_a_router_that_came_after_instances_had_left_reaches_their_sequences() -> None:
    async with node_of(SEQUENCES, 2) as node:
        await answered(ask(node, 1, SEQUENCE_START))
        async with replaced(node) as leaving:
            node.publish(leaving)
            router = await node.join()
            node.publish(leaving)
            await answered(ask(node, 1, router=1))
            await answered(ask(node, 1, SEQUENCE_END, router=1))
            await node.end(router)


async def test_a_sequence_that_begins_at_a_pool_of_one_is_found_by_every_router() -> None:
    async with node_of(SEQUENCES, 1, router_count=2) as node:
        await answered(ask(node, 1, SEQUENCE_START, router=1))
        assert all(router.find("m").pool.queue is not None for router in node.routers)
        await answered(ask(node, 1), ask(node, 1, SEQUENCE_END, router=1))


def with_other_settings(config: ModelConfig) -> ModelConfig:
    batching = config.sequence_batching
    if batching is None:
        return replace(config, max_batch_size=config.max_batch_size + 1)
    idle_us = batching.max_sequence_idle_us + 1
    return replace(config, sequence_batching=replace(batching, max_sequence_idle_us=idle_us))


@pytest.mark.parametrize("router", [0, 1])
async def test_sequences_go_on_though_their_successors_batch_by_other_settings(router: int) -> None:
    async with node_of(SEQUENCES, 2, router_count=2) as node:
        await answered(*[ask(node, each, SEQUENCE_START) for each in (1, 2, 3)])
        node.config = with_other_settings(SEQUENCES)
        async with replaced(node) as leaving:
            node.publish(leaving)
            await answered(*[ask(node, each, router=router) for each in (1, 2, 3)])
            await answered(*[ask(node, each, SEQUENCE_END, router) for each in (1, 2, 3)])


@pytest.mark.slow
@pytest.mark.parametrize("config", [SEQUENCES, ModelConfig("m", max_batch_size=4)])
async def test_instances_serve_the_queue_of_another_config_of_theirs(config: ModelConfig) -> None:
    async with node_of(config, 2, router_count=2) as node:
        flags = 0 if config.sequence_batching is None else SEQUENCE_START
        number = 1 if flags else 0
        with node.busy():
            begun = ask(node, number, flags)
            await until(lambda: any(each.model.sizes for each in node.instances))
            node.config = with_other_settings(config)
            node.publish()
        await answered(begun, *[ask(node, number, router=each) for each in (0, 1, 0, 1)])
        await until(lambda: node.held.load.free_count == 2)


@pytest.mark.parametrize("router", [0, 1])
async def test_what_waits_for_a_slot_begins_elsewhere_when_its_node_has_only_leaving_instances(
    router: int,
) -> None:
    one_slot = replace(
        SEQUENCES,
        sequence_batching=replace(SEQUENCES.sequence_batching, max_candidate_sequences=1),
    )
    async with cluster_of(one_slot, [2, 2], router_count=2) as cluster:
        first, second = cluster.nodes
        await answered(*[ask(first, each, SEQUENCE_START) for each in (1, 2)])
        await answered(*[ask(second, each, SEQUENCE_START) for each in (3, 4)])
        waiting = [ask(first, each, SEQUENCE_START, router) for each in (5, 6)]
        await until(lambda: sum(node.held.load.waiting_count for node in cluster.nodes) == 2)
        gone = next(node for node in cluster.nodes if node.held.load.waiting_count)
        stays = second if gone is first else first
        leaving = tuple(gone.instances)
        gone.instances.clear()
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(2):
                instance = PooledInstance(one_slot, ScriptedModel())
                stays.add(await stack.enter_async_context(instance))
            publish(cluster.nodes, leaving)
            await answered(*waiting)
            await answered(*[ask(first, each, SEQUENCE_END) for each in range(1, 7)])


@pytest.mark.slow
async def test_an_instance_that_leaves_and_hangs_keeps_nothing_from_its_successors() -> None:
    async with node_of(SEQUENCES, 1) as node:
        await answered(ask(node, 1, SEQUENCE_START))
        (first,) = node.instances
        node.config = with_other_settings(SEQUENCES)
        async with replaced(node) as leaving:
            with stopped(first):
                node.publish(leaving)
                await answered(ask(node, 2, SEQUENCE_START))
            await answered(*[ask(node, each, SEQUENCE_END) for each in (1, 2)])


async def test_a_router_reaches_an_instance_that_only_the_holder_has_heard_of() -> None:
    async with node_of(SEQUENCES, 2, router_count=2) as node:
        holder, other = node.routers
        async with replaced(node) as leaving:
            publish([node], leaving, routers=[holder])
            await answered(*[ask(node, each, SEQUENCE_START) for each in (1, 2)])
            assert all(each.model.sizes for each in node.instances)
            assert len(other.links_of("m", 1)) < len(holder.links_of("m", 1))
            await answered(*[ask(node, each, router=1) for each in (1, 2)])
            await answered(*[ask(node, each, SEQUENCE_END, router=1) for each in (1, 2)])
