# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences stay on their instances, whatever becomes of the pool around them."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from backends.api.errors import (
    InvalidArgumentError,
    Phase,
    ResourceExhaustedError,
    UnavailableError,
)
from backends.api.model_config import SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START, InferenceResponse
from deployments.lane.server import ServerRequest
from deployments.routing import sequence_routes
from deployments.routing.node_routes import choose_by_id
from deployments.routing.pool import Link, LinkPool
from deployments.routing.router import Router
from deployments.slabs.pool import SlabPool
from tests.support.cluster_of_instances import CONFIG, Instance, Routed, request, table
from tests.support.lane_rig import SECRET, Sink, until

SEQUENCES = replace(CONFIG, sequence_batching=SequenceBatching())
START, END = SEQUENCE_START, SEQUENCE_END


class SequenceInstance(Instance):
    """Answers requests of sequences it saw start, in the order they come."""

    def __init__(self) -> None:
        super().__init__(self.serve)
        self.known: set[int | str] = set()
        self.log: list[tuple[int | str, str]] = []
        self.asked = 0
        self.holds = False
        self.handler.call = self.call

    def serve(self, asked: ServerRequest) -> None:
        if self.holds:
            self.handler.requests.append(asked)
            return
        correlation_id, flags = asked.request.correlation_id, asked.request.flags
        if flags & START:
            self.known.add(correlation_id)
        if correlation_id not in self.known:
            asked.fail(InvalidArgumentError("must specify the START flag", Phase.ENQUEUE))
            return
        self.log.append((correlation_id, asked.request.id))
        if flags & END:
            self.known.discard(correlation_id)
        asked.respond(InferenceResponse("m", "1", asked.request.id), final=True)

    def call(self, method: str, payload: bytes) -> bytes:
        assert method == "knows_sequence"
        self.asked += 1
        return msgspec.msgpack.encode(msgspec.msgpack.decode(payload) in self.known)


class Cluster(Routed):
    """Instances of a sequence model behind one router; more routers may join."""

    def __init__(self, *instances: SequenceInstance) -> None:
        super().__init__(*instances, config=SEQUENCES)
        self.others: list[Router] = []

    async def __aenter__(self):
        await super().__aenter__()
        await self.connected(self.router, len(self.instances))
        return self

    async def __aexit__(self, *details):
        for router in self.others:
            await router.close()
        await super().__aexit__(*details)

    async def another_router(self, *instances: SequenceInstance) -> Router:
        router = Router("node", SECRET, self.slabs)
        self.others.append(router)
        self.update(router, *instances)
        await self.connected(router, len(instances))
        return router

    def update(self, router: Router, *instances: SequenceInstance) -> None:
        router.update(table(*instances, config=SEQUENCES))

    async def connected(self, router: Router, count: int) -> None:
        await until(lambda: len(router.models.get("m", 1).pool.lanes) == count)

    def send(
        self,
        correlation_id: int | str,
        flags: int = 0,
        router: Router | None = None,
        name: str = "",
    ) -> Sink:
        router, sink = router or self.router, Sink()
        asked = request(correlation_id=correlation_id, flags=flags, id=name)
        router.submit(router.models.get("m", 1), asked, sink)
        return sink

    async def ask(self, *args, **fields):
        sink = self.send(*args, **fields)
        await sink.ended
        return sink.error


def holder(correlation_id: int | str, *instances: SequenceInstance) -> SequenceInstance:
    (found,) = [each for each in instances if correlation_id in each.known]
    return found


async def test_sequences_spread_and_each_stays_on_one_instance_for_every_router() -> None:
    first, second = SequenceInstance(), SequenceInstance()
    async with Cluster(first, second) as here:
        other = await here.another_router(second, first)
        ids = [*range(1, 21), *[f"s{number}" for number in range(20)]]
        for correlation_id in ids:
            assert await here.ask(correlation_id, START) is None
            assert await here.ask(correlation_id, router=other) is None
            assert await here.ask(correlation_id) is None
        assert first.known | second.known == set(ids)
        assert min(len(first.known), len(second.known)) > 5
        for correlation_id in ids:
            assert await here.ask(correlation_id, END, router=other) is None
        assert not first.known | second.known


async def test_a_number_and_the_same_digits_are_two_sequences() -> None:
    async with Cluster(SequenceInstance()) as here:
        assert await here.ask(5, START) is None
        assert isinstance(await here.ask("5"), InvalidArgumentError)


