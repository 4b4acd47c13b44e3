# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One instance actor on a real Ray, spoken to as controller and router do."""

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import replace

import numpy as np
import psutil
import pytest
import ray
from ray.exceptions import RayActorError
from ray.experimental.internal_kv import _internal_kv_list

from backends.api.errors import TritonError, UnavailableError
from backends.api.request import (
    InferenceRequest,
    InferenceResponse,
    tensor_as_numpy,
    tensor_from_numpy,
)
from backends.config.pbtxt import parse_pbtxt
from cluster.actors.calls import call
from cluster.actors.file_registry import Rows
from cluster.actors.lane_secret import LANE_SECRET_KEY
from cluster.instances.actor_host import ActorHost
from cluster.instances.host import ActorLostError
from cluster.placement.nodes import read_cluster
from deployments.instance.actor import create_instance_actor
from deployments.instance.spec import NAMESPACE, InstanceDescription, InstanceSpec
from deployments.lane.client import LaneClient
from deployments.metrics import counters as statistics
from deployments.slabs.pool import SlabPool

SECRET = b"s" * 32
_KEPT = b"the one of the store"
CONFIG = """
name: "m" backend: "identity" max_batch_size: 8
input [{ name: "IN" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [-1] }]
dynamic_batching { }
"""


class Sink:
    def __init__(self) -> None:
        self.outcome: asyncio.Future[InferenceResponse | None] = asyncio.Future()

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        assert final
        self.outcome.set_result(response)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        assert final
        self.outcome.set_exception(error)


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, namespace=NAMESPACE)
    yield
    ray.shutdown()


def spec(name: str) -> InstanceSpec:
    return InstanceSpec(
        name=name,
        generation=1,
        model_name="m",
        version=1,
        index=0,
        instance_name="m_0_0",
        config=parse_pbtxt(CONFIG, "m/config.pbtxt"),
        auto_complete=True,
        model_dir="/nowhere/m",
        secret=SECRET,
    )


@contextlib.asynccontextmanager
async def lane_to(description: InstanceDescription, *, same_node: bool = True):
    slabs = SlabPool()
    lane = await LaneClient(
        description.endpoint,
        same_node=same_node,
        secret=SECRET,
        slabs=slabs,
        on_lost=lambda _lane, _orphans: None,
    ).open()
    try:
        yield lane
    finally:
        lane.close()
        slabs.close()


async def infer(lane: LaneClient, values: np.ndarray) -> np.ndarray:
    sink = Sink()
    lane.submit(InferenceRequest("m", inputs=[tensor_from_numpy("IN", values)]), sink)
    async with asyncio.timeout(20):
        response = await sink.outcome
    assert response is not None
    return tensor_as_numpy(response.outputs[0])


async def test_an_instance_serves_restarts_after_a_crash_and_ends():
    actor = create_instance_actor(spec("m/1#0@1"))
    description = await call(actor.describe.remote())
    assert description.config.dynamic_batching.preferred_batch_size == (8,)
    assert await call(actor.health.remote())
    watch = asyncio.ensure_future(call(actor.wait_closed.remote()))
    for same_node in (True, False):
        async with lane_to(description, same_node=same_node) as lane:
            for size in (4, 100_000):
                values = np.arange(size, dtype=np.float32).reshape(1, size)
                assert np.array_equal(await infer(lane, values), values)
            totals = statistics.decode(await lane.call("statistics", b"", 5))
    assert totals.success_count == 4
    assert (await call(actor.statistics.remote())).success_count == 4

    os.kill(description.pid, signal.SIGKILL)
    with pytest.raises(RayActorError):
        await watch
    after = await described_again(actor)
    assert after.endpoint.incarnation != description.endpoint.incarnation
    async with lane_to(after) as lane:
        assert (await infer(lane, np.ones((1, 2), np.float32))).shape == (1, 2)
        assert await call(actor.drain.remote(5.0))
        with pytest.raises(UnavailableError, match="has stopped accepting"):
            await infer(lane, np.ones((1, 2), np.float32))
    with pytest.raises(RayActorError):
        await call(actor.shutdown.remote())


async def described_again(actor: ray.actor.ActorHandle) -> InstanceDescription:
    deadline = time.monotonic() + 30
    while True:
        try:
            return await call(actor.describe.remote())
        except RayActorError:
            assert time.monotonic() < deadline


async def test_instances_are_titled_by_model_and_share_one_class():
    host = ActorHost(read_cluster)
    Rows().put(LANE_SECRET_KEY, _KEPT)
    for index in range(2):
        recipe = replace(spec(f"m/1#{index}@1"), index=index)
        handle = await host.create(recipe)
        description = await host.call(handle, "describe")
        # Of the store, as the arguments have none.
        assert description.spec.secret == _KEPT
        watch = asyncio.ensure_future(host.call(handle, "wait_closed"))
        assert await host.call(handle, "health")
        assert title_of(description.pid) in {f"ray::m/1#{index}", f"ray::m/1#{index}.wait_closed"}
        await host.kill(handle)
        with pytest.raises(ActorLostError):
            await watch
    exported = _internal_kv_list(b"ActorClass", namespace=b"fun")
    assert len(exported) == 1


def title_of(pid: int) -> str:
    return psutil.Process(pid).cmdline()[0]
