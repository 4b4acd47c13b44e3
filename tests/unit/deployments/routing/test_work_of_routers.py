# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router does upon an event takes as many steps as there is that the event concerns."""

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn

from backends.api.model_config import ModelConfig, SequenceBatching
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.client import LaneClient, LaneInflight
from deployments.routing.adoption_states import AdoptionEvent
from deployments.routing.node_routes import NodeRoutes
from deployments.routing.pool import Link, LinkPool
from deployments.routing.routed_request import RoutedRequest
from deployments.routing.waiting_requests import WaitingRequests
from deployments.slabs.pool import SlabPool
from tests.support import virtual_time
from tests.support.cluster_of_instances import request
from tests.support.instruction_count import NotWalked
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import SECRET, Sink, until
from tests.support.pool_node import node_of
from tests.support.pool_rig import PooledInstance

NODES = 500
SEQUENCES = ModelConfig("m", max_batch_size=4, sequence_batching=SequenceBatching())


class CountedPlaces(list[Any]):
    """Nodes, each of which can be looked at, which is counted; all are never visited."""

    look_count = 0

    def __iter__(self) -> NoReturn:
        raise AssertionError("all are walked")

    def __getitem__(self, index: Any) -> Any:
        self.look_count += 1
        return super().__getitem__(index)


class Lane(LaneClient):
    """A lane to an instance on its own, which executes something already."""

    def __init__(self, endpoint: InstanceEndpoint, outstanding: int = 1) -> None:
        super().__init__(
            endpoint,
            same_node=False,
            secret=SECRET,
            slabs=SlabPool(0),
            on_lost=lambda lane, orphans: None,
        )
        self.outstanding = outstanding
        self.started: list[LaneInflight] = []

    def start(self, inflight: LaneInflight) -> None:
        self.started.append(inflight)


def endpoint_of(number: int) -> InstanceEndpoint:
    return InstanceEndpoint(f"m/1#{number}", "", f"node {number}", "", ("", 0))


def nothing(_: RoutedRequest) -> None:
    pass


def routed_for(pool: LinkPool, send: Callable[[RoutedRequest], None] = nothing) -> RoutedRequest:
    return RoutedRequest(send, pool, request(), Sink())


async def test_a_request_is_sent_by_a_look_at_a_few_nodes_of_many() -> None:
    pool = LinkPool()
    lanes: list[Lane] = []
    for number in range(NODES):
        link = Link(endpoint_of(number), pool, is_local=not number)
        # The own one is not worth a wait there.
        link.lane = lane = Lane(link.endpoint, 1 if number else 50)
        link.move(AdoptionEvent.CONNECTED)
        lanes.append(lane)
        pool.links.append(link)
    routes: Any = NodeRoutes(pool, "node 0", lambda *_: None, lambda _: None)
    routes.refresh(pool.links)
    places = routes._places
    routes._places = counted = CountedPlaces(places)
    for _ in range(10):
        assert routes.send(routed_for(pool))
    assert counted.look_count <= 10 * 10
    assert sum(len(lane.started) for lane in lanes) == 10
    assert sum(bool(lane.started) for lane in lanes) > 1
    routes._places = places
    routes.close()


async def test_a_request_is_sent_where_it_can_be_though_most_nodes_are_away() -> None:
    pool = LinkPool()
    for number in range(NODES):
        pool.links.append(Link(endpoint_of(number), pool, is_local=False))
    link = pool.links[NODES // 2]
    link.lane = lane = Lane(link.endpoint)
    link.move(AdoptionEvent.CONNECTED)
    routes = NodeRoutes(pool, "own", lambda *_: None, lambda _: None)
    routes.refresh(pool.links)
    assert routes.send(first := routed_for(pool))
    assert lane.started == [first]
    lane.draining = True
    assert not routes.send(routed_for(pool))
    routes.close()


def test_a_request_that_waits_is_noted_without_a_look_at_other_models() -> None:
    async def main() -> None:
        waiting = WaitingRequests()
        waiting._pools = NotWalked()
        pools = [LinkPool() for _ in range(3)]
        for pool in pools:
            pool.links.append(Link(endpoint_of(0), pool, is_local=True))
            waiting.add(pool, routed_for(pool))
        waiting._pools = dict.fromkeys(pools)
        waiting.close()

    virtual_time.run(main())


def test_what_waits_is_tried_again_one_by_one_until_one_can_be_sent() -> None:
    async def main() -> None:
        tried: list[RoutedRequest] = []
        is_there = False

        def send(routed: RoutedRequest) -> None:
            tried.append(routed)
            if not is_there:
                waiting.add(pool, routed)

        waiting = WaitingRequests()
        pool = LinkPool()
        pool.links.append(Link(endpoint_of(0), pool, is_local=True))
        requests = [routed_for(pool, send) for _ in range(100)]
        requests[7].local_only = True
        for routed in requests:
            waiting.add(pool, routed)
        await asyncio.sleep(10)
        assert set(tried) == {requests[0], requests[7]}
        assert len(tried) <= 2 * 10
        assert set(pool.waiting) == set(requests)
        # Nobody says so.
        is_there = True
        await asyncio.sleep(1.5)
        assert not pool.waiting
        assert set(tried) == set(requests)
        waiting.close()

    virtual_time.run(main())


async def test_an_instance_is_adopted_without_a_look_at_other_models() -> None:
    async with node_of(SEQUENCES, 1) as node, PooledInstance(SEQUENCES, ScriptedModel()) as added:
        pools: Any = node.routers[0].node_pools
        if pools._gathering is not None:
            pools._gathering.cancel()
        # However long the test takes.
        pools._gathering = asyncio.get_running_loop().call_later(3600, pools._end_gathering)
        pools._links = NotWalked(pools._links)
        node.add(added)
        node.publish()
        await until(lambda: node.held.load.instance_count == 2)
        assert node.routers[0].find("m").pool.queue is node.held
        pools._links = dict(dict.items(pools._links))
