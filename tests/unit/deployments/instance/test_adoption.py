# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An instance whose queue is held by a router: adoption, batches of several routers, holders."""

import asyncio
import time

from backends.api.errors import RequestCancelledError, UnavailableError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceResponse
from deployments.lane.batches import Done, Forget, Holder
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import until
from tests.support.pool_rig import EPOCH, answer, ids, pooled, request_for

BATCHING = ModelConfig("m", max_batch_size=8)
DECOUPLED = ModelConfig("m", max_batch_size=8, decoupled=True)


async def test_all_lanes_hear_of_the_holder_at_its_adoption_and_when_they_open():
    async with pooled(BATCHING) as instance:
        early = await instance.router()
        assert early.lane.holder is None
        holder = await instance.router()
        adopted = await holder.adopt(host="h", port=9)
        assert (adopted.batch_count, adopted.running, adopted.is_refused) == (0, {}, False)
        assert await early.next("holder") == Holder(EPOCH, "h", 9)
        late = await instance.router()
        await until(lambda: late.lane.holder == Holder(EPOCH, "h", 9))
        holder.lane.close()
        assert await early.next("holder", 2) == Holder(0)


async def test_an_older_holder_is_refused():
    async with pooled(BATCHING) as instance:
        holder = await instance.holder()
        other = await instance.router()
        assert (await other.adopt(EPOCH - 1)).is_refused
        assert not (await other.adopt(EPOCH)).is_refused
        assert len(holder.all("adopted")) == 1


async def test_parts_of_two_routers_are_one_execution_in_the_order_they_came():
    async with pooled(BATCHING) as instance:
        holder, other = await instance.holder(), await instance.router()
        seen = []
        instance.model.script = lambda batch: seen.extend(
            (each.request.id, each.respond(InferenceResponse("", ""))) for each in batch.requests
        )
        theirs = other.push(1, request_for("c"), total=0)
        own = holder.push(1, request_for("a"), request_for("b"), total=3)
        assert await ids(own + theirs) == ["a", "b", "c"]
        assert sorted(name for name, _ in seen) == ["a", "b", "c"]
        assert instance.model.sizes == [3]
        done = await holder.next("done")
        assert (done.epoch, done.number) == (EPOCH, 1)
        assert done.execution_ns > 0
        assert not other.all("done")


async def test_done_comes_behind_the_responses_of_its_batch():
    async with pooled(BATCHING) as instance:
        holder = await instance.holder()
        holder.push(1, request_for("a"))
        await holder.next("done")
        holder.push(2, request_for("b"))
        await holder.next("done", 2)
        order = [name for name, _ in holder.told if name in {"response", "done"}]
        assert order == ["response", "done", "response", "done"]


async def test_a_late_part_is_executed_by_itself_and_the_batch_is_done_once():
    async with pooled(BATCHING) as instance:
        holder, other = await instance.holder(), await instance.router()
        own = holder.push(1, request_for("a"), total=2)
        assert await ids(own) == ["a"]
        await holder.next("done")
        assert await ids(other.push(1, request_for("b"), total=0)) == ["b"]
        await ids(holder.push(2, request_for("c")))
        assert [done.number for done in holder.all("done")] == [1, 2]
        assert instance.model.sizes == [1, 1, 1]


async def test_a_batch_does_not_wait_for_what_is_forgotten():
    async with pooled(BATCHING) as instance:
        holder = await instance.holder()
        own = holder.push(1, request_for("a"), total=3)
        holder.lane.forget(Forget(EPOCH, 1, 2))
        assert await ids(own) == ["a"]
        # A lease that nobody has used, and a batch that is over.
        holder.lane.forget(Forget(EPOCH, 2, 1))
        holder.lane.forget(Forget(EPOCH, 1, 1))
        await ids(holder.push(3, request_for("b")))
        assert [done.number for done in holder.all("done")] == [1, 2, 3]


async def test_a_request_that_cannot_be_sent_is_not_waited_for():
    async with pooled(BATCHING) as instance:
        holder = await instance.holder()
        bad = request_for("bad", parameters={"p": object()})
        requests = holder.push(1, bad, request_for("a"))
        assert await ids(requests[1:]) == ["a"]
        assert "cannot be sent" in (await answer(requests[0])).message
        assert (await holder.next("done")).number == 1
        assert instance.model.sizes == [1]


async def test_what_was_queued_is_bounced_in_order_and_what_runs_goes_on():
    async with pooled(BATCHING) as instance:
        router, holder = await instance.router(), await instance.router()
        with instance.held():
            running = router.submit(request_for("runs"))
            await instance.entered()
            queued = [router.submit(request_for(str(n))) for n in range(3)]
            await router.lane.call("statistics", b"", 30)
            came_ns = time.monotonic_ns()
            await router.lane.call("statistics", b"", 30)
            asked_ns = time.monotonic_ns()
            assert (await holder.adopt()).batch_count == 1
            waited_ns = await router.next("waited", 3)
            assert router.all("bounced") == queued
            assert waited_ns >= asked_ns - came_ns
            # No request that comes by itself is taken any more.
            fresh = router.submit(request_for("fresh"))
            assert await router.next("bounced", 4) is fresh
            assert router.lane.outstanding == 1
        assert await ids([running]) == ["runs"]
        done = await holder.next("done")
        assert (done.epoch, done.number) == (0, 0)


