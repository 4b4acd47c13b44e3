# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The executor: one terminal outcome for every request, whatever the model does."""

import asyncio
import gc
import weakref

import numpy as np
import pytest

from backends.api.backend import ExecuteBatch
from backends.api.errors import (
    InvalidArgumentError,
    RequestCancelledError,
    UnavailableError,
)
from backends.api.model_config import (
    DynamicBatching,
    ModelConfig,
    QueuePolicy,
)
from backends.api.request import InferenceResponse, TraceContext
from tests.support.lane_requests import (
    BATCHING,
    DECOUPLED,
    PLAIN,
    ScriptedModel,
    echo,
    held,
    lane_request,
    outcome,
    running,
)


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
