# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The executor: one terminal outcome for every request, whatever the model does."""

import asyncio
import gc
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.backend import ExecuteBatch
from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    RequestCancelledError,
    UnavailableError,
)
from backends.api.model_config import (
    DynamicBatching,
    ModelConfig,
    ModelInput,
    ModelOutput,
    QueuePolicy,
)
from backends.api.request import InferenceResponse, TraceContext, tensor_as_numpy, tensor_from_numpy
from tests.support.lane_requests import (
    RecordedRequest,
    ScriptedModel,
    echo,
    lane_request,
    outcome,
    running,
)

PLAIN = ModelConfig("m", max_batch_size=8)
BATCHING = ModelConfig("m", max_batch_size=8, dynamic_batching=DynamicBatching())
DECOUPLED = ModelConfig("m", max_batch_size=8, decoupled=True)


async def held(executor, model: ScriptedModel) -> RecordedRequest:
    """Submit a request and return once the model executes it and waits at its gate."""
    request = lane_request()
    executor.received([request])
    await asyncio.to_thread(model.entered.wait, 30)
    return request


async def test_a_response_names_the_model_and_echoes_the_id():
    async with running(PLAIN, ScriptedModel()) as executor:
        request = lane_request(id="42")
        executor.received([request])
        response = await outcome(request)
        assert executor.inflight_count == 0
    assert isinstance(response, InferenceResponse)
    assert (response.model_name, response.model_version, response.id) == ("m", "3", "42")


@pytest.mark.parametrize("config", [PLAIN, DECOUPLED], ids=["plain", "decoupled"])
async def test_only_traced_requests_learn_when_they_were_executed(config):
    async with running(config, ScriptedModel()) as executor:
        traced, other = lane_request(trace=TraceContext(1)), lane_request()
        executor.received([traced, other])
        await outcome(traced)
        await outcome(other)
    assert [name for name, _ in traced.activities] == [
        "QUEUE_START",
        "COMPUTE_START",
        "COMPUTE_INPUT_END",
        "COMPUTE_OUTPUT_START",
        "COMPUTE_END",
    ]
    instants = [ns for _, ns in traced.activities]
    assert instants == sorted(instants)
    assert other.activities == []


async def test_a_traced_request_that_fails_learns_when_it_was_executed():
    def fail(batch):
        raise InvalidArgumentError("no")

    async with running(PLAIN, ScriptedModel(fail)) as executor:
        request = lane_request(trace=TraceContext(1))
        executor.received([request])
        assert isinstance(await outcome(request), InvalidArgumentError)
    assert request.activities


async def test_requests_that_came_while_the_model_was_busy_run_as_one_batch():
    model = ScriptedModel(held=True)
    async with running(BATCHING, model) as executor:
        first = await held(executor, model)
        others = [lane_request(), lane_request(3), lane_request()]
        executor.received(others)
        model.gate.set()
        for request in [first, *others]:
            assert isinstance(await outcome(request), InferenceResponse)
        totals = executor.statistics()
    assert model.sizes == [1, 3]
    assert sorted(totals.batches) == [1, 5]
    assert (totals.execution_count, totals.inference_count, totals.success_count) == (2, 6, 4)


async def test_a_delayed_batch_leaves_after_its_delay():
    batching = DynamicBatching(max_queue_delay_us=2000)
    config = ModelConfig("m", max_batch_size=8, dynamic_batching=batching)
    model = ScriptedModel()
    async with running(config, model) as executor:
        requests = [lane_request(), lane_request()]
        executor.received(requests[:1])
        executor.received(requests[1:])
        for request in requests:
            await outcome(request)
        assert executor.statistics().queue_ns >= 2_000_000
    assert sum(model.sizes) == 2


async def test_a_cancelled_request_never_reaches_the_model():
    model = ScriptedModel(held=True)
    async with running(PLAIN, model) as executor:
        first = await held(executor, model)
        cancelled = lane_request()
        executor.received([cancelled])
        cancelled.is_cancelled = True
        model.gate.set()
        error = await outcome(cancelled)
        await outcome(first)
        totals = executor.statistics()
    assert isinstance(error, RequestCancelledError)
    assert error.message == ""
    assert model.sizes == [1]
    assert totals.fail_count["CANCELED"] == 1


