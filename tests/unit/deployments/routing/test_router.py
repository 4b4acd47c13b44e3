# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio
from dataclasses import replace

from backends.api.errors import InternalError, RequestCancelledError, UnavailableError
from backends.api.model_config import DynamicBatching, InstanceGroup
from backends.api.request import SEQUENCE_START, InferenceResponse
from deployments.contracts.routing_table import ModelReadyState
from deployments.lane.client import LaneClient
from deployments.lane.server import ServerRequest
from deployments.response_cache.local import LocalCache
from deployments.routing.router import Router
from deployments.slabs.pool import SlabPool
from tests.support.cluster_of_instances import CONFIG, Instance, Routed, request, table
from tests.support.lane_rig import SECRET, Sink, echo, until


def _open(here: Routed) -> list[LaneClient]:
    return here.model.pool.lanes


def _refuse(server_request: ServerRequest) -> None:
    server_request.fail(InternalError("the model says no"))


async def _lanes(here: Routed, count: int) -> None:
    await until(lambda: len(here.model.pool.lanes) == count)


async def test_request_sent_before_the_first_lane_is_open_waits_for_it() -> None:
    async with Routed(Instance(echo)) as here:
        sink = Sink()
        here.router.submit(here.model, request(), sink)
        await sink.ended
        assert sink.error is None


async def test_request_cancelled_before_the_first_lane_is_open_ends_at_once() -> None:
    async with Routed(Instance(echo)) as here:
        sink = Sink()
        here.router.submit(here.model, request(), sink).cancel()
        assert isinstance(sink.error, RequestCancelledError)


async def test_requests_go_to_the_instance_with_the_fewest_outstanding() -> None:
    first, second = Instance(), Instance()
    async with Routed(first, second) as here:
        await _lanes(here, 2)
        for _ in range(6):
            here.router.submit(here.model, request(), Sink())
        await until(lambda: len(first.handler.requests) + len(second.handler.requests) == 6)
        assert len(first.handler.requests) == len(second.handler.requests) == 3


async def test_error_of_the_model_is_not_retried() -> None:
    async with Routed(Instance(_refuse), Instance(_refuse)) as here:
        await _lanes(here, 2)
        sink = Sink()
        here.router.submit(here.model, request(), sink)
        await sink.ended
        assert isinstance(sink.error, InternalError)
        assert sum(len(each.handler.batches) for each in here.instances) == 1


async def test_unanswered_request_of_a_lost_instance_is_sent_once_more_elsewhere() -> None:
    lost, other = Instance(), Instance()
    async with Routed(lost, other) as here:
        await _lanes(here, 2)
        sinks = [Sink() for _ in range(4)]
        for sink in sinks:
            here.router.submit(here.model, request(), sink)
        await until(lambda: len(lost.handler.requests) == 2 == len(other.handler.requests))
        await lost.stop()
        await until(lambda: len(other.handler.requests) == 4)
        for server_request in other.handler.requests:
            echo(server_request)
        await asyncio.gather(*(sink.ended for sink in sinks))
        assert [sink.error for sink in sinks] == [None] * 4


async def test_request_of_two_lost_instances_is_unavailable() -> None:
    first, second = Instance(), Instance()
    async with Routed(first, second) as here:
        await _lanes(here, 2)
        sink = Sink()
        here.router.submit(here.model, request(), sink)
        await until(lambda: first.handler.requests or second.handler.requests)
        holder, other = (first, second) if first.handler.requests else (second, first)
        await holder.stop()
        await until(lambda: other.handler.requests)
        await other.stop()
        await sink.ended
        assert isinstance(sink.error, UnavailableError)


async def test_requests_wait_while_all_instances_of_their_model_are_lost_and_restart() -> None:
    before, after = Instance(), Instance(echo)
    async with Routed(before, after) as here:
        here.router.update(table(before))
        await _lanes(here, 1)
        under_way, later = Sink(), Sink()
        here.router.submit(here.model, request(), under_way)
        await until(lambda: before.handler.requests)
        await before.stop()
        await _lanes(here, 0)
        here.router.update(table(state=ModelReadyState.UNAVAILABLE, is_restarting=True))
        here.router.submit(here.router.find("m"), request(), later)
        assert not under_way.ended.done()
        assert not later.ended.done()
        here.router.update(table(after))
        await asyncio.gather(under_way.ended, later.ended)
        assert [under_way.error, later.error] == [None, None]


