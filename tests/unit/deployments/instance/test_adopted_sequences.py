# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences whose slots another process gives out: controls, states and kept requests."""

import asyncio
import time

import pytest

from backends.api.backend import ExecuteBatch
from backends.api.errors import InvalidArgumentError, RequestCancelledError, UnavailableError
from backends.api.model_config import ModelConfig, SequenceBatching, SequenceControl, SequenceState
from backends.api.request import (
    SEQUENCE_END,
    SEQUENCE_START,
    InferenceResponse,
    tensor_as_numpy,
    tensor_from_numpy,
)
from backends.compiled_form import is_compiled
from deployments.instance.assembly import PART_WAIT_NS, SEQUENCE_PART_WAIT_NS
from tests.support.lane_requests import ScriptedModel
from tests.support.pool_rig import EPOCH, answer, ids, pooled, request_for

READY = SequenceControl("READY", "CONTROL_SEQUENCE_READY", "INT32", 0, 1)
COUNT = SequenceState("C_IN", "C", "INT64", (1,))


def sequences(**fields) -> ModelConfig:
    return ModelConfig(
        "m",
        max_batch_size=4,
        sequence_batching=SequenceBatching(controls=(READY,), states=(COUNT,), **fields),
    )


def counting(batch: ExecuteBatch) -> None:
    """Answer with how many requests of its sequence there were, and which rows are ready."""
    ready = [value_of(each, "READY") for each in batch.requests]
    for each in batch.requests:
        count = tensor_from_numpy("C", np_count := tensor_as_numpy(input_of(each, "C_IN")) + 1)
        shown = tensor_from_numpy("SEEN", np_count)
        name = f"{int(np_count.ravel()[0])} of {ready}"
        each.respond(InferenceResponse(name, "", outputs=[count, shown]))


def input_of(each, name: str):
    (tensor,) = [tensor for tensor in each.request.inputs if tensor.name == name]
    return tensor


def value_of(each, name: str) -> int:
    return int(tensor_as_numpy(input_of(each, name)).ravel()[0])


def part(correlation_id: int, flags: int = 0, identifier: str = ""):
    return request_for(identifier, correlation_id=correlation_id, flags=flags)


async def counts(inflights) -> list[int]:
    """Return the state that each answer shows."""
    answers = [await answer(each) for each in inflights]
    return [
        int(tensor_as_numpy(output).ravel()[0])
        for each in answers
        for output in each.outputs
        if output.name == "SEEN"
    ]


async def test_requests_of_two_routers_are_fed_by_slot():
    async with pooled(sequences(), ScriptedModel(counting)) as instance:
        holder, other = await instance.holder(), await instance.router()
        theirs = other.push(1, part(2, SEQUENCE_START), total=0, slots=[2])
        own = holder.push(1, part(1, SEQUENCE_START), total=2, slots=[0])
        assert await counts(own + theirs) == [1, 1]
        own = holder.push(2, part(1), total=2, slots=[0])
        theirs = other.push(2, part(2, SEQUENCE_END), total=0, slots=[2])
        assert await counts(own + theirs) == [2, 2]
        # Row 1 is filled in both.
        assert instance.model.sizes == [3, 3]
        assert (await other.adopt(EPOCH + 1)).running == {0: 1}


async def test_the_next_holder_goes_on_with_the_sequences_that_run():
    async with pooled(sequences(), ScriptedModel(counting)) as instance:
        router, second = await instance.router(), await instance.router()
        alone = [router.submit(part(5, SEQUENCE_START)), router.submit(part(6, SEQUENCE_START))]
        assert await counts(alone) == [1, 1]
        running = (await router.adopt()).running
        assert sorted(running.values()) == [5, 6]
        assert (await second.adopt(EPOCH + 1)).running == running
        slot = next(slot for slot in running if running[slot] == 6)
        more = second.push(1, part(6), slots=[slot], epoch=EPOCH + 1)
        assert await counts(more) == [2]


@pytest.mark.parametrize("slots", [[], [4], [0, 1]], ids=str)
async def test_slots_that_the_model_has_not_close_the_lane(slots):
    async with pooled(sequences(), ScriptedModel(counting)) as instance:
        holder, other = await instance.holder(), await instance.router()
        other.push(1, part(1, SEQUENCE_START), slots=slots)
        assert len(await other.next("lost")) == 1
        assert await counts(holder.push(1, part(1, SEQUENCE_START), slots=[0])) == [1]