async def test_a_request_cancelled_while_its_batch_waits_is_dropped_at_once():
    batching = DynamicBatching(max_queue_delay_us=60_000_000)
    config = ModelConfig("m", max_batch_size=8, dynamic_batching=batching)
    async with running(config, ScriptedModel()) as executor:
        request = lane_request()
        executor.received([request])
        request.is_cancelled = True
        executor.look_again()
        assert isinstance(await outcome(request), RequestCancelledError)


async def test_a_triton_error_of_execute_fails_what_is_unanswered_with_its_code():
    def script(batch: ExecuteBatch) -> None:
        batch.requests[0].respond(InferenceResponse("", ""))
        raise InvalidArgumentError("no such row")

    model = ScriptedModel(script, held=True)
    async with running(BATCHING, model) as executor:
        first = await held(executor, model)
        others = [lane_request(), lane_request()]
        executor.received(others)
        model.gate.set()
        assert isinstance(await outcome(first), InferenceResponse)
        assert isinstance(await outcome(others[0]), InferenceResponse)
        error = await outcome(others[1])
        totals = executor.statistics()
    assert isinstance(error, InvalidArgumentError)
    assert error.message == "no such row"
    assert (totals.success_count, totals.fail_count["BACKEND"]) == (2, 1)


@pytest.mark.parametrize("raised", [ValueError("boom"), SystemExit(3)], ids=["error", "exit"])
async def test_any_other_exception_of_execute_is_internal(raised):
    def script(batch: ExecuteBatch) -> None:
        raise raised

    model = ScriptedModel(script)
    async with running(PLAIN, model) as executor:
        request = lane_request()
        executor.received([request])
        error = await outcome(request)
        assert isinstance(error, InternalError)
        assert f"{type(raised).__name__}: {raised}" in error.message
        model.script = echo
        again = lane_request()
        executor.received([again])
        assert isinstance(await outcome(again), InferenceResponse)


def answer_twice(batch: ExecuteBatch) -> None:
    request = batch.requests[0]
    request.respond(InferenceResponse("", ""))
    request.respond(InferenceResponse("", ""))


def answer_then_fail(batch: ExecuteBatch) -> None:
    request = batch.requests[0]
    request.respond(InferenceResponse("", ""))
    request.fail(InternalError("late"))


def answer_not(batch: ExecuteBatch) -> None:
    pass


def close_without_response(batch: ExecuteBatch) -> None:
    batch.requests[0].respond(None)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (answer_twice, "sent more than one response"),
        (answer_then_fail, "sent more than one response"),
        (answer_not, "sent no response"),
        (close_without_response, "sent no response"),
    ],
    ids=["twice", "then fail", "not at all", "closed empty"],
)
async def test_a_model_that_does_not_answer_exactly_once_is_an_internal_error(script, text):
    async with running(PLAIN, ScriptedModel(script)) as executor:
        request = lane_request()
        executor.received([request])
        error = await outcome(request)
        totals = executor.statistics()
    assert isinstance(error, InternalError)
    assert text in error.message
    assert len(request.outcomes) == 1
    assert (totals.success_count, totals.fail_count["BACKEND"]) == (0, 1)


async def test_a_response_after_execute_is_refused():
    kept = []
    async with running(PLAIN, ScriptedModel(lambda batch: kept.extend(batch.requests))) as executor:
        request = lane_request()
        executor.received([request])
        await outcome(request)
        with pytest.raises(InternalError, match="after execute returned"):
            kept[0].respond(InferenceResponse("", ""))
    assert len(request.outcomes) == 1


