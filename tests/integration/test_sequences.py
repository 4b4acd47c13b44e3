# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences over two instances and two ingress replicas, with stock clients."""

import queue
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.support.model_folders import write_folder
from tests.support.server import RunningServer
from tests.support.shared_server import brought

TENSORS = """
backend: "python"
max_batch_size: {size}
input [ {{ name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }},
         {{ name: "PID" data_type: TYPE_INT32 dims: [ 1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: {instances} }} ]
"""
CONTROLS = """
  control_input { name: "START"
                  control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  control_input { name: "READY"
                  control { kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ] } }
"""
HEAD = """
import os
import numpy as np
import triton_python_backend_utils as pb_utils

def value(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().item()

def answer(total):
    one = lambda name, number: pb_utils.Tensor(name, np.array([[number]], np.int32))
    return pb_utils.InferenceResponse([one("OUT", total), one("PID", os.getpid())])
"""
# Sums by the row it is given, as only a direct batcher allows.
BY_ROW = """
class TritonPythonModel:
    def initialize(self, args):
        self.sums = [0] * 8

    def execute(self, requests):
        responses = []
        for row, request in enumerate(requests):
            if value(request, "READY"):
                if value(request, "START"):
                    self.sums[row] = 0
                self.sums[row] += value(request, "IN")
            responses.append(answer(self.sums[row]))
        return responses
"""
BY_ID = """
class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            key = value(request, "CORRID")
            if value(request, "START"):
                self.sums[key] = 0
            self.sums[key] += value(request, "IN")
            responses.append(answer(self.sums[key]))
        return responses
"""
# Sums in a state that the server keeps.
BY_STATE = """
class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            total = value(request, "SUM_IN") + value(request, "IN")
            response = answer(total)
            kept = pb_utils.Tensor("SUM_OUT", np.array([[total]], np.int32))
            responses.append(pb_utils.InferenceResponse([*response.output_tensors(), kept]))
        return responses
"""
COUNTDOWN = """
class TritonPythonModel:
    def initialize(self, args):
        self.left = {}

    def execute(self, requests):
        for request in requests:
            if not value(request, "READY"):
                continue
            key = request.correlation_id()
            if value(request, "START"):
                self.left[key] = value(request, "IN")
            self.left[key] -= 1
            sender = request.get_response_sender()
            if self.left[key]:
                sender.send(answer(self.left[key]))
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            else:
                sender.send(answer(0), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
OLDEST = """
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  oldest { max_candidate_sequences: 256 }
  control_input { name: "CORRID"
                  control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }
"""
DIRECT = "sequence_batching { max_sequence_idle_microseconds: 60000000 direct { }"
MODELS = {
    "by_row": (8, 2, DIRECT + CONTROLS + "}", BY_ROW),
    "by_id": (4, 2, OLDEST + CONTROLS + "}", BY_ID),
    "by_state": (
        4,
        2,
        DIRECT
        + """
  state { input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: [ 1 ]
          initial_state { name: "five" data_type: TYPE_INT32 dims: [ 1 ] data_file: "five" } } }
