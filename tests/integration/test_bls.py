# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models that call models, on a real server. The model ``probe`` runs the code it is sent."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from tests.support.ensemble_models import DOUBLE, REPEAT
from tests.support.model_folders import write_folder
from tests.support.server import RunningServer
from tests.support.shared_server import brought

PROBE = """
import asyncio, json
import numpy as np
import triton_python_backend_utils as pb_utils

READY = True


def call(model, value=1, **fields):
    x = pb_utils.Tensor("X", np.array([[value]], np.int32))
    return pb_utils.InferenceRequest(
        model_name=model, requested_output_names=["Y"], inputs=[x], **fields)


def value(response):
    if response.has_error():
        return response.error().message()
    return [int(tensor.as_numpy().reshape(-1)[0]) for tensor in response.output_tensors()]


class TritonPythonModel:
    async def is_ready(self):
        return READY

    async def execute(self, requests):
        responses = []
        for request in requests:
            code = pb_utils.get_input_tensor_by_name(request, "CODE").as_numpy().reshape(-1)[0]
            scope = dict(globals())
            exec(code.decode(), scope)
            found = scope["run"]()
            if asyncio.iscoroutine(found):
                found = await found
            text = np.array([[json.dumps(found)]], dtype=np.object_)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("RESULT", text)]))
        return responses
"""
PROBE_CONFIG = """
backend: "python" max_batch_size: 8
input { name: "CODE" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "RESULT" data_type: TYPE_STRING dims: [ 1 ] }
"""
# Waits until its request is cancelled, or until it is killed.
WAIT = (
    DOUBLE
    + """
    def one(self, request):
        (self.folder / "waits").touch()
        for _ in range(6000):
            if request.is_cancelled():
                (self.folder / "cancelled").touch()
                break
            time.sleep(0.01)
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("stopped"))
"""
)
# Calls itself until X is 0.
TWIN = (
    DOUBLE
    + """
    def one(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        if x[0][0] > 0:
            called = pb_utils.InferenceRequest(
                model_name=self.name, requested_output_names=["Y"],
                inputs=[pb_utils.Tensor("X", x - 1)]).exec()
            if called.has_error():
                return pb_utils.InferenceResponse(error=called.error())
            x = pb_utils.get_output_tensor_by_name(called, "Y").as_numpy() + 1
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)])
"""
)
ENSEMBLE = """
platform: "ensemble" max_batch_size: 8
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
ensemble_scheduling { step [
  { model_name: "double" model_version: -1
    input_map { key: "X" value: "X" } output_map { key: "Y" value: "a" } },
  { model_name: "double" model_version: -1
    input_map { key: "X" value: "a" } output_map { key: "Y" value: "Y" } } ] }
"""


def _model(root: Path, name: str, code: str, config: str = "", count: int = 1) -> None:
    if code:
        config = config or (
            'backend: "python" max_batch_size: 8 '
            'input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] } '
            'output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] } '
        )
        config += f" instance_group [ {{ kind: KIND_CPU count: {count} }} ]"
    write_folder(root, name, f'name: "{name}" {config}', code)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the models of this module leave files; the repository lies in it."""
    folder = tmp_path_factory.mktemp("bls")
    root = folder / "models"
    _model(root, "probe", PROBE, PROBE_CONFIG)
    _model(root, "double", DOUBLE)
    _model(root, "wait", WAIT)
    _model(root, "alone", TWIN)
    _model(root, "twin", TWIN, count=2)
    _model(root, "later", DOUBLE)
    _model(root, "repeat", REPEAT)
    with (root / "repeat" / "config.pbtxt").open("a") as config:
        config.write(" model_transaction_policy { decoupled: true }")
    _model(root, "four", "", ENSEMBLE)
    return folder


@pytest.fixture(scope="module")
def running(surface: RunningServer, folder: Path) -> Iterator[RunningServer]:
    models = ("probe", "wait", "alone", "twin", "repeat", "four")
    with brought(surface, folder / "models", models) as server:
        yield server


def _code(client: object, code: str) -> list[object]:
    tensor = client.InferInput("CODE", [1, 1], "BYTES")  # type: ignore[attr-defined]
    tensor.set_data_from_numpy(np.array([[code.encode()]], dtype=np.object_))
    return [tensor]


def _run(server: RunningServer, code: str) -> object:
    with triton_http.InferenceServerClient(server.http, network_timeout=60) as client:
        result = client.infer("probe", _code(triton_http, code)).as_numpy("RESULT")
    return json.loads(result[0][0])


def _value(server: RunningServer, model: str, value: int, **fields: str) -> object:
    extra = "".join(f", {name}={text}" for name, text in fields.items())
    return _run(server, f"run = lambda: value(call({model!r}, {value}{extra}).exec())")


def test_a_model_calls_a_model_and_an_ensemble(running: RunningServer) -> None:
    assert _value(running, "double", 3) == [6]
    assert _value(running, "four", 3) == [12]


def test_calls_count_in_the_statistics_of_what_they_call(running: RunningServer) -> None:
    def count(model: str) -> int:
        with triton_http.InferenceServerClient(running.http) as client:
            (row,) = client.get_inference_statistics(model)["model_stats"]
        inferences: int = row["inference_count"]
        return inferences

    before = count("four"), count("double")
    _value(running, "four", 1)
    assert (count("four") - before[0], count("double") - before[1]) == (1, 2)


def test_a_models_own_metrics_are_on_the_metrics_page(running: RunningServer) -> None:
    code = """