async def test_a_stream_goes_on_after_execute_from_another_thread():
    threads = []

    def later(request) -> None:
        for _ in range(3):
            request.respond(InferenceResponse("", ""), final=False)
        request.respond(None, final=True)

    def script(batch: ExecuteBatch) -> None:
        threads.extend(threading.Thread(target=later, args=(r,)) for r in batch.requests)
        for thread in threads:
            thread.start()

    async with running(DECOUPLED, ScriptedModel(script)) as executor:
        request = lane_request(id="9")
        executor.received([request])
        assert await outcome(request) is None
        totals = executor.statistics()
        for thread in threads:
            thread.join()
    assert [o.id for o in request.outcomes if isinstance(o, InferenceResponse)] == ["9"] * 3
    assert (totals.success_count, totals.execution_count) == (1, 1)
    assert [totals.responses[i].success_count for i in range(3)] == [1, 1, 1]
    assert totals.responses[3].empty_count == 1


async def test_a_decoupled_model_may_go_on_after_an_error():
    refused = []

    def script(batch: ExecuteBatch) -> None:
        request = batch.requests[0]
        request.fail(InvalidArgumentError("bad"), final=False)
        request.respond(InferenceResponse("", ""), final=True)

    def ended(batch: ExecuteBatch) -> None:
        request = batch.requests[0]
        request.respond(None, final=True)
        with pytest.raises(InternalError) as info:
            request.respond(InferenceResponse("", ""), final=True)
        refused.append(info.value.message)

    model = ScriptedModel(script)
    async with running(DECOUPLED, model) as executor:
        request = lane_request()
        executor.received([request])
        assert isinstance(await outcome(request), InferenceResponse)
        assert isinstance(request.outcomes[0], InvalidArgumentError)
        assert executor.statistics().fail_count["BACKEND"] == 1
        model.script = ended
        request = lane_request()
        executor.received([request])
        assert await outcome(request) is None
    assert "after the final one" in refused[0]


async def test_an_exception_of_execute_ends_open_streams():
    def script(batch: ExecuteBatch) -> None:
        batch.requests[0].respond(InferenceResponse("", ""), final=False)
        raise ValueError("boom")

    async with running(DECOUPLED, ScriptedModel(script)) as executor:
        request = lane_request()
        executor.received([request])
        assert isinstance(await outcome(request), InternalError)
    assert len(request.outcomes) == 2


async def test_ordering_holds_a_fast_stream_behind_a_slow_one():
    batching = DynamicBatching(preserve_ordering=True)
    config = ModelConfig("m", max_batch_size=8, decoupled=True, dynamic_batching=batching)
    open_requests = []
    model = ScriptedModel(lambda batch: open_requests.extend(batch.requests), held=True)
    order = []
    async with running(config, model) as executor:
        first = await held(executor, model)
        second = lane_request()
        for name, request in (("first", first), ("second", second)):
            request.done.add_done_callback(lambda _, name=name: order.append(name))
        executor.received([second])
        model.gate.set()

        def script(batch: ExecuteBatch) -> None:
            batch.requests[0].respond(InferenceResponse("", ""))
            open_requests[0].respond(InferenceResponse("", ""))

        model.script = script
        await outcome(second)
        await outcome(first)
    assert order == ["first", "second"]


async def test_drain_refuses_new_requests_and_waits_for_those_in_flight():
    model = ScriptedModel(held=True)
    async with running(PLAIN, model) as executor:
        first = await held(executor, model)
        drained = asyncio.create_task(executor.drain(30))
        await asyncio.sleep(0)
        late = lane_request()
        executor.received([late])
        error = await outcome(late)
        assert isinstance(error, UnavailableError)
        assert error.message == (
            "Server is stopping, scheduler for model has stopped accepting new inference requests"
        )
        assert not drained.done()
        model.gate.set()
        assert await drained
        assert isinstance(await outcome(first), InferenceResponse)


async def test_drain_gives_up_after_its_timeout():
    model = ScriptedModel(held=True)
    async with running(PLAIN, model) as executor:
        request = await held(executor, model)
        assert not await executor.drain(0)
        model.gate.set()
        await outcome(request)


async def test_close_fails_the_queue_and_closes_the_model_on_its_thread():
    model = ScriptedModel(held=True)
    async with running(PLAIN, model) as executor:
        first = await held(executor, model)
        queued = lane_request()
        executor.received([queued])
        assert not await executor.close(0)
        assert isinstance(await outcome(queued), UnavailableError)
        model.gate.set()
        assert await executor.close(30)
        assert isinstance(await outcome(first), InferenceResponse)
    assert model.is_closed
    assert len(model.threads) == 1