async def test_request_that_two_instances_were_lost_with_is_unavailable_though_one_restarts() -> (
    None
):
    first, second = Instance(), Instance()
    async with Routed(first, second) as here:
        here.router.update(table(first))
        await _lanes(here, 1)
        sink = Sink()
        here.router.submit(here.model, request(), sink)
        await until(lambda: first.handler.requests)
        await first.stop()
        here.router.update(table(second))
        await until(lambda: second.handler.requests)
        await second.stop()
        await sink.ended
        assert isinstance(sink.error, UnavailableError)
        assert "send the request again" in sink.error.message


async def test_a_restarting_version_is_unloaded_though_requests_wait_for_it() -> None:
    async with Routed() as here:
        here.router.update(table(state=ModelReadyState.UNAVAILABLE, is_restarting=True))
        sink = Sink()
        here.router.submit(here.router.find("m"), request(), sink)
        here.router.update(table(state=ModelReadyState.UNLOADING))
        assert isinstance(sink.error, UnavailableError)
        assert here.router.models.get("m", 1) is None


async def test_request_of_a_sequence_is_not_sent_to_another_instance() -> None:
    first, second = Instance(), Instance()
    async with Routed(first, second) as here:
        await _lanes(here, 2)
        sink = Sink()
        here.router.submit(here.model, request(correlation_id=7, flags=SEQUENCE_START), sink)
        await until(lambda: first.handler.requests or second.handler.requests)
        await (first if first.handler.requests else second).stop()
        await sink.ended
        assert isinstance(sink.error, UnavailableError)
        assert len(first.handler.requests) + len(second.handler.requests) == 1


async def test_request_that_had_a_response_is_not_repeated() -> None:
    def half(server_request: ServerRequest) -> None:
        server_request.respond(InferenceResponse("m", "1"), final=False)

    first, second = Instance(half), Instance(half)
    async with Routed(first, second) as here:
        await _lanes(here, 2)
        sink = Sink()
        here.router.submit(here.model, request(), sink)
        await until(lambda: sink.responses)
        await (first if first.handler.batches else second).stop()
        await sink.ended
        assert isinstance(sink.error, UnavailableError)
        assert len(sink.responses) == 1


async def test_request_that_had_an_error_and_goes_on_is_not_repeated() -> None:
    def erring(server_request: ServerRequest) -> None:
        server_request.fail(UnavailableError("not this one"), final=False)

    first, second = Instance(erring), Instance(erring)
    async with Routed(first, second) as here:
        await _lanes(here, 2)
        sink = Sink()
        here.router.submit(here.model, request(), sink)
        await until(lambda: sink.error)
        await (first if first.handler.batches else second).stop()
        await sink.ended
        assert isinstance(sink.error, UnavailableError)
        assert "ended while it served the request" in sink.error.message
        assert sorted([len(first.handler.batches), len(second.handler.batches)]) == [0, 1]


async def test_refusal_of_a_draining_instance_is_retried_elsewhere() -> None:
    draining, other = Instance(), Instance(echo)
    async with Routed(draining, other) as here:
        await _lanes(here, 2)
        sinks = [Sink(), Sink()]
        for sink in sinks:
            here.router.submit(here.model, request(), sink)
        await until(lambda: draining.handler.requests)
        draining.server.start_draining()
        await until(lambda: any(lane.draining for lane in here.model.pool.lanes))
        draining.handler.requests[0].fail(UnavailableError("Server is stopping"))
        await asyncio.gather(*(sink.ended for sink in sinks))
        assert [sink.error for sink in sinks] == [None, None]


