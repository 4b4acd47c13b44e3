# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What upstream expects of schedulers over the wire, with own models: cancellation, order, metrics.

``docs/scheduler-cases.md`` maps upstream's cases to these tests.
"""

import json
import queue
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.support.model_folders import write_folder
from tests.support.server import RunningServer, until
from tests.support.shared_server import brought

HEAD = """
import pathlib, time
import numpy as np
import triton_python_backend_utils as pb_utils

def value(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().item()

def answer(number):
    return pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([[number]], np.int32))])
"""
# Holds each request until the test lets the model go, or until the request is cancelled.
HOLD = """
class TritonPythonModel:
    def initialize(self, args):
        self.name = args["model_name"]
        self.folder = pathlib.Path(args["model_repository"]).resolve().parent.parent

    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        (self.folder / f"{self.name}.entered").touch()
        while not (self.folder / f"{self.name}.go").exists():
            if request.is_cancelled():
                (self.folder / f"{self.name}.cancelled").touch()
                return pb_utils.InferenceResponse(
                    error=pb_utils.TritonError("gone", pb_utils.TritonError.CANCELLED))
            time.sleep(0.005)
        return answer(value(request, "X"))
"""
ECHO = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(value(request, "X")) for request in requests]
"""
COUNTDOWN = """
class TritonPythonModel:
    def initialize(self, args):
        self.left = {}

    def execute(self, requests):
        for request in requests:
            key = request.correlation_id()
            self.left[key] = self.left.get(key, value(request, "X")) - 1
            sender = request.get_response_sender()
            if self.left[key]:
                sender.send(answer(self.left[key]))
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            else:
                sender.send(answer(0), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
TENSORS = """
max_batch_size: %d
input [ { name: "X" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] } ]
"""
STEP = """
platform: "ensemble"
ensemble_scheduling { step [ { model_name: "%s" model_version: -1
  input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } } ] }
"""
IDLE = "max_sequence_idle_microseconds: 60000000"
MODELS = {
    "dynamic": (1, "dynamic_batching { }", HOLD),
    "step": (1, "dynamic_batching { }", HOLD),
    "ensemble": (1, STEP % "step", ""),
    "direct": (1, f"sequence_batching {{ direct {{ }} {IDLE} }}", HOLD),
    "oldest": (1, f"sequence_batching {{ oldest {{ max_candidate_sequences: 4 }} {IDLE} }}", HOLD),
    "ordered": (
        4,
        "sequence_batching { oldest { max_candidate_sequences: 10 preserve_ordering: true } }",
        ECHO,
    ),
    "countdown": (
        4,
        "model_transaction_policy { decoupled: true } "
        "sequence_batching { iterative_sequence: true }",
        COUNTDOWN,
    ),
    "impatient": (
        8,
        "dynamic_batching { preferred_batch_size: [ 8 ] max_queue_delay_microseconds: 60000000 "
        "default_queue_policy { default_timeout_microseconds: 1000 } }",
        ECHO,
    ),
    "impatient_ensemble": (8, STEP % "impatient", ""),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where models and tests leave files for each other; the repository lies in it."""
    folder = tmp_path_factory.mktemp("cases")
    for name, (size, config, code) in MODELS.items():
        text = TENSORS % size + config
        if code:
            text += ' backend: "python" instance_group [ { kind: KIND_CPU } ]'
        write_folder(folder / "models", name, text, code and HEAD + code)
    return folder


@pytest.fixture(scope="module")
def server(surface: RunningServer, folder: Path) -> Iterator[RunningServer]:
    with brought(surface, folder / "models") as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[triton_grpc.InferenceServerClient]:
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        yield client


def one_input(number: int = 0) -> list[Any]:
    tensor = triton_grpc.InferInput("X", [1, 1], "INT32")
    tensor.set_data_from_numpy(np.array([[number]], np.int32))
    return [tensor]


def metric(server: RunningServer, name: str, model: str, reason: str = "") -> int:
    label = f'reason="{reason}",' if reason else ""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as page:
        text = page.read().decode()
    pattern = rf'^{name}\{{model="{model}",{label}version="1"\}} (\d+)$'
    (found,) = re.findall(pattern, text, re.MULTILINE)
    return int(found)


def pending(server: RunningServer, model: str) -> int:
    return metric(server, "nv_inference_pending_request_count", model)


def cancelled(server: RunningServer, model: str) -> int:
    return metric(server, "nv_inference_request_failure", model, "CANCELED")


class Call:
    """One asynchronous request; ``outcome`` waits for the value or the status of its error."""

    def __init__(self, client: Any, model: str, number: int = 0, **fields: Any) -> None:
        self._ended: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        self.context = client.async_infer(
            model,
            one_input(number),
            lambda result, error: self._ended.put((result, error)),
            **fields,
        )

    def outcome(self) -> int | str:
        result, error = self._ended.get(timeout=60)
        return error.status() if error is not None else result.as_numpy("Y").item()


