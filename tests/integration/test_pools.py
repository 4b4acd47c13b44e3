# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A pool of four instances behind two ingresses has one queue, whoever of them dies."""

import asyncio
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from tests.faults.ingresses import holds_queues
from tests.faults.models import BUSY, Shape, write_model
from tests.faults.report import Rule, judge, table
from tests.faults.scene import INGRESS, Options, Scene
from tests.faults.table import FAULTS
from tests.support.busy_clients import OK, BusyClients
from tests.support.model_folders import write_folder
from tests.support.server import RunningServer
from tests.support.shared_server import brought

SLEEPER = """
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        values = [pb_utils.get_input_tensor_by_name(each, "SECONDS") for each in requests]
        time.sleep(max(float(each.as_numpy().max()) for each in values))
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.as_numpy())])
            for each in values
        ]
"""
SLEEPER_CONFIG = """
backend: "python" max_batch_size: 8
input { name: "SECONDS" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }
dynamic_batching { default_queue_policy { max_queue_size: 16 } }
instance_group { kind: KIND_CPU count: 4 }
"""
SHAPE = Shape(execution_s=0.02, max_queue_delay_us=100_000)
LONG_S, SHORT_S = 3.0, 0.001
BURST = 200

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    models = tmp_path_factory.mktemp("pools")
    write_model(models, BUSY, SHAPE)
    write_folder(models, "sleeper", SLEEPER_CONFIG, SLEEPER)
    return models


@pytest.fixture(scope="module")
def server(surface: RunningServer, repository: Path) -> Iterator[RunningServer]:
    with brought(surface, repository) as running:
        yield running


def sleep_request(seconds: float) -> service_pb2.ModelInferRequest:
    request = service_pb2.ModelInferRequest(model_name="sleeper")
    request.inputs.add(name="SECONDS", datatype="FP32", shape=[1, 1])
    request.raw_input_contents.append(np.array([seconds], np.float32).tobytes())
    return request


def channels(address: str, count: int = 8) -> list[grpc.Channel]:
    """Connect so often that both ingresses have some of the connections."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    return [grpc.insecure_channel(address, options) for _ in range(count)]


def statistics(server: RunningServer, model: str) -> Any:
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        (row,) = client.get_inference_statistics(model).model_stats
        return row


def pending(server: RunningServer, model: str) -> int:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    pattern = rf'nv_inference_pending_request_count{{model="{model}",version="1"}} (\d+)'
    (count,) = re.findall(pattern, page)
    return int(count)


def test_short_requests_do_not_wait_behind_long_ones(server: RunningServer) -> None:
    opened = channels(server.grpc)
    stubs = [GRPCInferenceServiceStub(channel) for channel in opened]
    for stub in stubs:
        stub.ModelInfer(sleep_request(SHORT_S), timeout=30)
    long = []
    for stub in stubs[:3]:
        long.append(stub.ModelInfer.future(sleep_request(LONG_S), timeout=30))
        time.sleep(0.05)  # else they are one batch
    took_s = []
    for at in range(40):
        begin_s = time.monotonic()
        stubs[at % len(stubs)].ModelInfer(sleep_request(SHORT_S), timeout=30)
        took_s.append(time.monotonic() - begin_s)
    assert not any(each.done() for each in long), "the machine is too slow for this test"
    assert max(took_s) < LONG_S / 2
    for each in long:
        each.result()
    for channel in opened:
        channel.close()


async def burst(server: RunningServer) -> tuple[list[str], int]:
    """Send many requests at once; return how each ended, and how many waited meanwhile."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    opened = [grpc.aio.insecure_channel(server.grpc, options) for _ in range(8)]
    stubs = [GRPCInferenceServiceStub(channel) for channel in opened]
    await asyncio.gather(*(stub.ModelInfer(sleep_request(SHORT_S)) for stub in stubs))

    async def ask(at: int) -> str:
        try:
            await stubs[at % len(stubs)].ModelInfer(sleep_request(LONG_S), timeout=60)
        except grpc.aio.AioRpcError as error:
            return error.details() or ""
        return OK

    requests = [asyncio.create_task(ask(at)) for at in range(BURST)]
    # What is refused is so at once; of what is not, nothing ends before an execution does.
    await asyncio.wait(requests, timeout=LONG_S / 2)
    waiting = await asyncio.to_thread(pending, server, "sleeper")
    ended = await asyncio.gather(*requests)
    for channel in opened:
        await channel.close()
    return ended, waiting


def test_the_bound_of_the_queue_and_its_counts_are_those_of_the_pool(
    server: RunningServer,
) -> None:
    before = statistics(server, "sleeper").inference_stats
    ended, waiting = asyncio.run(burst(server))
    after = statistics(server, "sleeper").inference_stats
    accepted = ended.count(OK)
    assert {"Exceeds maximum queue size"} == {
        "Exceeds maximum queue size" if "Exceeds maximum queue size" in each else each
        for each in ended
        if each != OK
    }
    assert 16 + 4 <= accepted <= 16 + 4 * 8
    assert waiting == 16
    assert after.fail.count - before.fail.count == BURST - accepted
    assert after.queue.count - before.queue.count == accepted + 8
    waited_s = (after.queue.ns - before.queue.ns) / 1e9
    assert 16 * LONG_S * 0.6 < waited_s < 16 * LONG_S * 1.2 + 8
    assert pending(server, "sleeper") == 0


def test_both_ingresses_requests_share_batches_and_deaths_cost_nothing(
    server: RunningServer, repository: Path
) -> None:
    assert sum(holds_queues(each) for each in server.processes(INGRESS)) == 1
    clients = BusyClients(server.http, server.grpc, BUSY, concurrency=32, patience_s=30)
    try:
        clients.wait_warm(5, 60)
        before = statistics(server, BUSY)
        clients.wait_warm(25, 60)
        after = statistics(server, BUSY)
        executions = after.execution_count - before.execution_count
        assert (after.inference_count - before.inference_count) / executions > 6.5
        for name in ("sigkill-instance", "sigkill-holder"):
            scene = Scene(server, clients, repository, Options(), SHAPE, watch_s=60.0)
            FAULTS[name].inject(scene)
            time.sleep(0.5)  # the load goes on for a while
            report = judge(name, Rule(refuses=True), scene.observe(clients.outcomes()))
            assert report.is_kept, "\n" + table([report])
            assert report.ok > 0
    finally:
        clients.stop()