async def test_requests_that_find_only_draining_instances_wait_for_their_successors() -> None:
    before, after = Instance(echo), Instance(echo)
    async with Routed(before, after) as here:
        here.router.update(table(before))
        await _lanes(here, 1)
        before.server.start_draining()
        await until(lambda: here.model.pool.lanes[0].draining)
        sink = Sink()
        here.router.submit(here.model, request(), sink)
        assert not sink.ended.done()
        here.router.update(table(after))
        await sink.ended
        assert sink.error is None
        assert [len(each.handler.batches) for each in here.instances] == [0, 1]


async def test_requests_refused_by_one_draining_instance_after_the_other_wait_for_successors() -> (
    None
):
    first, second, after = Instance(), Instance(), Instance(echo)
    async with Routed(first, second, after) as here:
        here.router.update(table(first, second))
        await _lanes(here, 2)
        sink = Sink()
        here.router.submit(here.model, request(), sink)
        for _ in range(2):
            await until(lambda: first.handler.requests or second.handler.requests)
            holder = first if first.handler.requests else second
            holder.server.start_draining()
            await until(lambda: any(each.outstanding and each.draining for each in _open(here)))
            holder.handler.requests.pop().fail(UnavailableError("Server is stopping"))
            await until(lambda: not any(each.outstanding and each.draining for each in _open(here)))
        assert not sink.ended.done()
        here.router.update(table(after))
        await sink.ended
        assert sink.error is None


async def test_request_of_a_draining_instance_that_ends_early_waits_for_its_successor() -> None:
    before, after = Instance(), Instance(echo)
    async with Routed(before, after) as here:
        here.router.update(table(before))
        await _lanes(here, 1)
        sink = Sink()
        here.router.submit(here.model, request(), sink)
        await until(lambda: before.handler.requests)
        before.server.start_draining()
        await until(lambda: here.model.pool.lanes[0].draining)
        await before.stop()
        await _lanes(here, 0)
        assert not sink.ended.done()
        here.router.update(table(after))
        await sink.ended
        assert sink.error is None


async def test_requests_that_wait_for_successors_fail_when_the_server_ends() -> None:
    before = Instance()
    async with Routed(before) as here:
        await _lanes(here, 1)
        before.server.start_draining()
        await until(lambda: here.model.pool.lanes[0].draining)
        early, late = Sink(), Sink()
        here.router.submit(here.model, request(), early)
        here.router.update(replace(table(before), exiting=True))
        here.router.submit(here.model, request(), late)
        assert isinstance(early.error, UnavailableError)
        assert isinstance(late.error, UnavailableError)


async def test_instance_that_left_the_table_finishes_what_it_has() -> None:
    leaving, other = Instance(), Instance(echo)
    async with Routed(leaving, other) as here:
        await _lanes(here, 2)
        sinks = [Sink(), Sink()]
        for sink in sinks:
            here.router.submit(here.model, request(), sink)
        await until(lambda: leaving.handler.requests)
        here.router.update(table(other))
        echo(leaving.handler.requests[0])
        await asyncio.gather(*(sink.ended for sink in sinks))
        assert [sink.error for sink in sinks] == [None, None]


async def test_older_table_changes_nothing() -> None:
    async with Routed(Instance(echo)) as here:
        here.router.update(table(state=ModelReadyState.UNAVAILABLE, version=-5))
        assert here.router.models.get("m", 1) is not None


async def test_version_that_is_not_ready_is_not_served() -> None:
    async with Routed(Instance(echo)) as here:
        here.router.update(table(state=ModelReadyState.UNLOADING))
        assert here.router.models.get("m", 1) is None


async def test_requests_waiting_for_a_lane_fail_when_the_version_goes() -> None:
    instance = Instance()  # never started: nothing listens
    here = Routed()
    here.router.update(table(instance))
    sink = Sink()
    here.router.submit(here.model, request(), sink)
    here.router.update(table(state=ModelReadyState.UNAVAILABLE))
    await sink.ended
    assert isinstance(sink.error, UnavailableError)
    await here.router.close()


