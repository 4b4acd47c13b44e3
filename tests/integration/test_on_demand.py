# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sixty models load with their first use and five of them stay; no request is lost."""

import json
import random
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from tests.support.gates import amount
from tests.support.model_folders import write_folder
from tests.support.server import RunningServer, until

CAP = 5
# Three of five start a process.
REQUESTS = amount(100, 200, "MANTA_ON_DEMAND_REQUESTS")
MODELS = [f"m{at:02}" for at in range(60)]
CONFIG = """
backend: "identity" max_batch_size: 8
input {{ name: "X" data_type: TYPE_INT32 dims: [ 1 ] }}
output {{ name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }}
instance_group {{ kind: KIND_CPU count: {count} }}
"""
CHAIN = """
platform: "ensemble" max_batch_size: 8
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
ensemble_scheduling {
  step { model_name: "m58" model_version: -1
         input_map { key: "X" value: "X" } output_map { key: "Y" value: "between" } }
  step { model_name: "m59" model_version: -1
         input_map { key: "X" value: "between" } output_map { key: "Y" value: "Y" } }
}
"""
CALLER = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X")
            called = pb_utils.InferenceRequest(
                model_name="m57", requested_output_names=["Y"], inputs=[x]).exec()
            if called.has_error():
                responses.append(pb_utils.InferenceResponse(error=called.error()))
                continue
            y = pb_utils.Tensor("Y", called.output_tensors()[0].as_numpy())
            responses.append(pb_utils.InferenceResponse([y]))
        return responses
"""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("on_demand")
    for name in MODELS:
        write_folder(repository, name, CONFIG.format(count=2 if name == "m01" else 1))
    write_folder(repository, "chain", CHAIN)
    write_folder(repository, "caller", CONFIG.format(count=1).replace("identity", "python"))
    (repository / "caller" / "1" / "model.py").write_text(CALLER)
    running = RunningServer(
        repository,
        "--model-control-mode=ondemand",
        f"--ondemand-max-models={CAP}",
        "--ingress-per-node=2",
    )
    yield running
    assert running.terminate() == 0


def get(server: RunningServer, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"http://{server.http}{path}", data, timeout=180) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def over_http(server: RunningServer, name: str, value: int) -> int:
    tensor = {"name": "X", "datatype": "INT32", "shape": [1, 1], "data": [value]}
    answer = get(server, f"/v2/models/{name}/infer", {"inputs": [tensor]})
    return int(answer["outputs"][0]["data"][0])


def over_grpc(server: RunningServer, name: str, value: int) -> int:
    request = service_pb2.ModelInferRequest(model_name=name)
    request.inputs.add(name="X", datatype="INT32", shape=[1, 1])
    request.raw_input_contents.append(np.array([value], np.int32).tobytes())
    with grpc.insecure_channel(server.grpc) as channel:
        answer = GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=180)
    return int(np.frombuffer(answer.raw_output_contents[0], np.int32)[0])


def index(server: RunningServer) -> dict[str, str]:
    """Return by model: ``dormant``, or nothing for one with instances."""
    rows = get(server, "/v2/repository/index", {})
    assert {row["state"] for row in rows} == {"READY"}
    return {row["name"]: row.get("reason", "") for row in rows}


def instances(server: RunningServer, name: str) -> list[psutil.Process]:
    """Return the processes of a model's instances; Ray has a say in their titles."""
    return server.processes(f"ray::{name}/") + server.processes(f"manta: {name}/")


def put_to_rest(server: RunningServer, name: str) -> None:
    """Use others until a model rests, which may be too busy to be asked at first."""
    deadline_s = time.monotonic() + 120
    is_resident = True
    while is_resident:
        assert time.monotonic() < deadline_s
        for other in MODELS[40 : 40 + CAP]:
            over_http(server, other, 0)
        is_resident = index(server)[name] != "dormant"


def executions(server: RunningServer, name: str) -> int:
    (row,) = get(server, f"/v2/models/{name}/versions/1/stats")["model_stats"]
    return int(row["inference_count"])


