# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A node: instances of one model with their executors, and routers that choose a holder."""

import asyncio
import contextlib
import functools
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.contracts.routing_table import (
    InstanceEndpoint,
    Model,
    ModelReadyState,
    ModelVersion,
    RoutingTable,
)
from deployments.routing.node_place import TimedSink
from deployments.routing.routed_request import RoutedRequest
from deployments.routing.router import Router
from deployments.settings.lane_settings import LaneSettings
from deployments.settings.port_range import ANY_PORT, PortRange
from deployments.slabs.pool import SlabPool
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import SECRET, Sink, until
from tests.support.pool_rig import PooledInstance, request_for

_numbers = itertools.count(1)


def has_holder(router: Router) -> bool:
    """Whether somebody holds the queues of a router's node, as far as it knows."""
    pools: Any = router.node_pools
    return pools._adopt is not None or pools._tickets is not None


class Node:
    """The instances and routers of one node.

    Attributes:
        node_id: Its id, which nothing else has.
        config: The model's config.
        instances: The instances.
        routers: The routers; the first is the first to compete for holding.
    """

    def __init__(self, config: ModelConfig) -> None:
        self.node_id = f"node-{os.getpid()}-{next(_numbers)}"
        self.config = config
        self.instances: list[PooledInstance] = []
        self.routers: list[Router] = []
        self._endpoints: dict[PooledInstance, InstanceEndpoint] = {}

    def add(self, instance: PooledInstance) -> None:
        name = f"i{next(_numbers)}"
        self._endpoints[instance] = replace(
            instance.endpoint, name=f"m/1#{name}", incarnation=name, node_id=self.node_id
        )
        self.instances.append(instance)

    def publish(
        self, leaving: tuple[PooledInstance, ...] = (), *, is_dormant: bool = False
    ) -> None:
        """Give all routers a table with the instances there are now."""
        publish([self], leaving, is_dormant=is_dormant)

    def endpoint(self, instance: PooledInstance) -> InstanceEndpoint:
        """Return what a table says of an instance."""
        return self._endpoints[instance]

    async def join(
        self,
        *,
        may_hold: bool = True,
        silence_s: float = 0.0,
        ports: PortRange = ANY_PORT,
    ) -> Router:
        """Have one more router."""
        lanes = LaneSettings(heartbeat_timeout_s=silence_s, ports=ports)
        router = self.made(lanes)
        self.routers.append(router)
        router.join_node("127.0.0.1" if may_hold else None)
        await self.joined(router)
        return router

    def made(self, lanes: LaneSettings) -> Router:
        """Return a router of this node that has not joined it."""
        return Router(self.node_id, SECRET, SlabPool(1 << 20), lanes)

    async def joined(self, router: Router) -> None:
        """Wait until it knows a holder."""
        await until(lambda: has_holder(router))

    async def end(self, router: Router) -> None:
        """Close a router, unless that was done."""
        if router in self.routers:
            self.routers.remove(router)
            await router.close()

    async def serving(self) -> None:
        """Wait until every router can queue requests."""
        for router in self.routers:
            await until(functools.partial(_has_queue, router))
        await until(
            lambda: self.held is not None and self.held.load.free_count == len(self.instances)
        )

    @property
    def held(self) -> Any:
        """Return the queue, wherever it is held."""
        found = [router.find("m").pool.held for router in self.routers]
        return next((held for held in found if held is not None), None)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Let executions wait meanwhile."""
        instances = list(self.instances)
        for instance in instances:
            instance.model.gate.clear()
        try:
            yield
        finally:
            for instance in instances:
                instance.model.gate.set()

    def send(self, request: InferenceRequest | None = None, router: int = 0) -> RoutedRequest:
        """Send a request by way of one of the routers."""
        there = self.routers[router]
        inflight = there.submit(there.find("m"), request or request_for(), Sink())
        assert isinstance(inflight, RoutedRequest)
        return inflight

    @property
    def sizes(self) -> list[int]:
        """Return the sizes of all executions."""
        return sorted(size for each in self.instances for size in each.model.sizes)


def publish(
    nodes: Sequence[Node],
    leaving: tuple[PooledInstance, ...] = (),
    *,
    is_dormant: bool = False,
    routers: Sequence[Router] | None = None,
) -> None:
    """Give routers of some nodes, or all of them, a table with the instances these have now."""
    known = {each: node for node in nodes for each in node._endpoints}
    entry = ModelVersion(
        1,
        ModelReadyState.READY,
        config=nodes[0].config,
        instances=tuple(node.endpoint(each) for node in nodes for each in node.instances),
        leaving=tuple(known[each].endpoint(each) for each in leaving),
        is_dormant=is_dormant,
    )
    table = RoutingTable(next(_numbers), {"m": Model("m", (entry,))}, initialised=True)
    for router in [each for node in nodes for each in node.routers] if routers is None else routers:
        router.update(table)


def _has_queue(router: Router) -> bool:
    return router.find("m").pool.queue is not None


async def outcome(request: RoutedRequest) -> InferenceResponse | TritonError:
    """Return what a request ended with."""
    sink: Any = request.sink
    while isinstance(sink, TimedSink):
        sink = sink.sink
    async with asyncio.timeout(30):
        await sink.ended
    ended: InferenceResponse | TritonError = sink.error or sink.responses[-1]
    return ended


async def answered(*requests: RoutedRequest) -> None:
    """Wait for requests, none of which may end with an error."""
    for each in requests:
        result = await outcome(each)
        assert not isinstance(result, TritonError), result


def ask(node: Node, correlation_id: int, flags: int = 0, router: int = 0) -> RoutedRequest:
    """Send a request of a sequence by one of a node's routers."""
    return node.send(request_for(correlation_id=correlation_id, flags=flags), router=router)


@contextlib.asynccontextmanager
async def node_of(
    config: ModelConfig,
    instance_count: int = 4,
    router_count: int = 1,
    model: Callable[[], ScriptedModel] = ScriptedModel,
) -> AsyncIterator[Node]:
    """Run a node until its pool is served."""
    node = Node(config)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(instance_count):
            node.add(await stack.enter_async_context(PooledInstance(config, model())))
        for _ in range(router_count):
            stack.push_async_callback(node.end, await node.join())
        node.publish()
        await node.serving()
        yield node
