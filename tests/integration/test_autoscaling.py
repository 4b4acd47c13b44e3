# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances follow a load that steps up tenfold and goes away, and no request is refused."""

import re
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc

from tests.faults.scene import CONTROLLER
from tests.support.expendable_server import ExpendableServer
from tests.support.model_folders import write_folder
from tests.support.server import RunningServer, until

SLEEPER = """
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.1)
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(each, "X").as_numpy())]
            )
            for each in requests
        ]
"""
CONFIG = """
backend: "python"
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
instance_group { kind: KIND_CPU count: 1 }
parameters { key: "autoscaling.max_instances" value { string_value: "5" } }
parameters { key: "autoscaling.target_ongoing_requests" value { string_value: "1.5" } }
parameters { key: "autoscaling.upscale_delay_s" value { string_value: "2" } }
parameters { key: "autoscaling.downscale_delay_s" value { string_value: "4" } }
"""
MOST, CLIENTS = 5, 10
# What a state may take to come on a machine that does other things too.
PATIENCE_S = 180.0

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", autouse=True)
def models(
    expendable_server: ExpendableServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    repository: Path = tmp_path_factory.mktemp("autoscaling")
    write_folder(repository, "sleeper", CONFIG, SLEEPER)
    with expendable_server.bringing(repository):
        yield


class Clients:
    """Clients that send one request after the other until they are told to end.

    Attributes:
        answers: How many answers were right.
        faults: What became of the others.
    """

    def __init__(self, address: str, count: int) -> None:
        self.answers = 0
        self.faults: list[str] = []
        self._address = address
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        with triton_grpc.InferenceServerClient(self._address) as client:
            while not self._ended.is_set():
                fault = ask(client, number)
                with self._lock:
                    self.answers += not fault
                    self.faults += [fault] if fault else []

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


def ask(client: triton_grpc.InferenceServerClient, number: int) -> str:
    """Send a request; return what was wrong with what came of it."""
    given = triton_grpc.InferInput("X", [1], "INT32")
    given.set_data_from_numpy(np.array([number], np.int32))
    try:
        answer = client.infer("sleeper", [given], client_timeout=60).as_numpy("Y")
    except Exception as error:
        return repr(error)
    return "" if answer is not None and answer.tolist() == [number] else f"{number}: {answer}"


def gauges(server: RunningServer) -> tuple[int, int]:
    """Return how many instances the model shall have, and has."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    labels = re.escape('{model="sleeper",version="1"}')
    found = [
        re.findall(rf"^manta_autoscaling_{name}{labels} (\d+)$", page, re.MULTILINE)
        for name in ("desired_instances", "instances")
    ]
    desired, current = ([int(n) for n in numbers] or [-1] for numbers in found)
    return desired[0], current[0]


def instances(server: RunningServer) -> set[psutil.Process]:
    titles = ("ray::sleeper/1", "manta: sleeper/1")
    return {process for title in titles for process in server.processes(title)}


def test_instances_follow_a_tenfold_step_and_no_request_is_refused(
    expendable: RunningServer,
) -> None:
    server = expendable
    until(lambda: gauges(server) == (1, 1))
    one = Clients(server.grpc, 1)
    until(lambda: one.answers >= 20)
    assert gauges(server) == (1, 1)
    more = Clients(server.grpc, CLIENTS - 1)
    until(lambda: gauges(server) == (MOST, MOST))
    grown = instances(server)

    controllers = server.processes(CONTROLLER)
    server.kill(controllers[0])
    until(lambda: bool(server.processes(CONTROLLER)))
    known = more.answers
    until(lambda: gauges(server) == (MOST, MOST) and more.answers > known + 50)
    assert instances(server) == grown

    more.end()
    until(lambda: gauges(server) == (1, 1))
    until(lambda: len(instances(server)) == 1)
    one.end()
    assert one.faults + more.faults == []
    # One of them stays; the processes of the others are gone, not only without their titles.
    kept = instances(server)
    assert kept < grown
    _, alive = psutil.wait_procs(list(grown - kept), timeout=PATIENCE_S)
    assert not alive
