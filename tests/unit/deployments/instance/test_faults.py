# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Faults of our own parts end the process; errors that concern one batch fail that batch only."""

import asyncio
import itertools
import os
import queue
import sys

import numpy as np

from backends.api.errors import InternalError
from backends.api.model_config import DynamicBatching, ModelConfig, ModelInput, QueuePolicy
from backends.api.request import InferenceResponse, Tensor, tensor_from_numpy
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.ending import Ending
from deployments.lane.client import LaneClient
from deployments.lane.server import LaneServer
from deployments.metrics.counters import InstanceStatistics
from deployments.slabs.pool import SlabPool
from tests.support.lane_requests import (
    RunningExecutor,
    ScriptedModel,
    lane_request,
    outcome,
    running,
)
from tests.support.lane_rig import SECRET, Sink, request_of

PLAIN = ModelConfig("m", max_batch_size=8)
_names = itertools.count()


class BrokenStatistics(InstanceStatistics):
    """Fails where nothing of a model is at fault."""

    __slots__ = ()

    def record_execution(self, *_) -> None:
        raise MemoryError("no room to count")


async def fault(executor: RunningExecutor) -> str:
    assert await asyncio.to_thread(executor.has_faults.wait, 30)
    what, error = executor.faults[0]
    return f"{what}: {type(error).__name__}: {error}"


async def test_an_error_outside_the_models_code_is_a_fault_of_the_execution_thread():
    model = ScriptedModel()
    broken = BrokenStatistics()
    async with running(PLAIN, model, is_faulty=True, statistics=broken) as executor:
        request = lane_request()
        executor.received([request])
        assert await fault(executor) == "execution thread died: MemoryError: no room to count"
        # Whether it was counted and answered is not known: its lane's end is its answer.
        assert request.outcomes == []
        assert await executor.close(30)
    assert not model.is_closed


async def test_the_follower_turns_the_reactor_after_the_execution_thread_died():
    broken = BrokenStatistics()
    async with running(PLAIN, ScriptedModel(), is_faulty=True, statistics=broken) as executor:
        executor.received([lane_request()])
        await fault(executor)
        assert executor.reactor.submit(int, "7").result(30) == 7


async def test_what_ends_the_execution_thread_in_a_turn_is_a_fault():
    async with running(PLAIN, ScriptedModel(), is_faulty=True) as executor:
        executor.reactor.call_soon_threadsafe(sys.exit, 3)
        assert await fault(executor) == "execution thread died: SystemExit: 3"


async def test_what_ends_the_follower_is_a_fault():
    model = ScriptedModel(held=True)
    async with running(PLAIN, model, is_faulty=True) as executor:
        executor.received([lane_request()])
        assert await asyncio.to_thread(model.entered.wait, 30)
        executor.reactor.call_soon_threadsafe(sys.exit, 3)
        assert await fault(executor) == "follower thread died: SystemExit: 3"


async def test_a_scheduler_that_fails_to_queue_is_a_fault():
    policy = DynamicBatching(priority_levels=2, default_priority_level=1)
    config = ModelConfig("m", max_batch_size=8, dynamic_batching=policy)
    async with running(config, ScriptedModel(), is_faulty=True) as executor:
        executor.received([lane_request(priority="high")])
        assert (await fault(executor)).startswith("queueing of requests failed: TypeError: ")


async def test_a_scheduler_that_fails_to_expire_is_a_fault():
    rules = QueuePolicy(default_timeout_us=500_000, allow_timeout_override=True)
    batching = DynamicBatching(default_queue_policy=rules)
    config = ModelConfig("m", max_batch_size=8, dynamic_batching=batching)
    model = ScriptedModel(held=True)
    async with running(config, model, is_faulty=True) as executor:
        executor.received([lane_request()])
        assert await asyncio.to_thread(model.entered.wait, 30)
        queued = lane_request(timeout_us=400_000)
        executor.received([queued])
        queued.request.timeout_us = "soon"
        assert (await fault(executor)).startswith("expiry of requests failed: TypeError: ")
        queued.request.timeout_us = 0


async def test_inputs_that_cannot_be_padded_fail_their_batch_only(caplog):
    config = ModelConfig(
        "m",
        max_batch_size=8,
        dynamic_batching=DynamicBatching(),
        input=(ModelInput("IN", "FP32", (-1,)),),
        parameters={"shape_buckets.IN": "4,8"},
    )
    model = ScriptedModel()
    async with running(config, model) as executor:
        torn = lane_request(inputs=[Tensor("IN", "FP32", (1, 3), memoryview(b"torn"))])
        executor.received([torn])
        error = await outcome(torn)
        assert isinstance(error, InternalError)
        assert error.message.startswith(
            "inputs of model 'm' could not be padded to their shape buckets: ValueError: "
        )
        whole = lane_request(inputs=[tensor_from_numpy("IN", np.zeros((1, 3), np.float32))])
        executor.received([whole])
        assert isinstance(await outcome(whole), InferenceResponse)
        assert executor.statistics().fail_count["BACKEND"] == 1
    assert model.sizes == [1]
    assert "could not be padded" in caplog.text


class _Handler:
    def __init__(self, executor: RunningExecutor) -> None:
        self.received = executor.executor.received

    def cancelled(self, request) -> None:
        pass


async def test_routers_see_the_lane_close_and_their_requests_unanswered():
    async with running(
        PLAIN, ScriptedModel(), is_faulty=True, statistics=BrokenStatistics()
    ) as executor:
        slabs = SlabPool()
        exits: queue.Queue[int] = queue.Queue()
        server = LaneServer(
            _Handler(executor), reactor=executor.reactor, secret=SECRET, slabs=slabs
        )
        end = Ending("m", lambda: executor.reactor.submit(server.close), exits.put, 0.0)
        executor.on_fault = end.die
        uds = f"\0manta-faults-{os.getpid()}-{next(_names)}"
        server.start(uds)
        lost: asyncio.Future[list[object]] = asyncio.get_running_loop().create_future()
        lane = await LaneClient(
            InstanceEndpoint("m/1#0", "", "node", uds, ("", 0)),
            same_node=True,
            secret=SECRET,
            slabs=slabs,
            on_lost=lambda _lane, unanswered, *_: lost.set_result(list(unanswered)),
        ).open()
        sink = Sink()
        lane.submit(request_of(4, 4), sink)
        async with asyncio.timeout(30):
            assert len(await lost) == 1
        assert not sink.responses
        assert await asyncio.to_thread(exits.get, timeout=30) == 1
        slabs.close()
