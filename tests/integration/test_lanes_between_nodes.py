# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server of several nodes: what has to stay on one of them, and what the loss of one costs.

The memory of clients and sequences have to stay.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from ray._private.node import Node
from ray.cluster_utils import Cluster
from tritonclient.utils import InferenceServerException

from tests.integration.conftest import write_add_sub
from tests.integration.test_cluster import INGRESS, STORE_BYTES, join, started_cluster, workers
from tests.support.clients import Load, add_sub_inputs, check_add_sub
from tests.support.model_folders import write_folder
from tests.support.server import RunningServer

VALUE = np.arange(150_528, dtype=np.float32)
NODE = {"num_cpus": 2, "object_store_memory": STORE_BYTES}
PLACE = {"slot": 1, "seat": 1}
ECHO = """
backend: "identity"
input [{ name: "IN" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [-1] }]
instance_group [{ kind: KIND_CPU count: 1 }]
parameters { key: "ray_resources" value: { string_value: "{\\"far\\": 1}" } }
"""
ECHO_OF_BATCHES = f"max_batch_size: 8 {ECHO}"
SEATED = 'parameters { key: "ray_resources" value: { string_value: "{\\"seat\\": 1}" } }\n'
SUMS = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            key = request.correlation_id()
            value = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            is_start = request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
            self.sums[key] = value + (0 if is_start else self.sums[key])
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", self.sums[key])]))
        return responses
"""
SUMS_CONFIG = """
backend: "python"
max_batch_size: 8
input [{ name: "IN" data_type: TYPE_FP32 dims: [1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [1] }]
sequence_batching {
  max_sequence_idle_microseconds: 600000000
  oldest { max_candidate_sequences: 16 }
}
instance_group [{ kind: KIND_CPU count: 2 }]
parameters { key: "ray_resources" value: { string_value: "{\\"slot\\": 1}" } }
"""
SEQUENCES = range(1, 9)
# What a node may take to come or go on a machine that does other things too.
PATIENCE_S = 120.0


def write_models(repository: Path) -> None:
    write_folder(repository, "echo", ECHO)
    write_folder(repository, "batches", ECHO_OF_BATCHES)
    write_folder(repository, "sums", SUMS_CONFIG, SUMS)
    write_add_sub(repository, "add_sub", instances=2)
    with (repository / "add_sub/config.pbtxt").open("a") as config:
        config.write(SEATED)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with started_cluster() as started:
        yield started


@pytest.fixture(scope="module")
def lost(cluster: Cluster) -> Node:
    """A node with half of the instances of `sums` and of `add_sub`, which a test removes."""
    return cluster.add_node(**NODE, resources=PLACE)


@pytest.fixture(scope="module")
def server(
    cluster: Cluster, lost: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """A server on a head, that node, and another one that has the only instances of `echo`."""
    assert lost
    repository = tmp_path_factory.mktemp("several_nodes")
    write_models(repository)
    cluster.add_node(**NODE, resources=PLACE | {"far": 2})
    running = join(cluster, repository, "--allow-client-shm=true")
    wait_for_ingresses(3, lambda: ask(running))
    yield running
    ours = workers()
    assert running.terminate() == 0
    assert not psutil.wait_procs(ours, timeout=20)[1]
    assert not workers()


def wait_for_ingresses(count: int, meanwhile: Callable[[], None]) -> None:
    """Ask until there are so many."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := len(workers(INGRESS))) != count:
        assert time.monotonic() < deadline_s, f"{found} ingresses, expected {count}"
        meanwhile()


def ask(server: RunningServer) -> None:
    with (
        triton_http.InferenceServerClient(server.http, network_timeout=30) as client,
        contextlib.suppress(OSError, EOFError, InferenceServerException),
    ):
        client.is_server_ready()


def echo_from_region(client: triton_http.InferenceServerClient, place: str) -> np.ndarray:
    given = triton_http.InferInput("IN", list(VALUE.shape), "FP32")
    given.set_shared_memory(place, VALUE.nbytes)
    return client.infer("echo", [given]).as_numpy("OUT")


def step(
    client: triton_http.InferenceServerClient, sequence_id: int, number: int, *, last: bool = False
) -> None:
    """Send a sequence's next number and check the sum of all."""
    given = triton_http.InferInput("IN", [1, 1], "FP32")
    given.set_data_from_numpy(np.array([[number]], np.float32))
    result = client.infer(
        "sums", [given], sequence_id=sequence_id, sequence_start=number == 1, sequence_end=last
    )
    assert result.as_numpy("OUT").item() == number * (number + 1) / 2


def test_what_must_stay_on_its_node_does_so(cluster: Cluster, server: RunningServer) -> None:
    with contextlib.ExitStack() as stack:
        check_memory_of_clients(server)

        def client() -> triton_http.InferenceServerClient:
            made = triton_http.InferenceServerClient(server.http, network_timeout=60)
            stack.enter_context(made)
            made.is_server_ready()
            return made

        # Of the nodes that stay: each keeps the connection it has opened.
        clients = [client() for _ in range(4)]
        numbers = iter(range(1, 1000))

        def step_all(*, last: bool = False) -> None:
            number = next(numbers)
            for sequence_id in SEQUENCES:
                # By another ingress than the last number, in most cases.
                step(clients[(sequence_id + number) % 4], sequence_id, number, last=last)

        for _ in range(4):
            step_all()
        guest = cluster.add_node(**NODE, resources={"slot": 1})
        wait_for_ingresses(4, step_all)
        cluster.remove_node(guest, allow_graceful=False)
        wait_for_ingresses(3, step_all)
        for _ in range(4):
            step_all()
        step_all(last=True)


def check_memory_of_clients(server: RunningServer) -> None:
    """Send requests with a region through the ingresses of both kinds of nodes."""
    name = uuid.uuid4().hex
    handle = shm.create_shared_memory_region(name, f"/manta-test-{name}", VALUE.nbytes)
    shm.set_shared_memory_region(handle, [VALUE])
    refusals: set[str] = set()
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        # Which ingress a connection gets is the kernel's choice.
        while refusals < {"", "here"}:
            assert time.monotonic() < deadline_s, f"of {{'', 'here'}} only {refusals} were answered"
            with triton_http.InferenceServerClient(server.http, network_timeout=60) as client:
                client.register_system_shared_memory(name, f"/manta-test-{name}", VALUE.nbytes)
                refusals.add(refusal_of_echo(client, name))
                client.unregister_system_shared_memory(name)
    finally:
        shm.destroy_shared_memory_region(handle)
    assert refusals == {"", "here"}


def refusal_of_echo(client: triton_http.InferenceServerClient, place: str) -> str:
    """Return the error's text, short where it is the expected one; empty for a right answer."""
    try:
        np.testing.assert_array_equal(echo_from_region(client, place), VALUE)
    except InferenceServerException as error:
        is_expected = "model 'echo' has no instance on this node" in str(error)
        return "here" if is_expected else str(error)
    return ""


def infer_until(server: RunningServer, holds: Callable[[], bool]) -> None:
    """Send requests until something holds; a connection lost on the way is opened again."""
    for _ in range(20_000):
        with triton_http.InferenceServerClient(server.http, network_timeout=30) as client:
            try:
                check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))
            except (OSError, EOFError, triton_http.InferenceServerException):
                continue
        if holds():
            return
    raise AssertionError("it never came to hold")


