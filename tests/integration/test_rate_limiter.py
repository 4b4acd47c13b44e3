# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models that share a resource of which there is one: across processes, kills and calls."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.support.model_folders import write_folder
from tests.support.server import RunningServer
from tests.support.shared_server import brought

# A model finds out by a lock of the kernel's whether it executes alone.
MODEL = """
import fcntl
import pathlib
import time

import numpy as np
import triton_python_backend_utils as pb_utils


def response(value):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([value], np.int32))])


class TritonPythonModel:
    def initialize(self, args):
        self.folder = pathlib.Path(args["model_repository"]).resolve().parent

    def execute(self, requests):
        return [response(self.run(request)) for request in requests]

    def run(self, request):
        what = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
        with open(self.folder / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return 0
            mark = self.folder / "held"
            if what == 2 and not mark.exists():
                mark.touch()
                time.sleep(3600)
            time.sleep(0.001)
        return 1
"""
# Calls the model it shares the resource with, and that one again once it has it back.
CALLER = """
import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils


def call():
    tensor = pb_utils.Tensor("IN", np.array([1], np.int32))
    return pb_utils.InferenceRequest(
        model_name="callee", requested_output_names=["OUT"], inputs=[tensor])


def value(response):
    return pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()[0]
"""
SYNC = """

class TritonPythonModel:
    def execute(self, requests):
        total = sum(value(call().exec()) for _ in range(3))
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([total], np.int32))])
                for _ in requests]
"""
ASYNC = """

class TritonPythonModel:
    async def execute(self, requests):
        answers = await asyncio.gather(*(call().async_exec() for _ in range(3)))
        total = sum(map(value, answers))
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([total], np.int32))])
                for _ in requests]
"""
CONFIG = """
backend: "python"
input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 rate_limiter { %s } } ]
"""
ONE = 'resources [ { name: "R" count: 1 } ]'


def write(repository: Path, name: str, code: str, limits: str = ONE) -> None:
    write_folder(repository, name, CONFIG % limits, code)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = tmp_path_factory.mktemp("limited")
    write(repository, "callee", MODEL)
    write(repository, "other", MODEL)
    write(repository, "sync", CALLER + SYNC)
    write(repository, "async", CALLER + ASYNC)
    write(repository, "greedy", MODEL, 'resources [ { name: "R" count: 2 } ]')
    write(repository, "worldly", MODEL, 'resources [ { name: "R" count: 1 global: true } ]')
    return repository


@pytest.fixture(scope="module")
def limited(surface: RunningServer, folder: Path) -> Iterator[RunningServer]:
    """The server whose resource ``R`` no other models ask for."""
    with brought(surface, folder, ("callee", "other", "sync", "async")) as running:
        yield running


def infer(server: RunningServer, model: str, what: int = 1) -> int:
    given = triton_http.InferInput("IN", [1], "INT32")
    given.set_data_from_numpy(np.array([what], np.int32))
    with triton_http.InferenceServerClient(server.http, network_timeout=60) as client:
        return int(client.infer(model, [given]).as_numpy("OUT")[0])


def results(server: RunningServer, models: list[str]) -> list[int]:
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda model: infer(server, model), models))


def test_executions_that_share_a_resource_of_one_never_overlap(limited: RunningServer) -> None:
    assert results(limited, ["callee", "other"] * 100) == [1] * 200


@pytest.mark.parametrize("model", ["sync", "async"])
def test_a_called_model_gets_the_resource_its_caller_waits_with(
    limited: RunningServer, model: str
) -> None:
    assert results(limited, [model, "other"] * 10) == [3, 1] * 10


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            "greedy",
            'Resource count for "R" is limited to 1 which will prevent scheduling of one or more '
            "model instances, the minimum required count is 2",
        ),
        (
            "worldly",
            'Resource "R" is present as both global and device-specific resource in the model '
            "configuration.",
        ),
    ],
)
def test_a_model_whose_resources_cannot_be_had_does_not_load(
    limited: RunningServer, model: str, text: str
) -> None:
    with triton_http.InferenceServerClient(limited.http, network_timeout=60) as client:
        with pytest.raises(InferenceServerException):
            client.load_model(model)
        rows = client.get_model_repository_index()
    assert [text in row.get("reason", "") for row in rows if row["name"] == model] == [True]


def test_a_killed_arbiter_is_followed_by_one_that_knows_who_executes(
    limited: RunningServer,
) -> None:
    found: list[int] = []
    thread = threading.Thread(
        target=lambda: found.extend(results(limited, ["callee", "other"] * 150))
    )
    thread.start()
    assert infer(limited, "callee") == 1
    for _ in range(2):
        (arbiter,) = limited.processes("ray::ResourceArbiterActor")
        limited.kill(arbiter)
        assert infer(limited, "other") == 1
    thread.join()
    assert found == [1] * 300


def test_a_killed_instance_gives_back_what_it_holds(limited: RunningServer, folder: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        holder = threads.submit(infer, limited, "callee", 2)
        mark = folder / "held"
        while not mark.exists():
            assert not holder.done()
        waiting = threads.submit(infer, limited, "other")
        (victim,) = limited.processes("ray::callee/1")
        limited.kill(victim)
        assert waiting.result(60) == 1
        # Its own request failed, or was executed once more by the instance that came after.
        failure = holder.exception(60)
        if failure is not None:
            assert isinstance(failure, InferenceServerException)
    assert results(limited, ["other"] * 5) == [1] * 5
