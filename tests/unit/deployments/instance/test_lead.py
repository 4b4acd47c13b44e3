# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who turns the reactor: lanes are served whatever the model does, and it sees one thread."""

import asyncio
import contextlib
import itertools
import os
import threading

import pytest

from backends.api.errors import RequestCancelledError, UnavailableError
from backends.api.model_config import DynamicBatching, ModelConfig, QueuePolicy
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.client import LaneClient
from deployments.lane.server import LaneServer
from deployments.metrics import counters as statistics
from deployments.slabs.pool import SlabPool
from tests.support.lane_requests import (
    RunningExecutor,
    ScriptedModel,
    echo,
    lane_request,
    outcome,
    running,
)
from tests.support.lane_rig import SECRET, Sink, inflight_count, request_of, until

PLAIN = ModelConfig("m", max_batch_size=8)
DECOUPLED = ModelConfig("m", max_batch_size=8, decoupled=True)
_names = itertools.count()


class Clock:
    """Stands still unless told, so that nothing seems to take time."""

    def __init__(self) -> None:
        self.now_ns = 1

    def __call__(self) -> int:
        return self.now_ns


class Lanes:
    """A served executor and a lane to it."""

    def __init__(self, executor: RunningExecutor) -> None:
        self.executor = executor
        self.slabs = SlabPool()
        self.uds = f"\0manta-leading-{os.getpid()}-{next(_names)}"
        self.server = LaneServer(self, reactor=executor.reactor, secret=SECRET, slabs=self.slabs)

    def received(self, requests) -> None:
        self.executor.executor.received(requests)

    def cancelled(self, request) -> None:
        self.executor.executor.look_again()

    def call(self, method: str, payload: bytes) -> bytes:
        assert method == "statistics"
        return statistics.encode(self.executor.statistics())

    async def connect(self) -> LaneClient:
        endpoint = InstanceEndpoint("m/1#0", "", "node", self.uds, ("", 0))
        return await LaneClient(
            endpoint, same_node=True, secret=SECRET, slabs=self.slabs, on_lost=lambda *_: None
        ).open()


@contextlib.asynccontextmanager
async def served(config: ModelConfig, model: ScriptedModel):
    async with running(config, model) as executor:
        lanes = Lanes(executor)
        lanes.server.start(lanes.uds)
        try:
            yield lanes
        finally:
            model.gate.set()
            executor.reactor.submit(lanes.server.close).result(30)
            lanes.slabs.close()


async def answer(sink: Sink) -> None:
    async with asyncio.timeout(30):
        await sink.ended


async def test_lanes_are_served_while_the_model_blocks():
    policy = QueuePolicy(max_queue_size=2)
    config = ModelConfig(
        "m", max_batch_size=8, dynamic_batching=DynamicBatching(default_queue_policy=policy)
    )
    model = ScriptedModel(held=True)
    async with served(config, model) as lanes:
        lane = await lanes.connect()
        held, cancelled, queued, rejected = (Sink() for _ in range(4))
        lane.submit(request_of(4, 4), held)
        assert await asyncio.to_thread(model.entered.wait, 30)
        # Each of these needs somebody who reads the lane.
        counters = statistics.decode(await lane.call("statistics", b"", 30))
        assert counters.execution_count == 1
        inflight = lane.submit(request_of(4, 4), cancelled)
        lane.submit(request_of(4, 4), queued)
        lane.submit(request_of(4, 4), rejected)
        await answer(rejected)
        assert isinstance(rejected.error, UnavailableError)
        inflight.cancel()
        other = await lanes.connect()
        assert statistics.decode(await other.call("statistics", b"", 30)).pending_count == 2
        assert not held.ended.done()
        model.gate.set()
        for sink in (held, cancelled, queued):
            await answer(sink)
        assert held.error is None
        assert queued.error is None
        assert isinstance(cancelled.error, RequestCancelledError)
        lane.close()
        other.close()
    assert len(model.threads) == 1
    assert model.sizes == [1, 1]


async def test_a_lane_lost_while_the_model_blocks_cancels_its_requests():
    model = ScriptedModel(held=True)
    async with served(PLAIN, model) as lanes:
        lane = await lanes.connect()
        lane.submit(request_of(4), Sink())
        assert await asyncio.to_thread(model.entered.wait, 30)
        assert inflight_count(lanes.server) == 1
        lane.close()
        await until(lambda: not inflight_count(lanes.server))
        model.gate.set()
        other = await lanes.connect()
        sink = Sink()
        other.submit(request_of(4), sink)
        await answer(sink)
        assert sink.error is None
        other.close()
    assert len(model.threads) == 1


