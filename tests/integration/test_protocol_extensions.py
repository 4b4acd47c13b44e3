# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Shared memory, generate, settings and restrictions as stock clients use them.

The server has two ingresses, and each client has its own connection, so what one ingress is told
has to be known to the other.
"""

import http.client
import json
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from manta_tools.perf.genai.command import main as genai_perf
from tests.integration.conftest import Guarded
from tests.integration.interop_models import write_patient, write_words
from tests.support.server import RunningServer, until
from tests.support.shared_server import brought


@pytest.fixture(scope="module")
def extended(
    surface: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("extended")
    write_words(repository)
    write_patient(repository)
    with brought(surface, repository) as running:
        yield running


def clients(server: RunningServer, module: Any) -> list[Any]:
    url = server.http if module is triton_http else server.grpc
    return [module.InferenceServerClient(url) for _ in range(6)]


@pytest.mark.parametrize("module", [triton_http, triton_grpc])
def test_tensors_make_a_round_trip_through_shared_memory(
    extended: RunningServer, module: Any
) -> None:
    key = f"/manta-test-{uuid.uuid4().hex}"
    name = module.__name__
    region = shm.create_shared_memory_region(name, key, 256)
    first, second = np.arange(16, dtype=np.int32), np.full(16, 2, np.int32)
    try:
        shm.set_shared_memory_region(region, [first, second])
        registering, *others = clients(extended, module)
        registering.register_system_shared_memory(name, key, 256)
        inputs = []
        for index in range(2):
            tensor = module.InferInput(f"INPUT{index}", [1, 16], "INT32")
            tensor.set_shared_memory(name, 64, 64 * index)
            inputs.append(tensor)
        outputs = [
            module.InferRequestedOutput("OUTPUT0"),
            module.InferRequestedOutput("OUTPUT1"),
        ]
        outputs[0].set_shared_memory(name, 64, 128)
        for count, client in enumerate(others):
            shm.set_shared_memory_region(region, [first + count, second])
            result = client.infer("add_sub", inputs, outputs=outputs)
            written = shm.get_contents_as_numpy(region, np.int32, [64])[32:48]
            assert written.tolist() == (first + count + 2).tolist()
            assert result.as_numpy("OUTPUT1").tolist() == [(first + count - 2).tolist()]
        others[0].unregister_system_shared_memory(name)
        for client in others:
            with pytest.raises(InferenceServerException, match="Unable to find shared memory"):
                client.infer("add_sub", inputs)
            client.close()
        registering.close()
    finally:
        shm.destroy_shared_memory_region(region)


def test_generate_stream_sends_one_event_per_response(extended: RunningServer) -> None:
    connection = http.client.HTTPConnection(extended.http, timeout=20)
    connection.request(
        "POST", "/v2/models/words/generate_stream", json.dumps({"text_input": "one two three"})
    )
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = [json.loads(event[6:]) for event in answer.read().decode().split("\n\n") if event]
    assert [event["text_output"] for event in events] == ["one", "two", "three"]
    connection.request("POST", "/v2/models/words/generate", json.dumps({"text_input": "one"}))
    assert json.loads(connection.getresponse().read())["text_output"] == "one"
    connection.close()


@pytest.mark.parametrize(
    ("kind", "url", "options"),
    [
        ("generate", "http", ("--streaming",)),
        ("kserve", "grpc", ("--streaming", "--backend", "vllm")),
        ("kserve", "grpc", ("--concurrency", "4")),
    ],
)
def test_tokens_of_a_decoupled_model_are_measured(
    extended: RunningServer, tmp_path: Path, kind: str, url: str, options: tuple[str, ...]
) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"text": "one two three"}\n{"text": "one two three four five"}')
    asked = ["-m", "words", "--endpoint-type", kind, "-u", getattr(extended, url)]
    files = ["--input-file", str(prompts), "--artifact-dir", str(tmp_path)]
    assert genai_perf(["profile", *asked, *files, *options, "--request-count", "10"]) == 0
    (path,) = tmp_path.glob("*/profile_export_genai_perf.json")
    found = json.loads(path.read_text())
    assert found["request_count"]["avg"] == 10
    assert found["input_sequence_length"]["avg"] == 4
    # Its words come without spaces: each answer is one long word, counted by its letters.
    assert found["output_sequence_length"]["avg"] == 2.5
    assert found["request_latency"]["avg"] > found["time_to_first_token"]["avg"]
    rows = json.loads((path.parent / "profile_export.json").read_text())["experiments"][0]
    assert {len(row["response_outputs"]) for row in rows["requests"]} == {3, 5}


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("infer", {"inputs": [{"name": "WAIT", "shape": [1], "datatype": "INT32", "data": [1]}]}),
        ("generate_stream", {"WAIT": 1}),
    ],
)
def test_a_client_that_goes_away_ends_its_requests_in_the_queue_and_in_the_model(
    extended: RunningServer, method: str, body: dict[str, Any]
) -> None:
    gone = [http.client.HTTPConnection(extended.http) for _ in range(3)]
    for connection in gone:
        connection.request("POST", f"/v2/models/patient/{method}", json.dumps(body))
    while pending_count(extended, "patient") < 2:
        assert extended.process.poll() is None
    for connection in gone:
        connection.close()
    # The model has one instance: it answers only when it is rid of the others.
    with triton_http.InferenceServerClient(extended.http) as client:
        wait = triton_http.InferInput("WAIT", [1], "INT32")
        wait.set_data_from_numpy(np.zeros(1, np.int32))
        assert client.infer("patient", [wait]).as_numpy("DONE") == [0]
    assert pending_count(extended, "patient") == 0


def pending_count(server: RunningServer, model: str) -> int:
    connection = http.client.HTTPConnection(server.metrics)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    start = f'nv_inference_pending_request_count{{model="{model}",version="1"}} '
    return sum(int(line.removeprefix(start)) for line in lines if line.startswith(start))


def test_settings_are_the_same_on_every_ingress(extended: RunningServer) -> None:
    with triton_grpc.InferenceServerClient(extended.grpc) as client:
        client.update_log_settings({"log_verbose_level": 1})
        client.update_trace_settings("add_sub", {"trace_rate": "7"})
    for client in clients(extended, triton_http):
        assert client.get_log_settings()["log_verbose_level"] == 1
        assert client.get_trace_settings("add_sub")["trace_rate"] == "7"
        assert client.get_trace_settings()["trace_rate"] == "1000"
        client.close()
    with triton_http.InferenceServerClient(extended.http) as client:
        client.update_log_settings({"log_verbose_level": 0})
        client.update_trace_settings("add_sub", {"trace_rate": None})


def test_the_server_prints_what_an_ingress_logs(extended: RunningServer) -> None:
    host, port = extended.http.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"not a request\r\n\r\n")
        with connection.makefile("rb") as answer:
            assert answer.read().startswith(b"HTTP/1.1 400 ")
    line = "an HTTP connection is closed: the request is not well-formed HTTP/1.1"
    until(lambda: any(line in each for each in extended.lines), "the line is not printed", 30)


def test_restricted_apis_need_their_header(guarded: Guarded) -> None:
    with triton_http.InferenceServerClient(guarded.server.http) as client:
        with pytest.raises(InferenceServerException, match="expecting header 'x-key'"):
            client.get_model_repository_index()
        assert client.get_model_repository_index(headers=guarded.header)
    with triton_grpc.InferenceServerClient(guarded.server.grpc) as client:
        with pytest.raises(InferenceServerException, match="triton-grpc-protocol-key"):
            client.get_model_repository_index()
        assert client.get_model_repository_index(headers={"triton-grpc-protocol-key": "s3cret"})


def test_register_of_an_absent_object_is_an_error(extended: RunningServer) -> None:
    with (
        triton_http.InferenceServerClient(extended.http) as client,
        pytest.raises(InferenceServerException, match="Unable to open shared memory region"),
    ):
        client.register_system_shared_memory("absent", "/manta-absent", 8)
    assert not Path("/dev/shm/manta-absent").exists()