import builtins
def run():
    builtins.kept = pb_utils.MetricFamily("answered_ms", "Time", pb_utils.MetricFamily.HISTOGRAM)
    metric = kept.Metric(labels={"model": "probe"}, buckets=[1.0, 2.5])
    metric.observe(2)
    metric.observe(3)
"""
    assert _run(running, code) is None
    with urllib.request.urlopen(f"http://{running.metrics}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    assert lines[lines.index("# HELP answered_ms Time") :][:7] == [
        "# HELP answered_ms Time",
        "# TYPE answered_ms histogram",
        'answered_ms_count{model="probe"} 2',
        'answered_ms_sum{model="probe"} 5',
        'answered_ms_bucket{model="probe",le="1"} 0',
        'answered_ms_bucket{model="probe",le="2.5"} 1',
        'answered_ms_bucket{model="probe",le="+Inf"} 2',
    ]
    assert _run(running, "import builtins\ndef run(): del builtins.kept") is None
    with urllib.request.urlopen(f"http://{running.metrics}/metrics") as answer:
        assert b"answered_ms" not in answer.read()


def test_a_model_says_itself_whether_it_is_ready(running: RunningServer) -> None:
    answered = []
    code = "import sys\ndef run(): vars(sys.modules[call.__module__])['READY'] = {}"
    with triton_http.InferenceServerClient(running.http) as client:
        for ready in ("False", "1", "True"):
            assert _run(running, code.format(ready)) is None
            answered.append(client.is_model_ready("probe"))
    with triton_grpc.InferenceServerClient(running.grpc) as grpc_client:
        assert grpc_client.is_model_ready("probe")
    assert answered == [False, False, True]


def test_many_calls_are_made_at_once(running: RunningServer) -> None:
    code = """
async def run():
    return [value(each) for each in await asyncio.gather(
        *(call("double", number).async_exec() for number in range(50)))]
"""
    assert _run(running, code) == [[2 * number] for number in range(50)]


def test_every_response_of_a_decoupled_model_comes(running: RunningServer) -> None:
    code = 'run = lambda: [value(each) for each in call("repeat", 5).exec(decoupled=True)]'
    assert _run(running, code) == [[5], [6], [7], []]


def test_errors_are_responses_in_tritons_words(running: RunningServer) -> None:
    assert _value(running, "nobody", 1) == (
        "Model nobody - Error when running inference: Failed for execute the inference request. "
        "Model 'nobody' is not ready."
    )
    assert "Please use 'decoupled=True' argument" in str(_value(running, "repeat", 1))
    assert _value(running, "double", 1, model_version="7") == (
        "Model double - Error when running inference: Failed for execute the inference request. "
        "Model 'double' is not ready."
    )


def test_a_pool_may_call_itself_but_an_only_instance_is_refused(running: RunningServer) -> None:
    assert _value(running, "twin", 1) == [1]
    assert "calls itself and has one instance" in str(_value(running, "alone", 1))


def test_models_are_loaded_and_unloaded(running: RunningServer) -> None:
    code = """
def run():
    found = [pb_utils.is_model_ready("later")]
    pb_utils.load_model("later")
    found += [pb_utils.is_model_ready("later"), value(call("later", 4).exec())]
    pb_utils.unload_model("later")
    return [*found, pb_utils.is_model_ready("later")]
"""
    assert _run(running, code) == [False, True, [8], False]


def test_a_model_that_is_killed_twice_is_one_clear_error(
    folder: Path, running: RunningServer
) -> None:
    answers: list[object] = []
    caller = threading.Thread(target=lambda: answers.append(_value(running, "wait", 1)))
    caller.start()
    # The first time the call is sent to the instance that follows.
    for _ in range(2):
        _wait_for(folder / "waits", caller)
        (folder / "waits").unlink()
        running.kill(_instance(running, "wait"))
    caller.join(60)
    (answer,) = answers
    assert "model 'wait'" in str(answer)


def test_a_clients_cancel_reaches_what_the_model_calls(
    folder: Path, running: RunningServer
) -> None:
    (folder / "waits").unlink(missing_ok=True)
    ended = threading.Event()
    with triton_grpc.InferenceServerClient(running.grpc) as client:
        code = """
def run():
    while True:
        found = value(call("wait").exec())
        if "instance" not in str(found) and "not ready" not in str(found):
            return found
"""
        inputs = _code(triton_grpc, code)
        call = client.async_infer("probe", inputs, lambda result, error: ended.set())
        _wait_for(folder / "waits")
        call.cancel()
        assert ended.wait(30)
        _wait_for(folder / "cancelled")


def _wait_for(path: Path, while_alive: threading.Thread | None = None) -> None:
    pause = threading.Event()
    for _ in range(6000):
        if path.exists():
            return
        assert while_alive is None or while_alive.is_alive()
        pause.wait(0.01)
    raise AssertionError(f"{path.name} did not come")


def _instance(server: RunningServer, model: str) -> psutil.Process:
    (found,) = server.processes(f"ray::{model}/1") or server.processes(f"manta: {model}/1")
    return found
