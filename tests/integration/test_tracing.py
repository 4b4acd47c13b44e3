# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Traces of a real server: files as Triton writes them, and spans for an OTLP receiver."""

import http.client
import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.conftest import write_add_sub
from tests.support.model_folders import write_folder
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.server import RunningServer
from tests.support.shared_server import brought

CONTEXT = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            context = request.trace().get_context() or ""
            out = pb_utils.Tensor("CONTEXT", np.array([context.encode()], dtype=np.object_))
            responses.append(pb_utils.InferenceResponse([out]))
        return responses
"""
CONTEXT_CONFIG = """
backend: "python"
input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "CONTEXT" data_type: TYPE_STRING dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
TALK = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            word = pb_utils.get_input_tensor_by_name(request, "WORD").as_numpy()[0].decode()
            pb_utils.Logger.log_info(f"talk says info {word}")
            pb_utils.Logger.log_warn(f"talk says warning {word}")
            pb_utils.Logger.log_verbose(f"talk says verbose {word}")
            responses.append(pb_utils.InferenceResponse([]))
        return responses
"""
TALK_CONFIG = """
backend: "python"
input [ { name: "WORD" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "NOTHING" data_type: TYPE_STRING dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
TWICE_CONFIG = """
platform: "ensemble"
max_batch_size: 8
input [ { name: "A" data_type: TYPE_INT32 dims: [ 16 ] } ]
output [ { name: "SUM" data_type: TYPE_INT32 dims: [ 16 ] } ]
ensemble_scheduling { step [ {
  model_name: "add_sub" model_version: -1
  input_map { key: "INPUT0" value: "A" } input_map { key: "INPUT1" value: "A" }
  output_map { key: "OUTPUT0" value: "SUM" } } ] }
"""
ASKS = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "A").as_numpy()
            inputs = [pb_utils.Tensor("INPUT0", a), pb_utils.Tensor("INPUT1", a)]
            for options in ({"trace": request.trace()}, {}):
                answer = pb_utils.InferenceRequest(
                    model_name="add_sub", requested_output_names=["OUTPUT0"], inputs=inputs,
                    **options).exec()
            out = pb_utils.get_output_tensor_by_name(answer, "OUTPUT0").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SUM", out)]))
        return responses
"""
ASKS_CONFIG = """
backend: "python"
max_batch_size: 8
input [ { name: "A" data_type: TYPE_INT32 dims: [ 16 ] } ]
output [ { name: "SUM" data_type: TYPE_INT32 dims: [ 16 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
COMPUTED = [
    "REQUEST_START",
    "QUEUE_START",
    "COMPUTE_START",
    "COMPUTE_INPUT_END",
    "COMPUTE_OUTPUT_START",
    "COMPUTE_END",
    "REQUEST_END",
]
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def add_sub(client: Any, module: Any, model: str = "add_sub", **options: Any) -> None:
    inputs = []
    for name in ("INPUT0", "INPUT1"):
        tensor = module.InferInput(name, [1, 16], "INT32")
        tensor.set_data_from_numpy(np.arange(16, dtype=np.int32).reshape(1, 16))
        inputs.append(tensor)
    client.infer(model, inputs, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def traced(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("traced")
    write_add_sub(repository, "add_sub")
    write_folder(repository, "twice", TWICE_CONFIG)
    write_folder(repository, "asks", ASKS_CONFIG, ASKS)
    (folder / "t.json").write_text("what an earlier server left")
    running = RunningServer(
        repository,
        "--ingress-per-node=2",
        f"--trace-config=triton,file={folder / 't.json'}",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=level=TENSORS",
        "--trace-config=rate=1",
    )
    yield running
    assert running.terminate() == 0


def by_id(file: Path) -> dict[int, dict[str, Any]]:
    """Return what a trace file says of each id."""
    traces: dict[int, dict[str, Any]] = {}
    for row in json.loads(file.read_text()):
        trace = traces.setdefault(row["id"], {"names": [], "instants": [], "tensors": []})
        for each in row.get("timestamps", ()):
            trace["names"].append(each["name"])
            trace["instants"].append(each["ns"])
        if "tensor" in row:
            trace["tensors"].append((row["activity"], row["tensor"]["name"], row["tensor"]["data"]))
        trace |= {key: row[key] for key in row if key not in {"timestamps", "tensor", "activity"}}
    return traces


@pytest.mark.long
def test_requests_of_every_ingress_are_in_one_file(traced: RunningServer, folder: Path) -> None:
    for _ in range(4):
        with triton_http.InferenceServerClient(traced.http) as client:
            add_sub(client, triton_http, request_id='over "http"')
        with triton_grpc.InferenceServerClient(traced.grpc) as client:
            add_sub(client, triton_grpc)
    with triton_http.InferenceServerClient(traced.http) as client:
        tensor = triton_http.InferInput("A", [1, 16], "INT32")
        tensor.set_data_from_numpy(np.ones((1, 16), np.int32))
        for model in ("twice", "asks"):
            client.infer(model, [tensor])
        # A change of the settings has what was taken before it written.
        client.update_trace_settings(settings={"trace_level": ["OFF"]})
        assert client.get_trace_settings()["trace_level"] == ["OFF"]
    wait_for(lambda: len(by_id(folder / "t.json")) == 12)
    traces = by_id(folder / "t.json")
    by_front: dict[str, list[dict[str, Any]]] = {}
    for trace in traces.values():
        assert trace["instants"] == sorted(trace["instants"])
        by_front.setdefault(trace["names"][0], []).append(trace)
    over_http = [each for each in by_front["HTTP_RECV_START"] if each["model_name"] == "add_sub"]
    assert len(over_http) == len(by_front["GRPC_WAITREAD_START"]) == 4
    for trace in over_http:
        assert (trace["model_version"], trace["request_id"]) == (1, 'over "http"')
        assert trace["names"] == [
            "HTTP_RECV_START",
            "HTTP_RECV_END",
            *COMPUTED,
            "INFER_RESPONSE_COMPLETE",
            "HTTP_SEND_START",
            "HTTP_SEND_END",
        ]
        numbers = ",".join(map(str, range(16)))
        assert trace["tensors"][0] == ("TENSOR_QUEUE_INPUT", "INPUT0", numbers)
        assert trace["tensors"][3][:2] == ("TENSOR_BACKEND_OUTPUT", "OUTPUT1")
    # Of the calls of a model those join its trace that it makes with that trace.
    parents = {each["model_name"]: each for each in traces.values() if each["names"] != COMPUTED}
    children = {each["parent_id"]: each for each in traces.values() if "parent_id" in each}
    ensemble = parents["twice"]
    assert children.keys() == {ensemble["id"], parents["asks"]["id"]}
    for child in children.values():
        assert (child["model_name"], child["names"]) == ("add_sub", COMPUTED)
    assert "COMPUTE_START" not in ensemble["names"]


def test_a_count_is_shared_by_all_ingresses(
    surface: RunningServer, traces: Path, tmp_path: Path
) -> None:
    write_add_sub(tmp_path, "traced")
    before = len(list(traces.glob("t.json.*")))
    names = {f"t.json.{before + number}" for number in range(3)}
    earlier = {each.name for each in traces.iterdir()}

    def written() -> set[str]:
        return {each.name for each in traces.iterdir()} - earlier

    with brought(surface, tmp_path), triton_grpc.InferenceServerClient(surface.grpc) as client:
        client.update_trace_settings(
            "traced",
            {
                "trace_level": ["TIMESTAMPS"],
                "trace_rate": "1",
                "trace_count": "3",
                "log_frequency": "1",
            },
        )
        for _ in range(5):
            add_sub(client, triton_grpc, "traced")
        wait_for(lambda: len(written()) == 3)
        assert written() == names
        for _ in range(6):
            with triton_grpc.InferenceServerClient(surface.grpc) as another:
                wait_for(lambda client=another: count_left(client) == 0)
                add_sub(another, triton_grpc, "traced")
        assert written() == names


def count_left(client: Any) -> int:
    shown = client.get_trace_settings("traced", as_json=True)["settings"]
    return int(shown["trace_count"]["value"][0])


@pytest.fixture(scope="module")
def talking(
    server: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("talking")
    write_folder(repository, "talk", TALK_CONFIG, TALK)
    with brought(server, repository) as running:
        yield running


def test_log_settings_take_effect_in_instances(talking: RunningServer, log: Path) -> None:
    with triton_http.InferenceServerClient(talking.http) as client:
        for settings, word in (
            ({}, "one"),
            ({"log_verbose_level": 1, "log_format": "ISO8601"}, "two"),
            ({"log_verbose_level": 0, "log_warning": False}, "three"),
        ):
            client.update_log_settings(settings)
            tensor = triton_http.InferInput("WORD", [1], "BYTES")
            tensor.set_data_from_numpy(np.array([word.encode()], np.object_))
            client.infer("talk", [tensor])
        client.update_log_settings({"log_format": "default", "log_warning": True})
    lines = [line for line in log.read_text().splitlines() if "talk says" in line]
    said = [line.partition("] ")[2] for line in lines]
    assert said == [
        '"talk says info one"',
        '"talk says warning one"',
        '"talk says info two"',
        '"talk says warning two"',
        '"talk says verbose two"',
        '"talk says info three"',
    ]
    assert [line[0] for line in lines] == ["I", "W", "2", "2", "2", "2"]


def test_a_load_report_that_cannot_be_is_logged_by_the_ingress(
    talking: RunningServer, log: Path
) -> None:
    connection = http.client.HTTPConnection(talking.http, timeout=20)
    headers = {"endpoint-load-metrics-format": "json"}
    connection.request(
        "POST", "/v2/models/talk/generate", json.dumps({"WORD": "load"}), headers=headers
    )
    answer = connection.getresponse()
    assert "endpoint-load-metrics" not in answer.headers
    connection.close()
    (line,) = (line for line in log.read_text().splitlines() if "endpoint-load-metrics" in line)
    assert line[0] == "E"


def test_latencies_are_shown_as_summaries_and_histograms(
    server: RunningServer, tmp_path: Path
) -> None:
    write_add_sub(tmp_path, "measured")
    with brought(server, tmp_path), triton_grpc.InferenceServerClient(server.grpc) as client:
        for _ in range(22):
            add_sub(client, triton_grpc, "measured")
        with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=20) as answer:
            page = answer.read().decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    summary = families["nv_inference_compute_infer_summary_us"]
    shown = {
        (each.name.rpartition("_")[2], each.labels.get("quantile")): each.value
        for each in summary.samples
        if each.labels["model"] == "measured"
    }
    assert shown["count", None] == 22
    assert 0 < shown["us", "0.5"] <= shown["us", "0.999"]
    histogram = families["nv_inference_first_response_histogram_ms"]
    totals = [
        each.value
        for each in histogram.samples
        if each.labels["model"] == "measured" and each.labels.get("le") == "+Inf"
    ]
    assert totals == [22]
    assert families["nv_cpu_memory_total_bytes"].samples[0].value > 0
    assert "nv_gpu_utilization" not in families


def wait_for(condition: Any) -> None:
    """Return once a condition holds; the test's time limit bounds it."""
    tick = threading.Event()
    while True:
        try:
            if condition():
                return
        except (FileNotFoundError, json.JSONDecodeError):
            pass
        tick.wait(0.05)


def test_spans_reach_an_otlp_receiver_and_join_their_callers(
    server: RunningServer, spans: OtlpReceiver, tmp_path: Path
) -> None:
    write_folder(tmp_path, "context", CONTEXT_CONFIG, CONTEXT)
    with brought(server, tmp_path):
        contexts = ask_for_contexts(server)
    found = spans_of(spans, 6)
    assert {span.trace_id.hex() for span in found} == {PARENT.split("-")[1]}
    named = {(span.name, span.span_id.hex()): span for span in found}
    for context, front in zip(contexts, ("HTTP_RECV_START", "GRPC_WAITREAD_START"), strict=True):
        assert context["tracestate"] == "k=v"
        model = named["context", context["traceparent"].split("-")[2]]
        attributes = {each.key: each.value for each in model.attributes}
        assert attributes["triton.model_name"].string_value == "context"
        assert attributes["triton.model_version"].int_value == 1
        assert attributes["triton.request_id"].string_value == "id"
        assert [event.name for event in model.events] == [COMPUTED[0], COMPUTED[1], COMPUTED[-1]]
        root = named["InferRequest", model.parent_span_id.hex()]
        assert root.parent_span_id.hex() == PARENT.split("-")[2]
        assert front in {event.name for event in root.events}
        (compute,) = (each for each in found if each.parent_span_id == model.span_id)
        assert compute.name == "compute"
        assert [event.name for event in compute.events] == COMPUTED[2:-1]
        assert root.start_time_unix_nano <= model.start_time_unix_nano
        assert model.end_time_unix_nano <= root.end_time_unix_nano


def ask_for_contexts(server: RunningServer) -> list[dict[str, str]]:
    """Return what the model is told of callers that trace, over HTTP and over gRPC."""
    contexts = []
    for module, address in ((triton_http, server.http), (triton_grpc, server.grpc)):
        with module.InferenceServerClient(address) as client:
            tensor = module.InferInput("IN", [1], "INT32")
            tensor.set_data_from_numpy(np.ones(1, np.int32))
            headers = {"traceparent": PARENT, "tracestate": "k=v"}
            # A rate of 0 traces only what callers trace.
            assert client.infer("context", [tensor]).as_numpy("CONTEXT")[0] == b""
            result = client.infer("context", [tensor], request_id="id", headers=headers)
            contexts.append(json.loads(result.as_numpy("CONTEXT")[0]))
    return contexts


def spans_of(receiver: OtlpReceiver, count: int) -> list[Any]:
    """Return all spans once there are so many, which are exported in the order of their traces."""
    spans: list[Any] = []
    while len(spans) < count:
        path, message = receiver.received.get(timeout=60)
        assert path == "/v1/traces"
        for group in message.resource_spans:
            told = {each.key: each.value.string_value for each in group.resource.attributes}
            assert (told["service.name"], told["site"]) == ("manta", "lab")
            spans += [span for scope in group.scope_spans for span in scope.spans]
    assert len(spans) == count
    return spans
