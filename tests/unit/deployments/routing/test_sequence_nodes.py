# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router asks and remembers of sequences over nodes that another router has started."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Self

import msgspec
import pytest

from backends.api.errors import InvalidArgumentError, Phase
from backends.api.model_config import SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START, InferenceResponse
from deployments.lane.server import ServerRequest
from deployments.routing import sequence_routes
from deployments.routing.router import Router
from deployments.slabs.pool import SlabPool
from tests.support.cluster_of_instances import CONFIG, Instance, request, table
from tests.support.lane_rig import SECRET, Sink, until

LONG = replace(CONFIG, sequence_batching=SequenceBatching(max_sequence_idle_us=60_000_000))
START, END = SEQUENCE_START, SEQUENCE_END


class SequenceNode(Instance):
    """The only instance of its node, which refuses what it did not see start."""

    def __init__(self, node_id: str) -> None:
        super().__init__(self.serve)
        self.node_id = node_id
        self.known: set[int | str] = set()
        self.served: list[str] = []
        self.asked = 0
        self.handler.call = self.call

    async def start(self) -> Self:
        tcp = self.server.start(self.uds, "127.0.0.1")
        await self.turning.__aenter__()
        self.endpoint = replace(self.endpoint, node_id=self.node_id, tcp=tcp)
        return self

    def serve(self, asked: ServerRequest) -> None:
        correlation_id, flags = asked.request.correlation_id, asked.request.flags
        if flags & START:
            self.known.add(correlation_id)
        if correlation_id not in self.known:
            asked.fail(InvalidArgumentError("must specify the START flag", Phase.ENQUEUE))
            return
        if flags & END:
            self.known.discard(correlation_id)
        self.served.append(asked.request.id)
        asked.respond(InferenceResponse("m", "1", asked.request.id), final=True)

    def call(self, method: str, payload: bytes) -> bytes:
        assert method == "knows_sequence"
        self.asked += 1
        return msgspec.msgpack.encode(msgspec.msgpack.decode(payload) in self.known)


class Nodes:
    """Two nodes, and a router on each."""

    def __init__(self, config) -> None:
        self.config = config
        self.nodes = [SequenceNode("one"), SequenceNode("two")]
        self.routers: list[Router] = []

    async def ask(
        self, correlation_id: int, flags: int = 0, router: int = 0, name: str = ""
    ) -> object:
        sink = self.send(correlation_id, flags, router, name)
        await sink.ended
        return sink.error

    def send(self, correlation_id: int, flags: int = 0, router: int = 0, name: str = "") -> Sink:
        there, sink = self.routers[router], Sink()
        asked = request(correlation_id=correlation_id, flags=flags, id=name)
        there.submit(there.models.get("m", 1), asked, sink)
        return sink

    def owner(self, correlation_id: int) -> SequenceNode:
        (found,) = [each for each in self.nodes if correlation_id in each.known]
        return found

    @property
    def asked(self) -> int:
        return sum(each.asked for each in self.nodes)


@contextlib.asynccontextmanager
async def two_nodes(config=LONG) -> AsyncIterator[Nodes]:
    here = Nodes(config)
    async with contextlib.AsyncExitStack() as stack:
        for node in here.nodes:
            await node.start()
            stack.push_async_callback(node.stop)
        for node in here.nodes:
            router = Router(node.node_id, SECRET, SlabPool(1 << 20))
            stack.push_async_callback(router.close)
            here.routers.append(router)
            router.update(table(*here.nodes, config=config))
            await until(lambda router=router: len(router.models.get("m", 1).pool.lanes) == 2)
        yield here


async def test_where_a_sequence_runs_is_asked_for_once() -> None:
    async with two_nodes() as here:
        await here.ask(7, START)
        for _ in range(10):
            assert await here.ask(7, router=1) is None
        assert here.asked == 2
        assert await here.ask(7, END, router=1) is None
        assert 7 not in here.nodes[0].known | here.nodes[1].known


async def test_a_sequence_that_nobody_knows_is_asked_for_each_time() -> None:
    async with two_nodes() as here:
        assert isinstance(await here.ask(7), InvalidArgumentError)
        assert here.asked == 2
        assert isinstance(await here.ask(7), InvalidArgumentError)
        assert here.asked == 4
        await here.ask(7, START, router=1)
        assert await here.ask(7) is None


async def test_a_sequence_that_has_started_elsewhere_since_is_found_there() -> None:
    async with two_nodes() as here:
        await here.ask(7, START)
        assert await here.ask(7, router=1) is None
        before = here.owner(7)
        # As if the first router had ended it, and had started it where slots were free.
        (other,) = [each for each in here.nodes if each is not before]
        before.known.discard(7)
        other.known.add(7)
        sinks = [here.send(7, router=1, name=str(at)) for at in range(3)]
        await asyncio.gather(*(each.ended for each in sinks))
        assert [each.error for each in sinks] == [None] * 3
        assert other.served == ["0", "1", "2"]
        # Nor does the router that saw it start stay with what it saw.
        assert await here.ask(7) is None


async def test_a_request_that_is_refused_by_all_ends_with_that() -> None:
    async with two_nodes() as here:
        await here.ask(7, START)
        assert await here.ask(7, router=1) is None
        here.owner(7).known.clear()
        assert isinstance(await here.ask(7, router=1), InvalidArgumentError)
        assert isinstance(await here.ask(7), InvalidArgumentError)


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_routes, "_MOST_ROUTES", 10)
    async with two_nodes() as here:
        for correlation_id in range(1, 50):
            await here.ask(correlation_id, START)
            assert await here.ask(correlation_id, router=1) is None
        pool = here.routers[1].models.get("m", 1).pool
        assert len(pool.sequences._routes) <= 10