def at_once(server: RunningServer, name: str, count: int = 100) -> list[int]:
    """Send requests at once, half of them over gRPC; return what they were answered."""
    with ThreadPoolExecutor(count) as threads:
        calls = [
            threads.submit(over_grpc if at % 2 else over_http, server, name, at)
            for at in range(count)
        ]
        return [call.result() for call in calls]


def test_nothing_is_loaded_before_it_is_used_and_all_is_ready(server: RunningServer) -> None:
    assert set(index(server).values()) == {"dormant"}
    get(server, "/v2/health/ready")
    get(server, "/v2/models/m10/ready")
    assert index(server)["m10"] == "dormant"
    assert not instances(server, "m10")


def test_metadata_of_a_model_that_was_never_loaded_loads_it(server: RunningServer) -> None:
    assert get(server, "/v2/models/m11")["inputs"][0]["name"] == "X"
    assert index(server)["m11"] == ""


def test_an_instance_starts_in_a_process_that_was_idle(server: RunningServer) -> None:
    def pids(found: list[psutil.Process]) -> set[int]:
        return {process.pid for process in found}

    def starts_in_an_idle_process(name: str) -> bool:
        until(lambda: server.processes("ray::IDLE"))
        idle, ending = pids(server.processes("ray::IDLE")), pids(instances(server, name))
        assert over_http(server, name, 1) == 1
        started = pids(instances(server, name)) - ending
        put_to_rest(server, name)
        return bool(started & idle)

    # What is idle may still be about to be ready, or be somebody else's.
    until(lambda: starts_in_an_idle_process("m12"), within_s=300)


@pytest.mark.parametrize("name", ["m00", "m01"])
def test_a_hundred_concurrent_first_requests_are_answered_once_each(
    server: RunningServer, name: str
) -> None:
    assert at_once(server, name) == list(range(100))
    assert executions(server, name) == 100
    put_to_rest(server, name)
    began_s = time.monotonic()
    assert over_http(server, name, 7) == 7
    report(f"{name}: first answer after its rest in {time.monotonic() - began_s:.3f} s")
    put_to_rest(server, name)
    get(server, f"/v2/models/{name}")
    get(server, f"/v2/models/{name}/config")
    get(server, f"/v2/models/{name}/ready")
    assert executions(server, name) == 101
    assert index(server)[name] == "dormant"
    assert at_once(server, name) == list(range(100))
    assert executions(server, name) == 201


def test_ensembles_and_models_that_call_models_wake_what_they_need(server: RunningServer) -> None:
    for _ in range(2):
        assert over_http(server, "chain", 3) == 3
        assert over_grpc(server, "caller", 4) == 4
        put_to_rest(server, "m57")
        put_to_rest(server, "m58")


@pytest.mark.long
def test_no_request_of_a_zipf_trace_over_sixty_models_is_lost(server: RunningServer) -> None:
    weights = [1 / rank for rank in range(1, len(MODELS) + 1)]
    names = random.Random(14).choices(MODELS, weights, k=REQUESTS)
    before = cold_starts(server)
    took_s: list[float] = []

    def call(at: int) -> int:
        began_s = time.monotonic()
        answer = (over_grpc if at % 2 else over_http)(server, names[at], at)
        took_s.append(time.monotonic() - began_s)
        return answer

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(call, range(len(names)))) == list(range(len(names)))
    starts = cold_starts(server) - before
    took_s.sort()
    report(
        f"{len(names)} requests, {len(Counter(names))} models, {starts} cold starts; p50"
        f" {took_s[len(took_s) // 2]:.4f} s, p99 {took_s[len(took_s) * 99 // 100]:.3f} s"
    )
    assert starts >= len(Counter(names)) - CAP

    def awake() -> int:
        return sum(reason != "dormant" for name, reason in index(server).items() if name != "chain")

    until(lambda: awake() <= CAP)


def report(line: str) -> None:
    """Show a number that was measured, with pytest's -s."""
    sys.stdout.write(line + "\n")


def cold_starts(server: RunningServer) -> int:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    rows = [line for line in lines if line.startswith("manta_cold_starts_total{")]
    return sum(int(line.rsplit(" ", 1)[1]) for line in rows)
