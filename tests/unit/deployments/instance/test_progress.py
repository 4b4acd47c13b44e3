# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an observer learns of an instance: that it works, idles, or hangs."""

import asyncio
import contextlib
import threading

from backends.api.model_config import DynamicBatching, ModelConfig
from deployments.instance import progress
from deployments.instance.executor import Executor
from deployments.instance.lead import Lead
from deployments.instance.progress import Progress, ProgressWatch
from tests.support.lane_requests import (
    RunningExecutor,
    ScriptedModel,
    WatchedReactor,
    lane_request,
    outcome,
    running,
)
from tests.support.lane_rig import until

PLAIN = ModelConfig("m", max_batch_size=8)
IDLE = Progress(turned=True, executing_for_s=0.0, is_stuck=False)


class Clock:
    """Stands still unless told."""

    def __init__(self) -> None:
        self.now_ns = 1

    def __call__(self) -> int:
        return self.now_ns


def watch_of(running: RunningExecutor) -> ProgressWatch:
    return ProgressWatch(running.executor, running.reactor)


async def decided(executor: RunningExecutor) -> None:
    """Wait until the execution thread has looked at its queue once more."""
    seen = executor.executor.activity().decision_count
    executor.executor.poke()
    await until(lambda: executor.executor.activity().decision_count > seen)


async def test_an_idle_instance_turns_and_is_not_stuck():
    async with running(PLAIN, ScriptedModel()) as executor:
        watch = watch_of(executor)
        assert [await watch.ask() for _ in range(3)] == [IDLE] * 3


async def test_a_long_execution_is_told_by_its_length_and_is_not_stuck():
    clock = Clock()
    model = ScriptedModel(held=True)
    async with running(PLAIN, model, clock) as executor:
        watch = watch_of(executor)
        requests = [lane_request(), lane_request()]
        executor.received(requests)
        assert await asyncio.to_thread(model.entered.wait, 30)
        clock.now_ns += 90_000_000_000
        for _ in range(3):
            assert await watch.ask() == Progress(True, 90.0, False)
        model.gate.set()
        for request in requests:
            await outcome(request)
        assert (await watch.ask()).executing_for_s == 0.0


async def test_a_batch_that_waits_to_grow_is_not_stuck():
    batching = DynamicBatching(max_queue_delay_us=3_600_000_000)
    config = ModelConfig("m", max_batch_size=8, dynamic_batching=batching)
    async with running(config, ScriptedModel(), Clock()) as executor:
        watch = watch_of(executor)
        executor.received([lane_request()])
        for _ in range(3):
            assert await watch.ask() == IDLE
            await decided(executor)


class Unattended(contextlib.AbstractContextManager["Unattended"]):
    """An executor whose execution thread never comes to run; somebody turns the reactor."""

    def __init__(self) -> None:
        self.reactor = WatchedReactor()
        self.executor = Executor(PLAIN, 1, ScriptedModel(), Lead(self.reactor))
        self._is_over = False
        self._thread = threading.Thread(target=self._turn)

    def _turn(self) -> None:
        while not self._is_over:
            self.reactor.turn()

    def __enter__(self) -> "Unattended":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self.reactor.interrupt()
        self._thread.join()
        self.reactor.close()


async def test_work_that_nobody_executes_is_stuck_from_the_second_look():
    with Unattended() as unattended:
        watch = ProgressWatch(unattended.executor, unattended.reactor)
        assert await watch.ask() == IDLE
        request = lane_request()
        unattended.reactor.submit(unattended.executor.received, [request]).result(30)
        assert await watch.ask() == IDLE
        assert await watch.ask() == Progress(True, 0.0, True)
        assert await watch.ask() == Progress(True, 0.0, True)


async def test_a_reactor_that_nobody_turns_is_told(monkeypatch):
    monkeypatch.setattr(progress, "TURN_TIMEOUT_S", 0.0)
    reactor = WatchedReactor()
    watch = ProgressWatch(Executor(PLAIN, 1, ScriptedModel(), Lead(reactor)), reactor)
    assert await watch.ask() == Progress(False, 0.0, False)
    # The question that came too late harms nobody.
    reactor.turn(0)
    reactor.close()
