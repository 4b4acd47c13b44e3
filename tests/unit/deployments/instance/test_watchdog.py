# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Executions that take longer than their config says they ever should."""

import asyncio
import queue
import threading

import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceResponse
from deployments.instance.process_load import Activity
from deployments.instance.watchdog import Watchdog, execution_timeout_us
from tests.support.lane_requests import (
    RecordedRequest,
    RunningExecutor,
    ScriptedModel,
    lane_request,
    outcome,
    running,
)

PLAIN = ModelConfig("m", max_batch_size=8)
DECOUPLED = ModelConfig("m", max_batch_size=8, decoupled=True)
TIMEOUT_US = 2_000
REASON = "execution of model 'm' took longer than execution_timeout_us=2000"


class Clock:
    """Stands still unless told."""

    def __init__(self) -> None:
        self.now_ns = 1

    def __call__(self) -> int:
        return self.now_ns

    def pass_us(self, us: int) -> None:
        self.now_ns += us * 1000


class Watched:
    """A watchdog that is asked rather than left to look."""

    def __init__(self, executor: RunningExecutor) -> None:
        self.reasons: list[str] = []
        self._watchdog = Watchdog("m", TIMEOUT_US, executor.executor.activity, self.reasons.append)

    def look(self) -> list[str]:
        self._watchdog.look()
        return self.reasons


async def test_an_execution_that_lasts_longer_than_its_timeout_is_a_hang(caplog):
    clock, model = Clock(), ScriptedModel(held=True)
    async with running(PLAIN, model, clock) as executor:
        watched = Watched(executor)
        request = lane_request()
        executor.received([request])
        assert await asyncio.to_thread(model.entered.wait, 30)
        clock.pass_us(TIMEOUT_US)
        assert watched.look() == []
        clock.pass_us(1)
        assert watched.look() == [REASON]
        # The log shows where the model hangs.
        assert "lane_requests.py" in caplog.text
        model.gate.set()
        await outcome(request)


async def test_an_instance_that_waits_for_requests_is_no_hang():
    clock = Clock()
    async with running(PLAIN, ScriptedModel(), clock) as executor:
        watched = Watched(executor)
        request = lane_request()
        executor.received([request])
        await outcome(request)
        clock.pass_us(10 * TIMEOUT_US)
        assert watched.look() == []


class Streaming:
    """A decoupled model that keeps its request and answers when told, on a thread of its own."""

    def __init__(self) -> None:
        self.model = ScriptedModel(self._keep)
        self._kept: queue.Queue[RecordedRequest] = queue.Queue()

    def _keep(self, batch) -> None:
        for request in batch.requests:
            self._kept.put(request)

    async def given(self) -> RecordedRequest:
        return await asyncio.to_thread(self._kept.get, timeout=30)


async def test_a_decoupled_model_may_stream_for_ever_but_not_be_silent():
    clock, streaming = Clock(), Streaming()
    async with running(DECOUPLED, streaming.model, clock) as executor:
        watched = Watched(executor)
        request = lane_request()
        executor.received([request])
        given = await streaming.given()
        for _ in range(5):
            clock.pass_us(TIMEOUT_US)
            assert watched.look() == []
            given.respond(InferenceResponse("", "", ""), final=False)
        clock.pass_us(TIMEOUT_US + 1)
        assert watched.look() == [REASON]
        given.respond(None, final=True)
        await outcome(request)
        watched.reasons.clear()
        clock.pass_us(TIMEOUT_US + 1)
        assert watched.look() == []


class SlowReader(RecordedRequest):
    """Takes a response only when let."""

    def __init__(self, like: RecordedRequest) -> None:
        super().__init__(like.request)
        self.waits = threading.Event()
        self.takes = threading.Event()

    def await_credit(self) -> None:
        self.waits.set()
        assert self.takes.wait(30)


async def test_a_model_that_waits_for_its_caller_is_no_hang():
    clock = Clock()
    async with running(DECOUPLED, ScriptedModel(), clock) as executor:
        watched = Watched(executor)
        request = SlowReader(lane_request(window=1))
        executor.received([request])
        assert await asyncio.to_thread(request.waits.wait, 30)
        clock.pass_us(10 * TIMEOUT_US)
        assert watched.look() == []
        request.takes.set()
        await outcome(request)


async def test_a_stream_that_failed_with_its_execution_is_over():
    def fail(batch):
        raise ValueError("no")

    clock = Clock()
    async with running(DECOUPLED, ScriptedModel(fail), clock) as executor:
        watched = Watched(executor)
        request = lane_request()
        executor.received([request])
        await outcome(request)
        clock.pass_us(10 * TIMEOUT_US)
        assert watched.look() == []


def test_the_watchdog_looks_by_itself_and_tells_once():
    told: queue.Queue[str] = queue.Queue()
    watchdog = Watchdog("m", TIMEOUT_US, lambda: Activity(0, 3_000_000, 3_000_000, 1, 1), told.put)
    watchdog.start()
    assert told.get(timeout=30) == REASON
    watchdog._worker_thread.join()
    assert told.empty()


def test_without_the_parameter_an_execution_may_take_for_ever():
    assert execution_timeout_us(PLAIN) == 0


@pytest.mark.parametrize("text", ["-1", "1.5", "soon", ""])
def test_an_execution_timeout_that_is_no_number_is_refused(text):
    config = ModelConfig("m", parameters={"execution_timeout_us": text})
    with pytest.raises(InvalidArgumentError, match=f"'execution_timeout_us' with value '{text}'"):
        execution_timeout_us(config)