async def test_a_pool_that_grows_moves_no_running_sequence() -> None:
    first, *more = [SequenceInstance() for _ in range(4)]
    async with Cluster(first) as here:
        other = await here.another_router(first)
        for correlation_id in range(1, 9):
            assert await here.ask(correlation_id, START) is None
        for instance in more:
            here.instances.append(await instance.start())
        for router in (here.router, other):
            here.update(router, first, *more)
            await here.connected(router, 4)
        for correlation_id in range(1, 9):
            assert await here.ask(correlation_id) is None
            assert await here.ask(correlation_id, router=other) is None
        assert first.known == set(range(1, 9))
        # By the other router only: this one has seen them begin.
        assert first.asked == 8


async def test_an_id_that_started_again_by_another_router_is_found_after_the_pool_changed() -> None:
    instances = [SequenceInstance() for _ in range(5)]
    first, *more = instances
    async with Cluster(first) as here:
        other = await here.another_router(first)
        for correlation_id in range(1, 9):
            await here.ask(correlation_id, START)
            await here.ask(correlation_id, END, router=other)
        for instance in more:
            here.instances.append(await instance.start())
        for router in (here.router, other):
            here.update(router, *instances)
            await here.connected(router, 5)
        for correlation_id in range(1, 9):
            assert await here.ask(correlation_id, START, router=other) is None
            assert await here.ask(correlation_id) is None
        assert len(first.known) < 8


async def test_a_sequence_that_does_not_run_at_home_may_end_and_start_at_home() -> None:
    first, *more = instances = [SequenceInstance() for _ in range(5)]
    async with Cluster(first) as here:
        other = await here.another_router(first)
        for correlation_id in range(1, 9):
            await here.ask(correlation_id, START)
        for instance in more:
            here.instances.append(await instance.start())
        for router in (here.router, other):
            here.update(router, *instances)
            await here.connected(router, 5)
        for correlation_id in range(1, 9):
            # This router learns where it runs before the other one ends it and starts it anew.
            assert await here.ask(correlation_id) is None
            await here.ask(correlation_id, END, router=other)
            await here.ask(correlation_id, START, router=other)
            assert await here.ask(correlation_id) is None
        assert len(first.known) < 8


async def test_requests_that_come_while_a_router_asks_keep_their_order() -> None:
    first, second = SequenceInstance(), SequenceInstance()
    async with Cluster(first, second) as here:
        other = await here.another_router(first, second)
        await here.ask(7, START)
        names = [str(number) for number in range(5)]
        sinks = [here.send(7, router=other, name=name) for name in names]
        await asyncio.gather(*(sink.ended for sink in sinks))
        assert [name for _, name in holder(7, first, second).log] == ["", *names]
        assert first.asked + second.asked == 2


async def test_a_sequence_nobody_knows_is_refused_by_an_instance() -> None:
    async with Cluster(SequenceInstance(), SequenceInstance()) as here:
        assert isinstance(await here.ask(7), InvalidArgumentError)


@pytest.mark.parametrize("is_drained", [False, True])
async def test_an_instance_that_leaves_the_pool_goes_on_with_its_sequences(
    is_drained: bool,
) -> None:
    first, second = SequenceInstance(), SequenceInstance()
    async with Cluster(first, second) as here:
        for correlation_id in range(1, 9):
            await here.ask(correlation_id, START)
        stays, leaves = (first, second)
        other = await here.another_router(first, second)
        for router in (here.router, other):
            leaving = (leaves,) if is_drained else ()
            router.update(table(stays, config=SEQUENCES, leaving=leaving))
        running = set(leaves.known)
        assert running
        for correlation_id in running:
            assert await here.ask(correlation_id) is None
            assert await here.ask(correlation_id, END, router=other) is None
            assert await here.ask(correlation_id, START) is None
        assert not leaves.known
        assert stays.known == set(range(1, 9))
        await leaves.stop()
        assert await here.ask(1) is None