@pytest.mark.parametrize("is_large", [False, True])
async def test_a_lane_carries_many_requests_at_once(is_large):
    model = ScriptedModel()
    size = 300_000 if is_large else 16
    async with served(PLAIN, model) as lanes:
        lane = await lanes.connect()
        sinks = [Sink() for _ in range(40)]
        for n, sink in enumerate(sinks):
            request = request_of(size, size, fill=bytes([n]))
            lane.submit(InferenceRequest("m", 1, inputs=request.inputs), sink)
        for n, sink in enumerate(sinks):
            await answer(sink)
            outputs = sink.responses[0].outputs
            assert [bytes(each.data) for each in outputs] == [bytes([n]) * size] * 2
        lane.close()
    assert len(model.threads) == 1


async def test_a_fast_model_needs_no_other_thread():
    model = ScriptedModel()
    async with running(PLAIN, model, Clock()) as executor:
        for _ in range(20):
            request = lane_request()
            executor.received([request])
            await outcome(request)
        assert executor.reactor.threads == model.threads


async def test_a_slow_model_is_followed_from_the_start_until_it_is_fast_again():
    clock = Clock()
    turning = []

    def slow(batch):
        clock.now_ns += 2_000_000
        echo(batch)

    def slow_and_followed(batch):
        # Only somebody else can run this, and the clock stands still meanwhile.
        turning.append(executor.reactor.submit(threading.get_ident).result(30))
        slow(batch)

    model = ScriptedModel(slow)
    async with running(PLAIN, model, clock) as executor:

        async def execute(count, script):
            model.script = script
            for _ in range(count):
                request = lane_request()
                executor.received([request])
                assert isinstance(await outcome(request), InferenceResponse)

        await execute(8, slow)
        await execute(3, slow_and_followed)
        assert not set(turning) & model.threads
        # And it keeps the lead between executions.
        assert executor.reactor.submit(threading.get_ident).result(30) == turning[-1]
        await execute(8, echo)
        assert {executor.reactor.submit(threading.get_ident).result(30)} == model.threads


async def test_the_follower_takes_over_when_an_execution_lasts():
    clock = Clock()
    turning = []

    def script(batch):
        # Long by the clock that the follower looks at; it looks again within a millisecond.
        clock.now_ns += 1_000_001
        turning.append(executor.reactor.submit(threading.get_ident).result(30))
        echo(batch)

    model = ScriptedModel(script)
    async with running(PLAIN, model, clock) as executor:
        for _ in range(5):
            request = lane_request()
            executor.received([request])
            assert isinstance(await outcome(request), InferenceResponse)
    assert len(turning) == 5
    assert not set(turning) & model.threads
    assert len(model.threads) == 1


async def test_lanes_are_served_while_the_model_closes():
    model = ScriptedModel()
    may_close = threading.Event()

    async with running(PLAIN, model) as executor:
        closing = model.close

        def close():
            assert may_close.wait(30)
            closing()

        model.close = close
        assert not await executor.close(0)
        late = lane_request()
        executor.received([late])
        assert isinstance(await outcome(late), UnavailableError)
        may_close.set()
        assert await executor.close(30)
    assert len(model.threads) == 1


@pytest.mark.parametrize("is_held", [False, True], ids=["while idle", "while executing"])
async def test_no_response_of_many_streaming_threads_is_lost(is_held):
    count, thread_count = 200, 6
    threads = []

    def stream(request):
        for n in range(count):
            request.respond(InferenceResponse("", "", str(n)), final=False)
        request.respond(None, final=True)

    def script(batch):
        mine = [threading.Thread(target=stream, args=(each,)) for each in batch.requests]
        threads.extend(mine)
        for thread in mine:
            thread.start()
        if is_held:
            for thread in mine:
                thread.join()

    model = ScriptedModel(script)
    async with running(DECOUPLED, model) as executor:
        requests = [lane_request(id=str(n)) for n in range(thread_count)]
        for request in requests:
            executor.received([request])
        for request in requests:
            await outcome(request)
            assert len(request.outcomes) == count + 1
        assert executor.inflight_count == 0
        for thread in threads:
            thread.join()