async def test_a_bounce_nobody_listens_for_fails_the_request():
    async with pooled(BATCHING) as instance:
        await instance.holder()
        router = await instance.router()
        router.lane.events = None
        error = await answer(router.submit(request_for()))
        assert isinstance(error, UnavailableError)
        assert "send the request again" in error.message


async def test_a_batch_for_an_instance_on_its_own_is_bounced():
    async with pooled(BATCHING) as instance:
        router = await instance.router()
        requests = router.push(1, request_for("a"))
        assert await router.next("bounced") is requests[0]


async def test_the_next_holder_waits_for_what_the_lost_one_has_formed():
    async with pooled(BATCHING) as instance:
        first, router = await instance.holder(), await instance.router()
        with instance.held():
            running = router.push(1, request_for("a"), total=1)
            await instance.entered()
            queued = router.push(2, request_for("b"), total=1)
            await router.lane.call("statistics", b"", 30)
            first.lane.close()
            await router.next("holder")
            second = await instance.router()
            assert (await second.adopt(EPOCH + 1)).batch_count == 2
            own = second.push(1, request_for("c"), epoch=EPOCH + 1)
        assert await ids(running + queued + own) == ["a", "b", "c"]
        await second.next("done", 3)
        numbers = [(done.epoch, done.number) for done in second.all("done")]
        assert numbers == [(EPOCH, 1), (EPOCH, 2), (EPOCH + 1, 1)]
        # Granted by the lost holder, and unknown to the next one.
        assert await ids(router.push(3, request_for("d"), total=1)) == ["d"]
        await ids(second.push(2, request_for("e"), epoch=EPOCH + 1))
        assert len(second.all("done")) == 4


async def test_a_cancelled_request_is_dropped_and_an_empty_batch_is_done():
    async with pooled(BATCHING) as instance:
        holder = await instance.holder()
        with instance.held():
            holder.push(1, request_for("a"))
            await instance.entered()
            gone, stays = holder.push(2, request_for("b"), request_for("c"))
            (alone,) = holder.push(3, request_for("d"))
            gone.cancel()
            alone.cancel()
            await holder.lane.call("statistics", b"", 30)
            assert instance.executor.activity().pending_count == 3
        assert isinstance(await answer(gone), RequestCancelledError)
        assert isinstance(await answer(alone), RequestCancelledError)
        assert await ids([stays]) == ["c"]
        await holder.next("done", 3)
        assert holder.all("done")[2] == Done(EPOCH, 3, 0, [])
        assert instance.model.sizes == [1, 1]
        assert instance.executor.statistics().fail_count["CANCELED"] == 2


async def test_a_router_that_dies_within_its_part_is_not_executed():
    async with pooled(BATCHING) as instance:
        holder, other = await instance.holder(), await instance.router()
        own = holder.push(1, request_for("a"), total=2)
        with instance.held():
            other.lane.break_off("dies")
        holder.lane.forget(Forget(EPOCH, 1, 1))
        assert await ids(own) == ["a"]
        assert instance.model.sizes == [1]


async def test_a_decoupled_batch_is_done_when_execute_returns():
    kept = []
    async with pooled(DECOUPLED, ScriptedModel(lambda batch: kept.extend(batch.requests))) as rig:
        holder = await rig.holder()
        (request,) = holder.push(1, request_for("a"))
        await holder.next("done")
        assert not request.sink.ended.done()
        kept[0].respond(InferenceResponse("", ""))
        assert await ids([request]) == ["a"]


async def test_a_draining_instance_executes_batches():
    async with pooled(BATCHING) as instance:
        holder = await instance.holder()
        assert await instance.executor.drain(30)
        await asyncio.wrap_future(instance.reactor.submit(instance.server.start_draining))
        assert await ids(holder.push(1, request_for("a"))) == ["a"]
        assert holder.lane.draining


async def test_pushed_batches_that_are_not_begun_fail_when_the_instance_ends():
    async with pooled(BATCHING) as instance:
        holder = await instance.holder()
        with instance.held():
            running = holder.push(1, request_for("a"))
            await instance.entered()
            waiting = holder.push(2, request_for("b"), total=5)
            await holder.lane.call("statistics", b"", 30)
            ending = asyncio.create_task(instance.executor.close(30))
            assert isinstance(await answer(waiting[0]), UnavailableError)
        assert await ids(running) == ["a"]
        assert await ending


async def test_a_batch_that_comes_when_the_instance_has_ended_is_unavailable():
    async with pooled(BATCHING) as instance:
        holder = await instance.holder()
        assert await instance.executor.close(30)
        (request,) = holder.push(1, request_for("a"))
        assert isinstance(await answer(request), UnavailableError)
        assert instance.executor.statistics().fail_count["REJECTED"] == 1