CANCELLED = "StatusCode.CANCELLED"


def test_a_queued_request_that_is_cancelled_never_reaches_the_model(server, folder, client):
    first = Call(client, "dynamic", 1)
    until((folder / "dynamic.entered").exists)
    second = Call(client, "dynamic", 2)
    until(lambda: pending(server, "dynamic") == 1)
    second.context.cancel()
    assert second.outcome() == CANCELLED
    # What follows on the same connection is queued after the cancellation has come.
    third = Call(client, "dynamic", 3)
    until(lambda: pending(server, "dynamic") == 2)
    (folder / "dynamic.go").touch()
    assert [first.outcome(), third.outcome()] == [1, 3]
    until(lambda: cancelled(server, "dynamic") == 1)
    assert metric(server, "nv_inference_exec_count", "dynamic") == 2


def test_a_cancelled_request_of_the_backlog_cancels_its_sequence(server, folder, client):
    running = Call(client, "direct", 1, sequence_id=1, sequence_start=True)
    until((folder / "direct.entered").exists)
    waiting = Call(client, "direct", 2, sequence_id=2, sequence_start=True)
    until(lambda: pending(server, "direct") == 1)
    follower = Call(client, "direct", 3, sequence_id=2)
    until(lambda: pending(server, "direct") == 2)
    waiting.context.cancel()
    assert waiting.outcome() == CANCELLED
    until(lambda: pending(server, "direct") == 1)
    ending = Call(client, "direct", 4, sequence_id=1, sequence_end=True)
    until(lambda: pending(server, "direct") == 2)
    (folder / "direct.go").touch()
    assert [running.outcome(), ending.outcome()] == [1, 4]
    assert follower.outcome() == CANCELLED
    until(lambda: cancelled(server, "direct") == 2)
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        client.infer("direct", one_input(), sequence_id=2)


def test_a_cancelled_stream_cancels_all_that_its_sequences_have_sent(server, folder, client):
    errors: queue.SimpleQueue[Any] = queue.SimpleQueue()
    client.start_stream(lambda result, error: errors.put(error))
    for index in range(16):
        for sequence_id in (1, 2):
            client.async_stream_infer(
                "oldest", one_input(), sequence_id=sequence_id, sequence_start=index == 0
            )
    until(lambda: pending(server, "oldest") == 31)
    client.stop_stream(cancel_requests=True)
    assert errors.get(timeout=60).status() == CANCELLED
    until((folder / "oldest.cancelled").exists)
    until(lambda: cancelled(server, "oldest") == 32)
    assert pending(server, "oldest") == 0
    (folder / "oldest.go").touch()
    for sequence_id in (1, 2):
        with pytest.raises(InferenceServerException, match="must specify the START flag"):
            client.infer("oldest", one_input(), sequence_id=sequence_id)
        both = {"sequence_start": True, "sequence_end": True}
        assert client.infer("oldest", one_input(), sequence_id=sequence_id, **both)


def test_a_cancelled_ensemble_cancels_the_step_that_runs(server, folder, client):
    call = Call(client, "ensemble")
    until((folder / "step.entered").exists)
    call.context.cancel()
    assert call.outcome() == CANCELLED
    until((folder / "step.cancelled").exists)
    until(lambda: cancelled(server, "step") == 1)


def test_sequences_that_preserve_ordering_are_answered_in_the_order_of_their_requests(client):
    answers: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    order = []
    for turn in range(3):
        for sequence_id in range(1, 11):
            client.async_stream_infer(
                "ordered",
                one_input(turn),
                request_id=str(100 * turn + sequence_id),
                sequence_id=sequence_id,
                sequence_start=turn == 0,
                sequence_end=turn == 2,
            )
        for _ in range(10):
            result, error = answers.get(timeout=60)
            assert error is None, error
            order.append(int(result.get_response().id))
    client.stop_stream()
    assert order == sorted(order)


def test_every_execution_of_an_iterative_request_is_an_event_of_its_generate_stream(server):
    request = urllib.request.Request(
        f"http://{server.http}/v2/models/countdown/generate_stream",
        json.dumps({"X": 3}).encode(),
        {"Content-Type": "application/json", "Accept": "text/event-stream"},
    )
    with urllib.request.urlopen(request, timeout=60) as page:
        events = [line[6:] for line in page.read().decode().splitlines() if line]
    assert [json.loads(event)["Y"] for event in events] == [2, 1, 0]


def test_a_step_that_is_rejected_is_a_failure_of_another_reason_for_its_ensemble(server, client):
    with pytest.raises(InferenceServerException, match="Request timeout expired"):
        client.infer("impatient_ensemble", one_input())
    failures = "nv_inference_request_failure"
    assert metric(server, failures, "impatient", "REJECTED") == 1
    assert metric(server, failures, "impatient_ensemble", "OTHER") == 1