""",
        BY_STATE,
    ),
    # One slot, which a quiet sequence keeps from all others until it is reaped.
    "one_slot": (
        1,
        1,
        "sequence_batching { max_sequence_idle_microseconds: 300000 direct { }" + CONTROLS + "}",
        BY_ROW,
    ),
    "countdown": (
        4,
        1,
        "model_transaction_policy { decoupled: true }"
        "sequence_batching { iterative_sequence: true" + CONTROLS + "}",
        COUNTDOWN,
    ),
}


@pytest.fixture(scope="module")
def server(
    surface: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("sequences")
    for name, (size, instances, scheduling, source) in MODELS.items():
        write(repository, name, TENSORS.format(size=size, instances=instances) + scheduling, source)
    state = repository / "by_state" / "initial_state"
    state.mkdir()
    (state / "five").write_bytes(np.int32(5).tobytes())
    with brought(surface, repository) as running:
        yield running


def write(repository: Path, name: str, config: str, source: str) -> None:
    write_folder(repository, name, config, HEAD + source)


def one_input(module, number: int) -> list:
    tensor = module.InferInput("IN", [1, 1], "INT32")
    tensor.set_data_from_numpy(np.array([[number]], np.int32))
    return [tensor]


def step(server: RunningServer, model: str, sequence_id: int | str, number: int, **flags: bool):
    """Send one request on a connection of its own, so that any ingress may get it."""
    with triton_http.InferenceServerClient(server.http, network_timeout=60) as client:
        result = client.infer(
            model, one_input(triton_http, number), sequence_id=sequence_id, **flags
        )
    return result.as_numpy("OUT").item(), result.as_numpy("PID").item()


class Sums:
    """Sequences of random lengths, several at a time, each summing up what it is sent."""

    def __init__(self, server: RunningServer, model: str, ids: list[int | str]) -> None:
        self.pids: set[int] = set()
        self.failures: list[str] = []
        self._todo: queue.SimpleQueue[int | str] = queue.SimpleQueue()
        for sequence_id in ids:
            self._todo.put(sequence_id)
        threads = [threading.Thread(target=self._work, args=(server, model)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        assert not any(thread.is_alive() for thread in threads), "a request hangs"

    def _work(self, server: RunningServer, model: str) -> None:
        while True:
            try:
                sequence_id = self._todo.get_nowait()
            except queue.Empty:
                return
            try:
                self._sum_up(server, model, sequence_id)
            except Exception as error:
                self.failures.append(f"{sequence_id}: {error!r}")

    def _sum_up(self, server: RunningServer, model: str, sequence_id: int | str) -> None:
        numbers = [random.Random(str(sequence_id)).randint(1, 99) for _ in range(4)]
        start = 5 if model == "by_state" else 0
        pids = set()
        for index, number in enumerate(numbers):
            total, pid = step(
                server,
                model,
                sequence_id,
                number,
                sequence_start=index == 0,
                sequence_end=index == len(numbers) - 1,
            )
            assert total == start + sum(numbers[: index + 1])
            pids.add(pid)
        assert len(pids) == 1
        self.pids |= pids


@pytest.mark.parametrize("model", ["by_row", "by_id", "by_state"])
def test_every_sequence_stays_on_one_instance_whichever_ingress_it_comes_by(server, model) -> None:
    ids = [f"s{n}" if model == "by_id" else n for n in range(1, 41)]
    sums = Sums(server, model, ids)
    assert sums.failures == []
    assert len(sums.pids) == 2


def test_a_stream_of_pipelined_sequences_keeps_their_order(server: RunningServer) -> None:
    answers: queue.SimpleQueue = queue.SimpleQueue()
    ids, length = range(1001, 1013), 10
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        for index in range(length):
            for sequence_id in ids:
                client.async_stream_infer(
                    "by_row",
                    one_input(triton_grpc, 1),
                    request_id=f"{sequence_id}",
                    sequence_id=sequence_id,
                    sequence_start=index == 0,
                    sequence_end=index == length - 1,
                )
        totals: dict[str, list[int]] = {}
        for _ in range(length * len(ids)):
            result, error = answers.get(timeout=60)
            assert error is None, error
            totals.setdefault(result.get_response().id, []).append(result.as_numpy("OUT").item())
        client.stop_stream()
    assert totals == {str(sequence_id): list(range(1, length + 1)) for sequence_id in ids}


def test_an_idle_sequence_gives_its_slot_to_the_one_that_waits(server: RunningServer) -> None:
    assert step(server, "one_slot", 1, 10, sequence_start=True)[0] == 10
    # Answered only because the first one went quiet.
    assert step(server, "one_slot", 2, 20, sequence_start=True)[0] == 20
    with pytest.raises(InferenceServerException) as caught:
        step(server, "one_slot", 1, 10)
    assert caught.value.message() == (
        "inference request for sequence 1 to model 'one_slot' must specify the START flag on the "
        "first request of the sequence"
    )


def test_a_request_that_is_rescheduled_answers_once_for_each_execution(server) -> None:
    answers: queue.SimpleQueue = queue.SimpleQueue()
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        for number in (3, 5):
            client.async_stream_infer(
                "countdown", one_input(triton_grpc, number), request_id=str(number)
            )
        counts: dict[str, list[int]] = {}
        for _ in range(3 + 5):
            result, error = answers.get(timeout=60)
            assert error is None, error
            counts.setdefault(result.get_response().id, []).append(result.as_numpy("OUT").item())
        client.stop_stream()
    assert counts == {"3": [2, 1, 0], "5": [4, 3, 2, 1, 0]}


def test_a_killed_instance_ends_its_sequences_and_no_others(server: RunningServer) -> None:
    ids = list(range(2001, 2013))
    with triton_grpc.InferenceServerClient(server.grpc) as client:

        def send(sequence_id: int, **flags: bool) -> tuple[int, int]:
            result = client.infer(
                "by_row", one_input(triton_grpc, 1), sequence_id=sequence_id, **flags
            )
            return result.as_numpy("OUT").item(), result.as_numpy("PID").item()

        homes = {sequence_id: send(sequence_id, sequence_start=True)[1] for sequence_id in ids}
        victim = next(
            each for each in server.processes("ray::by_row/1") if each.pid == homes[ids[0]]
        )
        server.kill(victim)
        for sequence_id, pid in homes.items():
            if pid != victim.pid:
                assert send(sequence_id) == (2, pid)
                assert send(sequence_id, sequence_end=True) == (3, pid)
                continue
            with pytest.raises(InferenceServerException) as caught:
                send(sequence_id)
            assert caught.value.status() == "StatusCode.UNAVAILABLE"
            assert "start the sequence again" in caught.value.message()
            assert send(sequence_id, sequence_start=True)[0] == 1
            assert send(sequence_id, sequence_end=True)[0] == 2
