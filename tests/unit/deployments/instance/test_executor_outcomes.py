# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a model may do with a batch, and what its requests end with."""

import asyncio
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.backend import ExecuteBatch
from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
)
from backends.api.request import InferenceResponse
from tests.support.examples import examples
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


async def test_requests_that_ask_are_told_their_rows_part_of_the_execution():
    model = ScriptedModel(echo, held=True)
    async with running(BATCHING, model) as executor:
        first = await held(executor, model)
        asking = [lane_request(wants_times=True), lane_request(wants_times=True)]
        executor.received([*asking, lane_request()])
        model.gate.set()
        answers = [await outcome(each) for each in asking]
        quiet = await outcome(first)
    for answer in answers:
        assert isinstance(answer, InferenceResponse)
        assert answer.compute_ns is not None
        assert answer.share_ns == sum(answer.compute_ns) // 3
        assert answer.queue_ns > 0
    assert isinstance(quiet, InferenceResponse)
    assert (quiet.compute_ns, quiet.share_ns, quiet.queue_ns) == (None, 0, -1)


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


ANSWERS = st.sampled_from(["respond", "fail", "twice", "none", "close"])


@settings(max_examples=examples(25), deadline=None)
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