async def test_two_requests_of_a_slot_are_executed_one_after_the_other():
    async with pooled(sequences(), ScriptedModel(counting)) as instance:
        holder = await instance.holder()
        both = holder.push(1, part(1, SEQUENCE_START), part(1), slots=[0, 0])
        assert await counts(both) == [1, 2]
        await ids(holder.push(2, part(1), slots=[0]))
        assert [done.number for done in holder.all("done")] == [1, 2]


async def test_a_request_of_no_running_sequence_is_invalid():
    async with pooled(sequences(), ScriptedModel(counting)) as instance:
        holder = await instance.holder()
        (request,) = holder.push(1, part(1), slots=[0])
        error = await answer(request)
        assert isinstance(error, InvalidArgumentError)
        assert "must specify the START flag" in error.message
        assert (await holder.next("done")).number == 1


async def test_the_end_of_a_sequence_that_comes_late_meets_its_sequence():
    now_ns = [time.monotonic_ns()]
    model = ScriptedModel(counting)
    async with pooled(sequences(), model, clock_ns=lambda: now_ns[0]) as instance:
        holder, other = await instance.holder(), await instance.router()
        await ids(holder.push(1, part(2, SEQUENCE_START), slots=[1]))
        holder.push(2, part(1, SEQUENCE_START), total=2, slots=[0])
        await holder.lane.call("statistics", b"", 30)
        now_ns[0] += PART_WAIT_NS + 1
        await asyncio.wrap_future(instance.reactor.submit(instance.executor._expire))
        assert await counts(holder.push(3, part(3, SEQUENCE_START), slots=[2])) == [1]
        # Else the holder would give the slot to another sequence.
        assert 2 not in [done.number for done in holder.all("done")]
        assert await counts(other.push(2, part(2, SEQUENCE_END), total=0, slots=[1])) == [2]
        await holder.next("done", 3)


async def test_a_late_request_whose_sequence_is_over_is_unavailable():
    async with pooled(sequences(), ScriptedModel(counting)) as instance:
        holder, other = await instance.holder(), await instance.router()
        await ids(holder.push(1, part(1, SEQUENCE_START), slots=[0]))
        (late,) = other.push(1, part(9, SEQUENCE_END), total=0, slots=[1])
        error = await answer(late)
        assert isinstance(error, UnavailableError)
        assert "ended while a request of it was on its way" in error.message


async def test_a_cancelled_request_ends_its_sequence():
    async with pooled(sequences(), ScriptedModel(counting)) as instance:
        holder = await instance.holder()
        await ids(holder.push(1, part(1, SEQUENCE_START), slots=[0]))
        with instance.held():
            busy = holder.push(2, part(2, SEQUENCE_START), slots=[1])
            await instance.entered()
            (gone,) = holder.push(3, part(1), slots=[0])
            gone.cancel()
            (next_one,) = holder.push(4, part(1), slots=[0])
            await holder.lane.call("statistics", b"", 30)
        await ids(busy)
        assert isinstance(await answer(gone), RequestCancelledError)
        assert isinstance(await answer(next_one), InvalidArgumentError)
        await holder.next("done", 4)
        assert [done.ended for done in holder.all("done")] == [None, None, {0: 1}, {0: 1}]
        assert await counts(holder.push(5, part(1, SEQUENCE_START), slots=[0])) == [1]


async def test_states_of_different_shapes_are_executed_apart_and_the_batch_is_done_once():
    state = SequenceState("C_IN", "C", "INT64", (-1,))

    def growing(batch: ExecuteBatch) -> None:
        shapes = {input_of(each, "C_IN").shape for each in batch.requests}
        assert len(shapes) == 1
        for each in batch.requests:
            held = tensor_as_numpy(input_of(each, "C_IN"))
            more = tensor_from_numpy("C", held.repeat(2, axis=1))
            each.respond(InferenceResponse("", "", outputs=[more]))

    config = ModelConfig(
        "m",
        max_batch_size=4,
        sequence_batching=SequenceBatching(strategy="oldest", states=(state,)),
    )
    async with pooled(config, ScriptedModel(growing)) as instance:
        holder = await instance.holder()
        await ids(holder.push(1, part(1, SEQUENCE_START, "a"), slots=[0]))
        both = holder.push(2, part(1, 0, "b"), part(2, SEQUENCE_START, "c"), slots=[0, 1])
        assert await ids(both) == ["b", "c"]
        await ids(holder.push(3, part(1, 0, "d"), slots=[0]))
        assert [done.number for done in holder.all("done")] == [1, 2, 3]
        assert instance.model.sizes == [1, 1, 1, 1]