async def test_request_over_max_queue_size_is_unavailable_at_once():
    policy = QueuePolicy(max_queue_size=1)
    batching = DynamicBatching(default_queue_policy=policy)
    config = ModelConfig("m", max_batch_size=8, dynamic_batching=batching)
    model = ScriptedModel(held=True)
    async with running(config, model) as executor:
        await held(executor, model)
        requests = [lane_request(), lane_request(id="7")]
        executor.received(requests)
        error = await outcome(requests[1])
        assert isinstance(error, UnavailableError)
        assert error.message == "[request id: 7] Exceeds maximum queue size"
        assert executor.statistics().fail_count["REJECTED"] == 1
        assert executor.statistics().pending_count == 1
        model.gate.set()
        assert isinstance(await outcome(requests[0]), InferenceResponse)


async def test_outputs_nobody_asked_for_are_left_out():
    def script(batch: ExecuteBatch) -> None:
        outputs = [tensor_from_numpy(name, np.zeros((1, 1), np.int8)) for name in ("A", "B", "C")]
        batch.requests[0].respond(InferenceResponse("", "", "", outputs))

    async with running(PLAIN, ScriptedModel(script)) as executor:
        request = lane_request(outputs=["C", "A"])
        executor.received([request])
        response = await outcome(request)
    assert isinstance(response, InferenceResponse)
    assert [output.name for output in response.outputs] == ["A", "C"]


async def test_requests_of_one_batch_each_get_the_outputs_they_asked_for():
    def script(batch: ExecuteBatch) -> None:
        for number, request in enumerate(batch.requests):
            made = np.full((1, 1), number, np.int8)
            outputs = [tensor_from_numpy(name, made) for name in "AB"]
            request.respond(InferenceResponse("", "", "", outputs))

    model = ScriptedModel(script, held=True)
    async with running(BATCHING, model) as executor:
        await held(executor, model)
        asked = [["A"], ["A"], ["B"], ["A", "B"], ["B", "A"]]
        requests = [lane_request(outputs=names) for names in asked]
        executor.received(requests)
        model.gate.set()
        responses = [await outcome(request) for request in requests]
    assert model.sizes == [1, 5]
    for number, (names, response) in enumerate(zip(asked, responses, strict=True)):
        assert isinstance(response, InferenceResponse)
        assert [output.name for output in response.outputs] == sorted(names)
        assert {bytes(output.data) for output in response.outputs} == {bytes([number])}


async def test_requests_of_different_lengths_share_a_batch_and_get_their_own_length_back():
    config = ModelConfig(
        "m",
        max_batch_size=8,
        dynamic_batching=DynamicBatching(),
        input=(ModelInput("IN", "FP32", (-1,)),),
        output=(ModelOutput("OUT", "FP32", (-1,)),),
        parameters={"shape_buckets.IN": "4,8", "unpad.OUT": "IN"},
    )
    shapes: list[tuple[int, ...]] = []

    def script(batch: ExecuteBatch) -> None:
        for request in batch.requests:
            (tensor,) = request.request.inputs
            shapes.append(tensor.shape)
            out = tensor_from_numpy("OUT", tensor_as_numpy(tensor) + 1)
            request.respond(InferenceResponse("", "", "", [out]))

    def of(length: int) -> RecordedRequest:
        tensor = tensor_from_numpy("IN", np.full((1, length), length, np.float32))
        return lane_request(inputs=[tensor])

    model = ScriptedModel(script, held=True)
    async with running(config, model) as executor:
        first = of(4)
        executor.received([first])
        await asyncio.to_thread(model.entered.wait, 30)
        requests = [of(length) for length in (1, 3, 4, 5)]
        executor.received(requests)
        model.gate.set()
        responses = [await outcome(request) for request in requests]
    assert model.sizes == [1, 3, 1]
    assert shapes == [(1, 4)] * 4 + [(1, 8)]
    for length, response in zip((1, 3, 4, 5), responses, strict=True):
        assert isinstance(response, InferenceResponse)
        (made,) = (tensor_as_numpy(output) for output in response.outputs)
        assert made.tolist() == [[length + 1.0] * length]