async def test_a_lost_instance_ends_its_sequences_and_new_ones_start_elsewhere() -> None:
    first, second = SequenceInstance(), SequenceInstance()
    async with Cluster(first, second) as here:
        await here.ask(7, START)
        lost = holder(7, first, second)
        other = second if lost is first else first
        lost.holds = True
        sink = here.send(7)
        await until(lambda: lost.handler.requests)
        await lost.stop()
        await sink.ended
        assert isinstance(sink.error, UnavailableError)
        assert sink.error.message == (
            f"instance '{lost.endpoint.name}' of model 'm' ended while it served the request; "
            "sequence 7 ended with it, start the sequence again"
        )
        error = await here.ask(7)
        assert isinstance(error, UnavailableError)
        assert error.message == (
            f"sequence 7 of model 'm' ended with its instance '{lost.endpoint.name}'; start the "
            "sequence again"
        )
        assert not other.log
        assert await here.ask(7, START) is None
        assert await here.ask(7, END) is None
        assert len(other.log) == 2


async def test_a_sequence_may_start_before_the_first_lane_is_open() -> None:
    instance = SequenceInstance()
    async with Routed(instance, config=SEQUENCES) as here:
        sinks = []
        for flags in (START, 0, END):
            sinks.append(Sink())
            here.router.submit(here.model, request(correlation_id=3, flags=flags), sinks[-1])
        await asyncio.gather(*(sink.ended for sink in sinks))
        assert [sink.error for sink in sinks] == [None] * 3


async def test_a_sequence_may_be_what_opens_the_lanes_of_a_router_on_demand() -> None:
    instance = await SequenceInstance().start()
    router = Router("node", SECRET, SlabPool(1 << 20), opens_on_demand=True)
    try:
        router.update(table(instance, config=SEQUENCES))
        sinks = []
        for flags in (START, 0, END):
            sinks.append(Sink())
            asked = request(correlation_id=3, flags=flags)
            router.submit(router.find("m"), asked, sinks[-1])
            await sinks[-1].ended
        assert [sink.error for sink in sinks] == [None] * 3
    finally:
        await router.close()
        await instance.stop()


@pytest.mark.parametrize("correlation_id", [1, "a"])
def test_a_choice_depends_on_names_alone_and_moves_few_when_one_leaves(correlation_id) -> None:
    def links(count: int):
        of = LinkPool(key=("m", 1))
        return [Link(Instance().endpoint, of, is_local=True) for _ in range(count)]

    pool = links(4)
    ids = [f"{correlation_id}-{number}" for number in range(200)]
    chosen = {each: choose_by_id(each, pool) for each in ids}
    assert {each: choose_by_id(each, pool[::-1]) for each in ids} == chosen
    left = pool[1:]
    moved = [each for each in ids if choose_by_id(each, left) is not chosen[each]]
    assert all(chosen[each] is pool[0] for each in moved)


async def test_routes_of_requests_without_start_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sequence_routes, "_MOST_ROUTES", 10)
    first, second = SequenceInstance(), SequenceInstance()
    async with Cluster(first, second) as here:
        for correlation_id in range(1, 100):
            assert isinstance(await here.ask(correlation_id), InvalidArgumentError)
        assert len(here.model.pool.sequences._routes) <= 10


async def test_routes_are_forgotten_by_age_though_no_sequence_begins() -> None:
    async with Cluster(SequenceInstance()) as here:
        routes = here.model.pool.sequences
        for correlation_id in range(1, 10):
            await here.ask(correlation_id, START)
        assert len(routes._routes) == 9
        routes._forget_after_s = -1.0
        await here.ask(10)
        assert not routes._routes


async def test_an_answer_that_cannot_be_read_leaves_no_request_undecided() -> None:
    first, second = SequenceInstance(), SequenceInstance()
    async with Cluster(first, second) as here:
        first.handler.call = second.handler.call = lambda method, payload: b"\xc1"
        assert isinstance(await here.ask(5), InvalidArgumentError)


async def test_requests_that_wait_for_what_instances_know_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sequence_routes, "_MOST_WAITING", 3)
    first, second = SequenceInstance(), SequenceInstance()
    async with Cluster(first, second) as here:
        sinks = [here.send(number) for number in range(1, 5)]
        assert isinstance(sinks[3].error, ResourceExhaustedError)
        await asyncio.gather(*(sink.ended for sink in sinks))
        assert isinstance(await here.ask(9), InvalidArgumentError)


async def test_requests_that_wait_for_what_instances_know_fail_when_the_router_closes() -> None:
    first, second = SequenceInstance(), SequenceInstance()
    async with Cluster(first, second) as here:
        sink = here.send(5)
        await here.router.close()
        assert isinstance(sink.error, UnavailableError)