ITERATIVE = ModelConfig(
    "m",
    max_batch_size=4,
    decoupled=True,
    sequence_batching=SequenceBatching(controls=(READY,), states=(COUNT,), iterative=True),
)


def stepping(batch: ExecuteBatch) -> None:
    for each in batch.requests:
        if not value_of(each, "READY"):
            continue
        count = tensor_as_numpy(input_of(each, "C_IN")) + 1
        state = tensor_from_numpy("C", count)
        is_last = bool(count.ravel()[0] == 3)
        if not is_last:
            each.reschedule()
        shown = tensor_from_numpy("SEEN", count)
        each.respond(InferenceResponse("", "", outputs=[state, shown]), final=is_last)


async def seen(inflight) -> list[int]:
    await answer(inflight)
    assert inflight.sink.error is None
    return [
        int(tensor_as_numpy(output).ravel()[0])
        for response in inflight.sink.responses
        for output in response.outputs
        if output.name == "SEEN"
    ]


async def test_a_request_that_goes_on_is_kept_for_the_batch_that_names_its_slot():
    async with pooled(ITERATIVE, ScriptedModel(stepping)) as instance:
        holder = await instance.holder()
        (request,) = holder.push(1, part(1, SEQUENCE_START), slots=[1])
        assert list((await holder.next("done")).rescheduled) == [1]
        # Another one joins, and both end in their own time.
        (other,) = holder.push(2, part(2, SEQUENCE_START), total=1, slots=[0], kept=[1])
        assert sorted((await holder.next("done", 2)).rescheduled) == [0, 1]
        holder.push(3, kept=[0, 1])
        assert list((await holder.next("done", 3)).rescheduled) == [0]
        assert await seen(request) == [1, 2, 3]
        holder.push(4, kept=[0])
        assert list((await holder.next("done", 4)).rescheduled) == []
        assert await seen(other) == [1, 2, 3]


async def test_a_kept_request_that_is_cancelled_is_dropped_when_its_batch_comes():
    async with pooled(ITERATIVE, ScriptedModel(stepping)) as instance:
        holder = await instance.holder()
        (request,) = holder.push(1, part(1, SEQUENCE_START), slots=[1])
        await holder.next("done")
        request.cancel()
        holder.push(2, kept=[1])
        assert (await holder.next("done", 2)).number == 2
        assert isinstance(await answer(request), RequestCancelledError)


async def test_a_kept_request_outlives_its_holder():
    async with pooled(ITERATIVE, ScriptedModel(stepping)) as instance:
        holder, router = await instance.holder(), await instance.router()
        (request,) = router.push(1, part(1, SEQUENCE_START), total=1, slots=[1])
        await holder.next("done")
        adopted = await router.adopt(EPOCH + 1)
        assert (adopted.batch_count, adopted.running) == (1, {1: 1})
        assert await seen(request) == [1, 2, 3]
        done = await router.next("done")
        assert (done.epoch, list(done.rescheduled)) == (0, [])


async def test_a_request_goes_on_through_the_adoption_of_its_instance():
    async with pooled(ITERATIVE, ScriptedModel(stepping)) as instance:
        router = await instance.router()
        with instance.held():
            request = router.submit(part(0))
            await instance.entered()
            assert (await router.adopt()).batch_count == 1
        assert await seen(request) == [1, 2, 3]
        assert (await router.next("done")).number == 0
        assert not router.all("bounced")


async def test_a_drain_waits_for_a_sequence_until_that_would_be_idle():
    config = sequences(max_sequence_idle_us=50_000)
    async with pooled(config, ScriptedModel(counting)) as instance:
        holder = await instance.holder()
        await ids(holder.push(1, part(1, SEQUENCE_START), slots=[0]))
        assert not await instance.executor.drain(0.001)
        assert await instance.executor.drain(30)


async def test_kept_requests_fail_when_the_instance_ends():
    async with pooled(ITERATIVE, ScriptedModel(stepping)) as instance:
        holder = await instance.holder()
        (request,) = holder.push(1, part(1, SEQUENCE_START), slots=[1])
        await holder.next("done")
        assert await instance.executor.close(30)
        assert "stopped accepting" in (await answer(request)).message


