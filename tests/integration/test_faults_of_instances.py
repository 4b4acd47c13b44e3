# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An instance whose execution thread dies, or whose model hangs, is replaced and says why."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.support.model_folders import write_folder
from tests.support.server import RunningServer

# Breaks a part of the server in the process it runs in, or hangs.
MODEL = """
import threading
import numpy as np
import triton_python_backend_utils as pb_utils
from deployments.metrics.counters import InstanceStatistics


def fail(*_):
    raise MemoryError("injected")


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            if value[0] == 1:
                InstanceStatistics.record_execution = fail
            if value[0] == 2:
                threading.Event().wait()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value)]))
        return responses
"""
CONFIG = """
name: "frail" backend: "python"
input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
parameters { key: "execution_timeout_us" value { string_value: "500000" } }
"""
BREAKS, HANGS = 1, 2


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    models = tmp_path_factory.mktemp("frail")
    write_folder(models, "frail", CONFIG, MODEL)
    server = RunningServer(Path(models), "--exit-timeout-secs=2")
    yield server
    assert server.terminate() == 0


def infer(client: triton_http.InferenceServerClient, value: int) -> int:
    tensor = triton_http.InferInput("IN", [1], "INT32")
    tensor.set_data_from_numpy(np.array([value], np.int32))
    return int(client.infer("frail", [tensor]).as_numpy("OUT")[0])


def answers(client: triton_http.InferenceServerClient) -> bool:
    try:
        return infer(client, 0) == 0
    except InferenceServerException:
        # The only instance is away.
        return False


@pytest.mark.long
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (BREAKS, "execution thread died: MemoryError: injected"),
        (HANGS, "execution of model 'frail' took longer than execution_timeout_us=500000"),
    ],
    ids=["execution thread dies", "model hangs"],
)
def test_an_instance_at_fault_is_replaced_and_the_index_says_why(
    running: RunningServer, value: int, reason: str
) -> None:
    pause = threading.Event()
    with triton_http.InferenceServerClient(running.http, network_timeout=60) as client:
        assert infer(client, 0) == 0
        reasons: list[str] = []
        over = threading.Event()

        def watch() -> None:
            with triton_http.InferenceServerClient(running.http) as watcher:
                while not over.is_set():
                    (row,) = watcher.get_model_repository_index()
                    reasons.append(row.get("reason", ""))
                    pause.wait(0.02)

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            with pytest.raises(InferenceServerException):
                infer(client, value)
            while not answers(client):
                pause.wait(0.1)
        finally:
            over.set()
            watching.join()
    assert any(reason in each for each in reasons), set(reasons)