def test_a_lost_node_costs_only_the_connections_to_it(
    cluster: Cluster, lost: Node, server: RunningServer
) -> None:
    value = np.random.default_rng(3).random((2, 300_000), dtype=np.float32)
    tensor = triton_http.InferInput("IN", list(value.shape), "FP32")
    tensor.set_data_from_numpy(value)
    for _ in range(8):  # connections are spread over the replicas of all nodes
        with triton_http.InferenceServerClient(server.http) as client:
            np.testing.assert_array_equal(client.infer("batches", [tensor]).as_numpy("OUT"), value)
    peers = {
        connection.raddr.port
        for replica in workers(INGRESS)
        for connection in replica.net_connections("tcp")
        if connection.raddr
    }
    (far,) = workers("ray::batches/1")
    listening = {c.laddr.port for c in far.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    assert listening & peers, "no replica reaches the other node's instance over TCP"

    load = Load(server.http, "add_sub")
    load.wait_for(300)
    before = {each.pid for each in workers("ray::add_sub/1")}
    cluster.remove_node(lost, allow_graceful=False)
    load.wait_for(300)
    outcomes = load.stop()
    assert all(outcome.startswith(("ok", "connection: ")) for outcome in outcomes), outcomes
    assert outcomes.total() - outcomes["ok"] <= 16, outcomes
    cluster.add_node(**NODE, resources=PLACE)
    infer_until(
        server,
        lambda: len(pids := {p.pid for p in workers("ray::add_sub/1")}) == 2 and pids != before,
    )
