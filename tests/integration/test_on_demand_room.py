# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""With room for one model: another one waits until it is idle, or is told what holds the room."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from tests.support.model_folders import write_folder
from tests.support.server import RunningServer

WAIT_S = 5
CONFIG = """
backend: "{backend}" max_batch_size: 8
input {{ name: "X" data_type: TYPE_INT32 dims: [ 1 ] }}
output {{ name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }}
instance_group {{ kind: KIND_CPU count: 1 }}
"""
PINNED = 'parameters { key: "ondemand.pinned" value { string_value: "true" } }'
SLEEPER = """
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(3)
        xs = [pb_utils.get_input_tensor_by_name(each, "X").as_numpy() for each in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]) for x in xs]
"""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("on_demand_room")
    for name, text in (
        ("plain", CONFIG.format(backend="identity")),
        ("slow", CONFIG.format(backend="python")),
        ("pinned", CONFIG.format(backend="identity") + PINNED),
    ):
        write_folder(repository, name, text, SLEEPER if name == "slow" else "")
    running = RunningServer(
        repository,
        "--model-control-mode=ondemand",
        "--ondemand-max-models=1",
        f"--wake-timeout-secs={WAIT_S}",
        "--model-load-thread-count=2",
    )
    yield running
    assert running.terminate() == 0


def infer(server: RunningServer, name: str, value: int) -> int:
    tensor = {"name": "X", "datatype": "INT32", "shape": [1, 1], "data": [value]}
    body = json.dumps({"inputs": [tensor]}).encode()
    url = f"http://{server.http}/v2/models/{name}/infer"
    with urllib.request.urlopen(url, body, timeout=120) as answer:
        return int(json.loads(answer.read())["outputs"][0]["data"][0])


def patiently(server: RunningServer, name: str, value: int) -> int:
    """Send a request again as long as it is told to come back."""
    while True:
        try:
            return infer(server, name, value)
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
            time.sleep(int(error.headers["Retry-After"]))


def test_a_model_waits_while_the_one_that_has_the_room_executes(server: RunningServer) -> None:
    assert patiently(server, "slow", 1) == 1
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(patiently, server, "slow", 2)
        plain = threads.submit(patiently, server, "plain", 3)
        assert (slow.result(), plain.result()) == (2, 3)


def refused_over_http(server: RunningServer, name: str) -> str:
    with pytest.raises(urllib.error.HTTPError) as caught:
        infer(server, name, 5)
    assert caught.value.code == 503
    assert int(caught.value.headers["Retry-After"]) >= 1
    return str(json.loads(caught.value.read())["error"])


def refused_over_grpc(server: RunningServer, name: str) -> str:
    request = service_pb2.ModelInferRequest(model_name=name)
    request.inputs.add(name="X", datatype="INT32", shape=[1, 1])
    request.raw_input_contents.append(bytes(4))
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as failed:
        GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=120)
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    return str(failed.value.details())


def test_who_waited_too_long_is_told_what_holds_the_room(server: RunningServer) -> None:
    assert patiently(server, "pinned", 4) == 4
    for name, refused in (("plain", refused_over_http), ("slow", refused_over_grpc)):
        text, deadline_s = "", time.monotonic() + 100
        # It may have begun to wait before anybody had looked at the pinned one.
        while "'pinned' pinned (ondemand.pinned)" not in text:
            assert time.monotonic() < deadline_s, text
            text = refused(server, name)
            start = f"model '{name}' has no instance, and none has started within {WAIT_S} s: "
            assert text.startswith(start + "--ondemand-max-models=1 lets no more model versions")
