# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The executor with queue timeouts and sequences: what only a busy or an idle instance shows."""

import asyncio

import pytest

from backends.api.backend import ExecuteBatch
from backends.api.errors import InternalError, InvalidArgumentError, UnavailableError
from backends.api.model_config import (
    DynamicBatching,
    ModelConfig,
    QueuePolicy,
    SequenceBatching,
    SequenceControl,
    SequenceState,
)
from backends.api.request import (
    SEQUENCE_END,
    SEQUENCE_START,
    InferenceResponse,
    tensor_as_numpy,
    tensor_from_numpy,
)
from tests.support.lane_requests import ScriptedModel, lane_request, outcome, running

READY = SequenceControl("READY", "CONTROL_SEQUENCE_READY", "INT32", 0, 1)


def sequences(*, decoupled: bool = False, **fields) -> ModelConfig:
    batching = SequenceBatching(**{"controls": (READY,), **fields})
    return ModelConfig("m", max_batch_size=4, decoupled=decoupled, sequence_batching=batching)


def part(correlation_id: int, flags: int = 0, **fields):
    return lane_request(correlation_id=correlation_id, flags=flags, **fields)


async def test_a_queue_timeout_is_told_while_the_model_is_busy():
    policy = QueuePolicy(default_timeout_us=60_000_000, allow_timeout_override=True)
    batching = DynamicBatching(default_queue_policy=policy)
    config = ModelConfig("m", max_batch_size=8, dynamic_batching=batching)
    model = ScriptedModel(held=True)
    async with running(config, model) as executor:
        first = lane_request()
        executor.received([first])
        await asyncio.to_thread(model.entered.wait, 30)
        waiting = [lane_request(timeout_us=2000), lane_request(timeout_us=1000)]
        for request in waiting:
            executor.received([request])
        for request in waiting:
            error = await outcome(request)
            assert isinstance(error, UnavailableError)
            assert error.message == "Request timeout expired"
        assert not first.done.done()
        model.gate.set()
        assert isinstance(await outcome(first), InferenceResponse)
        assert executor.statistics().fail_count["REJECTED"] == 2


async def test_a_request_that_fits_no_sequence_is_invalid():
    async with running(sequences(), ScriptedModel()) as executor:
        request = part(5)
        executor.received([request])
        error = await outcome(request)
    assert isinstance(error, InvalidArgumentError)
    assert "must specify the START flag" in error.message


async def test_null_requests_fill_rows_and_count_in_the_batch_size_only():
    model = ScriptedModel()
    async with running(sequences(), model) as executor:
        assert await answered(executor, part(1, SEQUENCE_START))
        assert await answered(executor, part(2, SEQUENCE_START))
        assert await answered(executor, part(2, SEQUENCE_END))
        totals = executor.statistics()
    assert model.sizes == [1, 2, 2]
    assert (totals.success_count, totals.inference_count, totals.execution_count) == (3, 3, 3)
    assert {size: each.count for size, each in totals.batches.items()} == {1: 1, 2: 2}


async def test_ordering_does_not_hold_a_running_sequence_behind_one_that_waits_for_its_slot():
    config = sequences(strategy="oldest", max_candidate_sequences=1, preserve_ordering=True)
    async with running(config, ScriptedModel()) as executor:
        assert await answered(executor, part(1, SEQUENCE_START))
        waiting = part(2, SEQUENCE_START)
        executor.received([waiting])
        assert await answered(executor, part(1))
        assert await answered(executor, part(1, SEQUENCE_END))
        await outcome(waiting)


async def answered(executor, *requests) -> bool:
    executor.received(list(requests))
    return all([isinstance(await outcome(each), InferenceResponse) for each in requests])


async def test_the_model_sees_controls_and_the_client_its_outputs():
    async with running(sequences(), ScriptedModel()) as executor:
        request = part(1, SEQUENCE_START)
        await answered(executor, request)
        names = [output.name for output in request.outcomes[-1].outputs]
    assert names == ["IN", "READY"]