async def test_lanes_on_demand_open_with_the_first_request() -> None:
    instance = await Instance(echo).start()
    slabs = SlabPool(1 << 20)
    router = Router("node", SECRET, slabs, opens_on_demand=True)
    try:
        router.update(table(instance))
        assert not router.links_of("m", 1)
        sink = Sink()
        router.submit(router.find("m"), request(), sink)
        await sink.ended
        assert len(router.links_of("m", 1)) == 1
    finally:
        await router.close()
        await instance.stop()


async def test_an_instance_that_leaves_gets_no_request_and_is_counted_until_it_has_left() -> None:
    staying, leaving = Instance(echo), Instance(echo)
    async with Routed(staying, leaving) as here:
        await _lanes(here, 2)
        here.router.update(table(staying, leaving=(leaving,)))
        for _ in range(4):
            sink = Sink()
            here.router.submit(here.model, request(), sink)
            await sink.ended
        assert [len(each.handler.batches) for each in here.instances] == [4, 0]
        links = here.router.links_of("m", 1)
        assert {link.endpoint.incarnation for link in links} == {
            staying.incarnation,
            leaving.incarnation,
        }
        answers = await here.router.links.ask(links, "echo", 5, b"counted")
        assert len(answers) == 2
        here.router.update(table(staying))
        assert [link.endpoint for link in here.router.links_of("m", 1)] == [staying.endpoint]
        assert [link.lane is not None and link.lane.is_open for link in links] == [True, False]


async def test_what_caches_and_ensembles_count_outlives_a_change_of_groups() -> None:
    cached = replace(CONFIG, response_cache=True)
    grouped = replace(cached, instance_group=(InstanceGroup("m_0", "KIND_CPU", 2),))
    router = Router("node", SECRET, SlabPool(1 << 20), cache=LocalCache(1 << 20, lambda: 0))
    router.update(table(config=cached))
    before = router.find("m")
    router.update(table(config=grouped))
    after = router.find("m")
    assert after.config == grouped
    assert after.cache is before.cache
    router.update(table(config=replace(grouped, max_batch_size=2)))
    assert router.find("m").cache is not before.cache
    await router.close()


async def test_an_instance_does_not_call_itself() -> None:
    own, other = Instance(echo), Instance(echo)
    router = Router("node", SECRET, SlabPool(1 << 20), own_incarnation=own.incarnation)
    router.update(table(own))
    assert router.is_only_own(router.find("m"))
    router.update(table(own, other))
    assert not router.is_only_own(router.find("m"))
    assert [link.endpoint.incarnation for link in router.links_of("m", 1)] == [other.incarnation]
    await router.close()


async def test_responses_keep_the_order_of_requests_across_instances_where_the_model_asks() -> None:
    ordered = replace(CONFIG, dynamic_batching=DynamicBatching(preserve_ordering=True))
    first, second = Instance(), Instance()
    async with Routed(first, second, config=ordered) as here:
        await _lanes(here, 2)
        order: list[int] = []
        sinks = [Sink() for _ in range(4)]
        for number, sink in enumerate(sinks):
            sink.ended.add_done_callback(lambda _, number=number: order.append(number))
            here.router.submit(here.model, request(), sink)
        await until(lambda: len(first.handler.requests) == 2 == len(second.handler.requests))
        for server_request in [*second.handler.requests, *first.handler.requests]:
            echo(server_request)
        await asyncio.gather(*(sink.ended for sink in sinks))
        assert order == [0, 1, 2, 3]


async def test_request_that_needs_this_node_is_not_sent_to_an_instance_of_another() -> None:
    near, far = Instance(echo), Instance(echo)
    await far.turning.__aenter__()
    tcp = far.server.start(far.uds, "127.0.0.1")
    far.endpoint = replace(far.endpoint, node_id="another", tcp=tcp)
    async with Routed(near) as here:
        await _lanes(here, 1)
        await near.stop()
        await _lanes(here, 0)
        waiting, other = Sink(), Sink()
        here.router.submit_local(here.model, request(), waiting)
        here.router.submit(here.model, request(), other)
        here.router.update(table(near, far))
        await other.ended
        assert other.error is None
        assert not waiting.ended.done()
        assert len(far.handler.batches) == 1
        here.instances[:] = [far]
