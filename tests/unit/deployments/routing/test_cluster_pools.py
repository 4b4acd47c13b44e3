# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Pools of several nodes: a request is executed where it waits least, and never lost."""

import asyncio
import gc
from collections.abc import Sequence

import pytest

from backends.api.model_config import DynamicBatching, ModelConfig
from deployments.pool_queue.messages import Lease
from deployments.routing.routed_request import RoutedRequest
from tests.support.lane_rig import Sink, until
from tests.support.pool_cluster import begun, cluster_of, executed
from tests.support.pool_node import Node, outcome
from tests.support.pool_rig import request_for

PLAIN = ModelConfig("m")
GREEDY = ModelConfig("m", max_batch_size=4, dynamic_batching=DynamicBatching())


# A node is trusted for so long after it has said something.
TRUST_S = 1.1


async def answered(requests: Sequence[RoutedRequest]) -> None:
    for request in requests:
        result = await outcome(request)
        assert not isinstance(result, Exception), result


async def fill(node: Node) -> list[RoutedRequest]:
    """Have all instances of a node execute, which is busy."""
    requests = []
    for count in range(1, len(node.instances) + 1):
        requests.append(node.send())
        await begun(node, count)
    return requests


async def test_requests_of_a_loaded_node_run_on_an_idle_one() -> None:
    async with cluster_of(PLAIN, [2, 2]) as cluster:
        with cluster[0].busy(), cluster[1].busy():
            requests = [cluster[0].send() for _ in range(4)]
            await begun(cluster[0], 2)
            await begun(cluster[1], 2)
        await answered(requests)


async def test_a_node_that_is_not_loaded_keeps_its_requests() -> None:
    async with cluster_of(PLAIN, [2, 2, 2]) as cluster:
        for _ in range(20):
            await answered([cluster[1].send()])
        assert [executed(node) for node in cluster.nodes] == [0, 20, 0]


async def test_requests_of_a_node_without_instances_run_on_all_others() -> None:
    async with cluster_of(PLAIN, [0, 2, 2]) as cluster:
        with cluster[1].busy(), cluster[2].busy():
            requests = [cluster[0].send() for _ in range(4)]
            await begun(cluster[1], 2)
            await begun(cluster[2], 2)
        await answered(requests)


@pytest.mark.parametrize("router", [0, 1])
@pytest.mark.parametrize("config", [PLAIN, GREEDY])
async def test_what_waits_is_taken_back_when_another_node_runs_dry(
    config: ModelConfig, router: int
) -> None:
    async with cluster_of(config, [2, 2], router_count=2) as cluster:
        first, second = cluster.nodes
        with first.busy():
            with second.busy():
                running = await fill(second)
                here = await fill(first)
                waiting = [first.send(router=router) for _ in range(4)]
                await until(
                    lambda: first.held.load.waiting_count + second.held.load.waiting_count == 4
                )
            await answered(waiting)
            assert executed(first) == 2
        await answered([*running, *here])


async def test_many_requests_of_all_nodes_are_each_answered_once() -> None:
    async with cluster_of(GREEDY, [2, 2, 2], router_count=2) as cluster:
        requests = [
            cluster[at % 7 % 3].send(request_for(str(at)), router=at % 2) for at in range(120)
        ]
        assert [(await outcome(each)).id for each in requests] == [str(at) for at in range(120)]
        assert sum(sum(node.sizes) for node in cluster.nodes) == 120


async def test_an_instance_is_free_again_that_was_kept_for_a_router_which_does_nothing() -> None:
    async with cluster_of(PLAIN, [2, 2]) as cluster:
        first, second = cluster.nodes
        router = first.routers[0]
        pool = router.find("m").pool
        (queue,) = [place.queue for place in pool.routes._places if not place.is_own]
        leases: list[Lease] = []
        queue.on_lease = leases.append
        queue.ask(when_free=True)
        await until(lambda: leases)
        await until(lambda: second.held.load.free_count == 2)
        assert executed(second) == 0
        # What it sends after all is executed, and ends nothing else.
        late = RoutedRequest(router.resend, pool, request_for(), Sink())
        assert queue.start_on(leases[0], late)
        await answered([late, second.send()])
        await until(lambda: second.held.load.free_count == 2)


async def test_a_request_that_all_nodes_turned_away_is_sent_when_one_has_its_queue_again() -> None:
    async with cluster_of(PLAIN, [0, 2, 2]) as cluster:
        pool = cluster[0].routers[0].find("m").pool
        for place in pool.routes._places:
            place._turned_away()
        request = cluster[0].send()
        assert list(pool.waiting) == [request]
        await answered([request])