async def test_a_new_holder_hears_of_sequences_whose_first_request_lies_at_the_instance():
    async with pooled(sequences(), ScriptedModel(counting)) as instance:
        holder = await instance.holder()
        with instance.held():
            begun = holder.push(1, part(1, SEQUENCE_START), slots=[0])
            await instance.entered()
            lying = holder.push(2, part(2, SEQUENCE_START), part(1, SEQUENCE_END), slots=[1, 0])
            late = holder.push(3, part(3, SEQUENCE_START), total=2, slots=[2])
            adopted = await holder.adopt(EPOCH + 1)
            assert adopted.running == {1: 2, 2: 3}
        assert await counts([*begun, *lying]) == [1, 1, 2]
        assert await counts(late) == [1]


@pytest.mark.skipif(is_compiled(), reason="replaces a method of an object, which has none then")
async def test_a_sequence_begins_when_its_first_request_is_handed_out_not_when_it_is_fed():
    async with pooled(sequences(), ScriptedModel(counting)) as instance:
        holder = await instance.holder()
        executor, seen = instance.executor, []
        feed = executor.feeder.feed

        def look_and_feed(*arguments, **options):
            seen.append((dict(executor.feeder.running), executor._pushed.coming))
            return feed(*arguments, **options)

        executor.feeder.feed = look_and_feed
        assert await counts(holder.push(1, part(5, SEQUENCE_START), slots=[3])) == [1]
        assert seen[0] == ({}, {3: 5})


async def test_a_new_holder_hears_of_sequences_that_begin_with_a_part_that_has_not_come():
    async with pooled(sequences(), ScriptedModel(counting), clock_ns=lambda: 1) as instance:
        holder, other = await instance.holder(), await instance.router()
        await ids(holder.push(1, part(9, SEQUENCE_START), slots=[3]))
        holder.push(2, total=2, sequences={1: 5, 3: 0})
        await holder.lane.call("statistics", b"", 30)
        adopted = await other.adopt(EPOCH + 1)
        assert (adopted.batch_count, adopted.running) == (1, {1: 5})
        late = [part(5, SEQUENCE_START), part(9, SEQUENCE_END)]
        assert await counts(holder.push(2, *late, total=0, slots=[1, 3])) == [1, 2]
        assert (await other.next("done")).number == 2
        assert await counts(other.push(1, part(5), slots=[1], epoch=EPOCH + 1)) == [2]


async def test_what_the_new_holder_cannot_know_of_goes_by_way_of_its_queue():
    async with pooled(sequences(), ScriptedModel(counting)) as instance:
        holder, other = await instance.holder(), await instance.router()
        await ids(other.push(1, part(1, SEQUENCE_START), total=1, slots=[0]))
        holder.push(2, total=2)
        assert (await holder.adopt(EPOCH + 1)).running == {0: 1}
        await ids(holder.push(1, part(2, SEQUENCE_START), slots=[1], epoch=EPOCH + 1))
        # Of batch 2 the holder has waited long enough; of batch 3 nobody has ever heard.
        await holder.next("done", 3)
        starts = other.push(2, part(5, SEQUENCE_START), total=0, slots=[1])
        unheard = other.push(3, part(1), total=0, slots=[0])
        assert await other.next("bounced", 2) is unheard[0]
        assert other.all("bounced") == [*starts, *unheard]
        assert await counts(other.push(2, part(1), total=0, slots=[0])) == [2]
        assert not any(instance.executor.statistics().fail_count.values())


async def test_a_late_start_does_not_take_its_slot_from_another_sequence():
    now_ns = [time.monotonic_ns()]
    model = ScriptedModel(counting)
    async with pooled(sequences(), model, clock_ns=lambda: now_ns[0]) as instance:
        holder, other = await instance.holder(), await instance.router()
        holder.push(1, total=2)
        await holder.lane.call("statistics", b"", 30)
        now_ns[0] += SEQUENCE_PART_WAIT_NS
        await asyncio.wrap_future(instance.reactor.submit(instance.executor._expire))
        await holder.next("done")
        await ids(holder.push(2, part(2, SEQUENCE_START), slots=[1]))
        (late,) = other.push(1, part(5, SEQUENCE_START), total=0, slots=[1])
        assert await other.next("bounced") is late
        assert await counts(holder.push(3, part(2), slots=[1])) == [2]
        assert not any(instance.executor.statistics().fail_count.values())