def counting(batch: ExecuteBatch) -> None:
    for request in batch.requests:
        (count,) = [each for each in request.request.inputs if each.name == "C_IN"]
        more = tensor_as_numpy(count) + 1
        outputs = [tensor_from_numpy("C_OUT", more), tensor_from_numpy("Y", more)]
        request.respond(InferenceResponse("", "", "", outputs))


async def test_state_goes_from_request_to_request_and_stays_hidden():
    state = SequenceState("C_IN", "C_OUT", "INT32", (1,))
    config = sequences(states=(state,), strategy="oldest")
    async with running(config, ScriptedModel(counting)) as executor:
        requests = [part(1, SEQUENCE_START), part(1), part(2, SEQUENCE_START), part(1)]
        assert await answered(executor, *requests)
    answers = [request.outcomes[-1].outputs for request in requests]
    assert [[output.name for output in outputs] for outputs in answers] == [["Y"]] * 4
    assert [int(tensor_as_numpy(outputs[0]).item()) for outputs in answers] == [1, 2, 1, 3]


async def test_a_failed_request_leaves_the_state_as_it_was():
    state = SequenceState("C_IN", "C_OUT", "INT32", (1,))
    model = ScriptedModel(counting)
    async with running(sequences(states=(state,)), model) as executor:
        assert await answered(executor, part(1, SEQUENCE_START))

        def fail(batch: ExecuteBatch) -> None:
            raise InternalError("no")

        model.script = fail
        assert not await answered(executor, part(1))
        model.script = counting
        last = part(1)
        assert await answered(executor, last)
    assert tensor_as_numpy(last.outcomes[-1].outputs[0]).item() == 2


async def test_a_drain_waits_for_running_sequences_and_lets_them_go_on():
    async with running(sequences(), ScriptedModel()) as executor:
        assert await answered(executor, part(1, SEQUENCE_START))
        draining = asyncio.create_task(executor.drain(30))
        await asyncio.sleep(0)
        refused = part(2, SEQUENCE_START)
        executor.received([refused])
        assert isinstance(await outcome(refused), UnavailableError)
        assert await answered(executor, part(1))
        assert not draining.done()
        assert await answered(executor, part(1, SEQUENCE_END))
        assert await draining


async def test_a_drain_ends_when_a_quiet_sequence_is_reaped():
    async with running(sequences(max_sequence_idle_us=1000), ScriptedModel()) as executor:
        assert await answered(executor, part(1, SEQUENCE_START))
        assert await executor.drain(30)
        assert not executor.knows(1)


class Iterating:
    """A model that answers after as many executions as its input says."""

    def __init__(self) -> None:
        self.runs: dict[int, int] = {}

    def __call__(self, batch: ExecuteBatch) -> None:
        for request in batch.requests:
            key = request.request.correlation_id
            self.runs[key] = self.runs.get(key, 0) + 1
            if self.runs[key] < 3:
                request.reschedule()
            else:
                request.respond(InferenceResponse("", ""))


@pytest.mark.parametrize("strategy", ["direct", "oldest"])
@pytest.mark.parametrize("decoupled", [False, True])
async def test_a_rescheduled_request_is_answered_once_by_its_last_execution(strategy, decoupled):
    config = sequences(iterative=True, strategy=strategy, decoupled=decoupled)
    model = ScriptedModel(Iterating())
    async with running(config, model) as executor:
        assert await answered(executor, lane_request(), lane_request())
        totals = executor.statistics()
    assert sum(model.sizes) == 6
    assert totals.success_count == 2


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize(
    "scheduling",
    [
        {},
        {"dynamic_batching": DynamicBatching()},
        {"sequence_batching": SequenceBatching()},
        {"sequence_batching": SequenceBatching(strategy="oldest")},
    ],
    ids=["default", "dynamic", "direct", "oldest"],
)
async def test_a_rescheduled_request_of_another_model_fails(scheduling, decoupled):
    config = ModelConfig("m", max_batch_size=4, decoupled=decoupled, **scheduling)
    async with running(config, ScriptedModel(lambda batch: batch.requests[0].reschedule())) as run:
        request = part(1, SEQUENCE_START)
        run.received([request])
        error = await outcome(request)
    assert isinstance(error, InvalidArgumentError)
    assert error.message == (
        "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not "
        "configured to handle such a flag."
    )