async def test_what_waits_at_a_node_whose_holder_is_gone_is_served_elsewhere() -> None:
    async with cluster_of(PLAIN, [2, 2]) as cluster:
        first, second = cluster.nodes
        with second.busy():
            with first.busy():
                running = [second.send() for _ in range(2)]
                here = [first.send() for _ in range(2)]
                await begun(first, 2)
                await begun(second, 2)
                waiting = [first.send() for _ in range(6)]
                await until(lambda: second.held.load.waiting_count)
                ends = asyncio.create_task(cluster.stop_holder(second))
                await until(lambda: first.held.load.waiting_count == 6)
            await answered([*here, *waiting])
            # A node without a holder gets no requests.
            await answered([first.send() for _ in range(8)])
            assert executed(second) == 2
        await ends
        for request in running:
            await outcome(request)


async def test_a_node_that_has_said_nothing_for_long_gets_no_requests() -> None:
    async with cluster_of(PLAIN, [2, 2, 2]) as cluster:
        first, second, third = cluster.nodes
        cluster.freeze(second)
        await asyncio.sleep(TRUST_S)
        with first.busy():
            running = await fill(first)
            await answered([first.send() for _ in range(20)])
            assert (executed(second), executed(third)) == (0, 20)
        await answered(running)


async def test_what_waits_at_a_holder_that_says_nothing_is_served_elsewhere() -> None:
    async with cluster_of(PLAIN, [2, 2, 2], silence_s=0.5) as cluster:
        first, second, _ = cluster.nodes
        cluster.freeze(second)
        with first.busy():
            running = await fill(first)
            await answered([first.send() for _ in range(20)])
        await answered(running)


async def test_a_request_that_needs_this_nodes_memory_stays() -> None:
    async with cluster_of(PLAIN, [2, 2]) as cluster:
        first, second = cluster.nodes
        router = first.routers[0]
        with first.busy():
            requests = [first.send() for _ in range(2)]
            await begun(first, 2)
            local = [router.submit_local(router.find("m"), request_for(), Sink()) for _ in range(2)]
            await until(lambda: first.held.load.waiting_count == 2)
            await answered([first.send() for _ in range(4)])
            assert not any(each.sink.ended.done() for each in local)
        await answered([*requests, *local])
        assert (executed(first), executed(second)) == (4, 4)


async def test_a_pool_of_one_and_a_pool_of_three_serve_together() -> None:
    async with cluster_of(PLAIN, [1, 3]) as cluster:
        first, second = cluster.nodes
        with first.busy(), second.busy():
            requests = [first.send() for _ in range(2)] + [second.send() for _ in range(2)]
            await begun(first, 1)
            await begun(second, 3)
        await answered(requests)


async def test_a_pool_of_one_takes_what_a_pool_of_three_has_no_instance_for() -> None:
    async with cluster_of(PLAIN, [1, 3]) as cluster:
        first, second = cluster.nodes
        with first.busy(), second.busy():
            requests = [second.send() for _ in range(4)]
            await begun(first, 1)
            await begun(second, 3)
        await answered(requests)


async def test_what_waits_at_a_node_that_has_lost_its_instances_is_served_elsewhere() -> None:
    async with cluster_of(PLAIN, [2, 2]) as cluster:
        first, second = cluster.nodes
        with second.busy():
            with first.busy():
                running = [first.send() for _ in range(2)] + [second.send() for _ in range(2)]
                await begun(first, 2)
                await begun(second, 2)
                waiting = [first.send() for _ in range(6)]
                await until(lambda: second.held.load.waiting_count)
                for instance in second.instances:
                    await asyncio.wrap_future(instance.reactor.submit(instance.server.close))
                await until(lambda: first.held.load.waiting_count >= 6)
            await answered(waiting)
        for request in running:
            await outcome(request)
        await answered([first.send() for _ in range(8)])


@pytest.mark.parametrize("router", [0, 1])
async def test_nodes_hear_that_nothing_waits_for_their_free_instances_any_more(router: int) -> None:
    async with cluster_of(PLAIN, [2, 2], router_count=2) as cluster:
        first, second = cluster.nodes
        with second.busy():
            with first.busy():
                running = await fill(second)
                here = await fill(first)
                waiting = first.send(router=router)
                await until(lambda: second.held.reports.askers)
            await answered([*here, waiting])
            await until(lambda: not second.held.reports.askers)
        await answered(running)
        assert executed(second) == 2


def routed_requests() -> set[int]:
    """Identities of the routed requests that exist in this process."""
    # `isinstance` would ask the objects of other libraries for their class, and some warn.
    return {id(each) for each in gc.get_objects() if type(each) is RoutedRequest}


@pytest.mark.parametrize("instance_counts", [[0, 1], [0, 1, 1], [1, 1]])
async def test_an_answered_request_is_freed_without_the_collector(
    instance_counts: list[int],
) -> None:
    async with cluster_of(PLAIN, instance_counts) as cluster:
        router = cluster[0].routers[0]
        gc.collect()
        before = routed_requests()
        gc.disable()
        try:
            for _ in range(4):
                sink = Sink()
                router.submit(router.find("m"), request_for(), sink)
                await sink.ended
            # The thread that brought the last answer refers to it until its call returns. What is
            # never freed runs into the time limit.
            await until(lambda: routed_requests() <= before)
        finally:
            gc.enable()
