# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences go on while the instances of a model are replaced, whoever hears of it first."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from backends.api.errors import InvalidArgumentError, TritonError, UnavailableError
from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.routing.router import Router
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import until
from tests.support.pool_cluster import Cluster, cluster_of, remote_transports
from tests.support.pool_node import Node, answered, ask, node_of, outcome, publish
from tests.support.pool_rig import PooledInstance, stopped

SEQUENCES = ModelConfig(
    "m",
    max_batch_size=4,
    sequence_batching=SequenceBatching(
        strategy="oldest", max_candidate_sequences=8, max_sequence_idle_us=60_000_000
    ),
)
START, END = SEQUENCE_START, SEQUENCE_END
_rounds = itertools.count()


def lanes(router: Router) -> int:
    return len(router.find("m").pool.lanes)


@contextlib.asynccontextmanager
async def another(node: Node) -> AsyncIterator[PooledInstance]:
    """Start one more instance on a node, which takes the place of those it has."""
    async with PooledInstance(node.config, ScriptedModel()) as instance:
        node.instances.clear()
        node.add(instance)
        yield instance


@contextlib.asynccontextmanager
async def beside_a_silent_instance(node: Node) -> AsyncIterator[Router]:
    """Begin sequence 1, then have a new router, to which its instance says nothing meanwhile."""
    await answered(ask(node, 1, START))
    (first,) = [each for each in node.instances if each.model.sizes]
    await node.end(node.routers[0])
    with stopped(first):
        router = await node.join()
        node.publish()
        yield router


def change_config(cluster: Cluster) -> None:
    """Have the next table be another one, be it of the same instances."""
    for node in cluster.nodes:
        node.config = replace(node.config, parameters={"round": str(next(_rounds))})


@contextlib.contextmanager
def silent(cluster: Cluster, node: Node) -> Iterator[None]:
    """Have the holder of a node read nothing from routers of other nodes meanwhile."""
    cluster.freeze(node)
    yield
    for transport in remote_transports(node):
        transport.resume_reading()


async def test_a_request_goes_where_the_queue_was_asked_for_though_a_new_instance_is_there() -> (
    None
):
    async with cluster_of(SEQUENCES, [0, 2]) as cluster:
        near, far = cluster.nodes
        router = near.routers[0]
        await answered(*[ask(near, each, START) for each in range(1, 5)])
        leaving = tuple(far.instances)
        async with another(far) as instance:
            publish(cluster.nodes, leaving, routers=[router])
            await until(lambda: lanes(router) == 1)
            with silent(cluster, far):
                asked = [ask(near, each) for each in range(1, 5)]
                for _ in range(3):
                    # The questions are on their way then.
                    await asyncio.sleep(0)
                # Has it look again who decides for the node: the new instance is on its own yet.
                change_config(cluster)
                publish(cluster.nodes, leaving, routers=[router])
            await answered(*asked)
            change_config(cluster)
            publish(cluster.nodes, leaving)
            await answered(*[ask(near, each, END) for each in range(1, 5)])
            assert not instance.model.sizes


async def test_a_sequence_begins_in_the_queue_of_its_node_not_at_an_instance_without() -> None:
    async with cluster_of(SEQUENCES, [2, 1], router_count=2) as cluster:
        near, far = cluster.nodes
        router, before = near.routers[1], list(near.instances)
        async with another(near) as instance:
            publish(cluster.nodes, routers=[router])
            await until(lambda: lanes(router) == 2)
            requests = [ask(near, each, START, router=1) for each in range(1, 9)]
            await answered(*requests)
            assert not instance.model.sizes
            # The controller that had told of it has died, and the next one has the others.
            near.instances[:] = before
            far.instances.clear()
            publish(cluster.nodes)
            await answered(*[ask(near, each, router=1) for each in range(1, 9)])
            await answered(*[ask(near, each, END, router=1) for each in range(1, 9)])


@pytest.mark.parametrize("is_leaving", [True, False])
async def test_an_instance_that_is_in_the_table_again_goes_on_with_its_sequences(
    *, is_leaving: bool
) -> None:
    async with cluster_of(SEQUENCES, [2, 0], router_count=2) as cluster:
        near = cluster.nodes[0]
        before = list(near.instances)
        await answered(*[ask(near, each, START) for each in range(1, 5)])
        async with another(near):
            publish(cluster.nodes, tuple(before) if is_leaving else ())
            await until(lambda: lanes(near.routers[0]) == 1)
            await answered(*[ask(near, each, router=each % 2) for each in range(1, 5)])
            near.instances[:] = before
            publish(cluster.nodes)
            await answered(*[ask(near, each, router=each % 2) for each in range(1, 5)])
            await answered(*[ask(near, each, END, router=each % 2) for each in range(1, 5)])
        # All of their slots are there again.
        await answered(*[ask(near, each, START) for each in range(11, 27)])


@pytest.mark.slow
async def test_a_queue_refuses_nothing_before_its_instances_have_told_what_runs_there() -> None:
    async with node_of(SEQUENCES, 2) as node:
        async with beside_a_silent_instance(node) as router:
            await until(lambda: lanes(router) == 1)
            # Answered when the queue waits no longer for the instance to tell.
            await answered(ask(node, 2, START))
            asked = ask(node, 1)
            await answered(ask(node, 3, START))
            assert not asked.sink.ended.done()
        await answered(asked, ask(node, 1, END))
        await node.end(router)


@pytest.mark.slow
async def test_a_request_whose_sequence_may_run_at_a_silent_instance_is_unavailable() -> None:
    async with node_of(SEQUENCES, 2) as node:
        async with beside_a_silent_instance(node) as router:
            assert isinstance(await outcome(ask(node, 1)), UnavailableError)
        # Tried again, as an unavailable service is.
        while isinstance(answer := await outcome(ask(node, 1, END)), UnavailableError):
            pass
        assert not isinstance(answer, TritonError), answer
        await node.end(router)


@pytest.mark.slow
async def test_a_request_of_a_cancelled_sequence_is_refused_though_its_instance_has_it() -> None:
    async with cluster_of(SEQUENCES, [1, 1]) as cluster:
        near = cluster.nodes[0]
        (instance,) = near.instances
        with instance.held():
            asked = [ask(near, 1, START), *(ask(near, 1) for _ in range(3))]
            await instance.entered()
            for each in asked:
                each.cancel()
        for each in asked:
            await outcome(each)
        assert isinstance(await outcome(ask(near, 1)), InvalidArgumentError)


async def test_a_refusal_says_who_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with cluster_of(SEQUENCES, [2, 1]) as cluster:
        near = cluster.nodes[0]
        assert isinstance(await outcome(ask(near, 77)), InvalidArgumentError)
        (line,) = [each for each in caplog.messages if "refused a request of sequence 77" in each]
        assert line.count("m/1#") >= 3
        assert "queue of [" in line
        # One that is asked in vain all the time fills no log.
        await outcome(ask(near, 78))
        assert not [each for each in caplog.messages if "sequence 78" in each]
