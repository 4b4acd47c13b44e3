# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a Python model finds in its process, on a real server.

A model answers with the value of an expression that it is sent.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton_http

from tests.support.server import RunningServer, until
from tests.support.shared_server import brought

CONFIG = """
name: "{name}" backend: "python"
input {{ name: "CODE" data_type: TYPE_STRING dims: [ 1 ] }}
output {{ name: "SAYS" data_type: TYPE_STRING dims: [ 1 ] }}
"""
MODEL = """
import asyncio, json, logging, os, pickle, signal, sys, threading
import numpy as np
import triton_python_backend_utils as pb_utils
from google.protobuf import descriptor_pb2, descriptor_pool
from . import notes
from .notes import shelf
import cluster

logging.basicConfig(level="INFO", format="NOTED|%(levelname)s|%(message)s")
file = descriptor_pb2.FileDescriptorProto(name="mine.proto", package="inference")
for name in ("ModelInferRequest", "ModelConfig", "InferTensorContents"):
    file.message_type.add(name=name)
descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
RUNS = sys.runs_zq = getattr(sys, "runs_zq", 0) + 1


class Note(list):
    pass


def fails(*_):
    notes.SIGNALS.append("fails")
    raise TimeoutError("too late")


def noted(*_):
    notes.SIGNALS.append(threading.current_thread() is threading.main_thread())


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        return config

    def initialize(self, args):
        signal.signal(signal.SIGUSR2, noted)
        signal.signal(signal.SIGUSR1, fails)

    {execute} execute(self, requests):
        return [self.answer(each) for each in requests]

    def answer(self, request):
        code = pb_utils.get_input_tensor_by_name(request, "CODE").as_numpy()[0].decode()
        says = json.dumps(eval(code, {{**globals(), "self": self}}))
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("SAYS", np.array([says.encode()], dtype=np.object_))]
        )

    async def count(self):
        while True:
            notes.TURNS.append(1)
            await asyncio.sleep(0.001)

    def finalize(self):
        notes.leave("finalized on the main thread: %s")
"""
NOTES = """
import threading

SIGNALS = []
TURNS = []


def leave(text):
    with open({left!r}, "a") as file:
        file.write(text % (threading.current_thread() is threading.main_thread()))
"""


def _write(root: Path, name: str, execute: str = "def") -> None:
    files = {
        "config.pbtxt": CONFIG.format(name=name),
        "1/model.py": MODEL.format(execute=execute),
        "1/notes/__init__.py": NOTES.format(left=str(root.parent / f"{name}.left")),
        "1/notes/shelf.py": "from .. import cluster\nLENGTH = cluster.LENGTH + 1\n",
        "1/cluster.py": "LENGTH = 6\n",
    }
    for path, text in files.items():
        target = root / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("plain") / "models"
    _write(root, "plain")
    _write(root, "plain_async", "async def")
    _write(root, "plain_ends")
    return root


@pytest.fixture(scope="module")
def running(surface: RunningServer, root: Path) -> Iterator[RunningServer]:
    with brought(surface, root) as running:
        yield running


@pytest.fixture(scope="module")
def client(running: RunningServer) -> Iterator[triton_http.InferenceServerClient]:
    with triton_http.InferenceServerClient(running.http, network_timeout=60) as client:
        yield client


def says(client: triton_http.InferenceServerClient, code: str, model: str = "plain") -> object:
    tensor = triton_http.InferInput("CODE", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([code.encode()], dtype=np.object_))
    return json.loads(client.infer(model, [tensor]).as_numpy("SAYS")[0])


def _printed(running: RunningServer, text: str) -> bool:
    return any(text in line for line in running.printed())


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("sys.argv", [""]),
        ("type(asyncio.new_event_loop()).__module__", "asyncio.unix_events"),
        ("asyncio.run(asyncio.sleep(0, 5))", 5),
        ("sys.excepthook is sys.__excepthook__", True),
        ("hasattr(sys.modules['__main__'], '__file__')", False),
        ("[each for each in sys.path if each.endswith('_private/workers')]", []),
        ("'PYTHONBREAKPOINT' in os.environ", False),
        ("os.environ.get('CUDA_VISIBLE_DEVICES')", os.environ.get("CUDA_VISIBLE_DEVICES")),
        ("[__name__, __package__]", ["1.model", "1"]),
        ("type(pickle.loads(pickle.dumps(Note()))) is Note", True),
        ("RUNS", 1),
        ("[shelf.LENGTH, cluster.LENGTH]", [7, 6]),
        ("threading.current_thread() is threading.main_thread()", True),
    ],
)
def test_a_model_finds_a_process_of_plain_python(client, code, value):
    assert says(client, code) == value


def test_a_model_sets_its_own_format_of_logging(running, client):
    says(client, "logging.getLogger('any.library').info('of mine')")
    says(client, "pb_utils.Logger.log_warn('of the server')")
    until(lambda: _printed(running, "NOTED|INFO|of mine"), "a line of the model's")
    until(lambda: _printed(running, "of the server"), "a line of the server's")
    lines = [line for line in running.printed() if line.rstrip().endswith('of the server"')]
    assert len(lines) == 1
    assert not _printed(running, "NOTED|WARNING|of the server")


def test_a_handler_of_a_model_runs_for_a_signal_while_no_request_is_there(client):
    pid = says(client, "os.getpid()")
    os.kill(pid, signal.SIGUSR2)
    assert says(client, "notes.SIGNALS") == [True]


def test_a_handler_that_fails_while_no_request_is_there_ends_nothing(running, client):
    model = "plain_ends"
    pid = says(client, "os.getpid()", model)
    os.kill(pid, signal.SIGUSR1)
    until(lambda: _printed(running, "TimeoutError: too late"), "a line about the handler")
    assert says(client, "[os.getpid(), notes.SIGNALS]", model) == [pid, ["fails"]]


def test_a_model_that_starts_ray_and_ends_it_has_that_of_the_server(client):
    model = "plain_ends"
    assert says(client, "[__import__('ray').init(num_cpus=1), 1][1]", model) == 1
    task = "ray.remote(num_cpus=0)(lambda number: 2 * number).remote(21)"
    asked = f"(lambda ray: [ray.shutdown(), ray.get({task})])(__import__('ray'))"
    assert says(client, asked, model) == [None, 42]


def test_what_an_async_model_has_begun_goes_on_between_requests(client):
    model = "plain_async"
    before = says(client, "[setattr(self, 'task', asyncio.create_task(self.count()))]", model)
    assert before == [None]
    asks = 0

    def has_turned() -> bool:
        nonlocal asks
        asks += 1
        # A task of a loop that stands still between requests turns once for each of them.
        return int(str(says(client, "len(notes.TURNS)", model))) > 3 * asks + 5

    until(has_turned, "turns of a task that turns every millisecond")
    assert says(client, "threading.current_thread() is threading.main_thread()", model) is False


def test_a_model_ends_where_it_began(client, root):
    client.unload_model("plain_ends")
    left = root.parent / "plain_ends.left"
    until(left.exists, "the end of the model")
    assert left.read_text() == "finalized on the main thread: True"
    client.load_model("plain_ends")
