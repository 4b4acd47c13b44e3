# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What has to stay where it is on a server of two nodes: clients' memory, and sequences."""

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from ray.cluster_utils import Cluster
from tritonclient.utils import InferenceServerException

from tests.integration.test_cluster import INGRESS, STORE_BYTES, cluster, join, workers
from tests.support.server import RunningServer

__all__ = ["cluster"]

VALUE = np.arange(150_528, dtype=np.float32)
NODE = {"num_cpus": 2, "object_store_memory": STORE_BYTES}
ECHO = """
backend: "identity"
input [{ name: "IN" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [-1] }]
instance_group [{ kind: KIND_CPU count: 1 }]
parameters { key: "ray_resources" value: { string_value: "{\\"far\\": 1}" } }
"""
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


def write_models(repository: Path) -> None:
    for name, config in (("echo", ECHO), ("sums", SUMS_CONFIG)):
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(config)
    (repository / "sums/1/model.py").write_text(SUMS)


@contextlib.contextmanager
def two_nodes(cluster: Cluster, repository: Path) -> Iterator[RunningServer]:
    """Serve on a head and another node, which has the only instance of `echo`."""
    write_models(repository)
    cluster.add_node(**NODE, resources={"far": 1, "slot": 1})
    cluster.add_node(**NODE, resources={"slot": 1})
    server = join(cluster, repository, "--allow-client-shm=true")
    try:
        wait_for_ingresses(server, 3)
        yield server
    finally:
        server.terminate()


def wait_for_ingresses(server: RunningServer, count: int) -> None:
    """Ask until there are so many; what takes too long is ended by the test's own time limit."""
    while len(workers(INGRESS)) != count:
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


def test_what_must_stay_on_its_node_does_so(cluster: Cluster, tmp_path: Path) -> None:
    with two_nodes(cluster, tmp_path) as server, contextlib.ExitStack() as stack:
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
        while len(workers(INGRESS)) < 4:
            step_all()
        cluster.remove_node(guest, allow_graceful=False)
        while len(workers(INGRESS)) > 3:
            step_all()
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
        # Which ingress a connection gets is the kernel's choice.
        while refusals < {"", "here"}:
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