@pytest.mark.parametrize(
    ("dims", "reshape", "given_shape", "expected"),
    [
        ((1,), (), (2,), (2, 1)),
        ((-1, 1), (-1,), (2, 5), (2, 5, 1)),
        ((6,), (2, 3), (2, 2, 3), (2, 6)),
    ],
    ids=["scalar", "variable", "fixed"],
)
async def test_outputs_get_the_shape_the_config_promises(dims, reshape, given_shape, expected):
    def script(batch: ExecuteBatch) -> None:
        tensor = tensor_from_numpy("OUT", np.zeros(given_shape, np.float32))
        batch.requests[0].respond(InferenceResponse("", "", "", [tensor]))

    output = ModelOutput("OUT", "FP32", dims, reshape)
    config = ModelConfig("m", max_batch_size=8, output=(output,))
    async with running(config, ScriptedModel(script)) as executor:
        request = lane_request(2)
        executor.received([request])
        response = await outcome(request)
    assert isinstance(response, InferenceResponse)
    assert response.outputs[0].shape == expected


async def test_a_lane_that_cannot_send_does_not_cost_others_their_responses():
    model = ScriptedModel(held=True)
    async with running(BATCHING, model) as executor:
        await held(executor, model)
        broken, healthy = lane_request(), lane_request()
        broken.respond = lambda *_args, **_kwargs: 1 / 0
        executor.received([broken, healthy])
        model.gate.set()
        assert isinstance(await outcome(healthy), InferenceResponse)
        assert executor.inflight_count == 0


async def test_nothing_keeps_the_inputs_of_a_finished_request_alive():
    def fail(batch: ExecuteBatch) -> None:
        raise InvalidArgumentError("bad")

    for script in (echo, fail):
        async with running(PLAIN, ScriptedModel(script)) as executor:
            array = np.zeros(4)
            dead = weakref.ref(array)
            request = lane_request()
            request.request.inputs[0].data = memoryview(array).cast("B")
            executor.received([request])
            await outcome(request)
            # A second request proves that the thread is past the first one's execution.
            second = lane_request()
            executor.received([second])
            await outcome(second)
            del request, array
            gc.disable()
            try:
                assert dead() is None
            finally:
                gc.enable()


ANSWERS = st.sampled_from(["respond", "fail", "twice", "none", "close"])


@settings(max_examples=25, deadline=None)
@given(
    reads=st.lists(st.lists(st.tuples(ANSWERS, st.booleans()), max_size=5), max_size=6),
    raises=st.booleans(),
    config=st.sampled_from([PLAIN, BATCHING, DECOUPLED]),
)
def test_every_request_gets_exactly_one_terminal_outcome(reads, raises, config):
    def script(batch: ExecuteBatch) -> None:
        for request in batch.requests:
            answer = request.request.id
            if answer == "fail":
                request.fail(InvalidArgumentError("bad"))
            elif answer == "close" or (config.decoupled and answer == "none"):
                request.respond(None)
            elif answer != "none":
                request.respond(InferenceResponse("", ""))
            if answer == "twice":
                request.respond(InferenceResponse("", ""))
        if raises:
            raise ValueError("boom")

    async def main() -> None:
        async with running(config, ScriptedModel(script)) as executor:
            submitted = []
            for read in reads:
                requests = []
                for answer, is_cancelled in read:
                    request = lane_request(id=answer)
                    request.is_cancelled = is_cancelled
                    requests.append(request)
                executor.received(requests)
                submitted += requests
                await asyncio.sleep(0)
            for request in submitted:
                await outcome(request)
            assert executor.inflight_count == 0
            totals = executor.statistics()
            assert totals.success_count + sum(totals.fail_count.values()) == len(submitted)
            assert totals.pending_count == 0

    asyncio.run(main())
