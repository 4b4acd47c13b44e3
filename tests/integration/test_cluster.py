# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Joining a Ray that is there already, and serving on more than one of its nodes."""

import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import tritonclient.http as triton_http
from ray.cluster_utils import Cluster

from tests.integration.conftest import write_add_sub
from tests.support.clients import Load, add_sub_inputs, check_add_sub
from tests.support.ray_nodes import kill_tree, until
from tests.support.server import ROOT, RunningServer

INGRESS = "ray::ServeReplica:manta:Ingress"
# Ray's own processes on each node, which are there without Manta.
RAY_ITSELF = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
STORE_BYTES = 100 * 2**20
IDENTITY = """
backend: "identity"
max_batch_size: 8
input [{ name: "IN" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [-1] }]
instance_group [{ kind: KIND_CPU count: 1 }]
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A head; Ray takes half a minute to miss a dead node unless told to look more often."""
    monkeypatch.setenv("RAY_health_check_initial_delay_ms", "500")
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "3")
    started = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": STORE_BYTES}
    )
    yield started
    started.shutdown()


def join(cluster: Cluster, repository: Path, *flags: str) -> RunningServer:
    return RunningServer(repository, f"--ray-address={cluster.address}", *flags)


def workers(title: str = "ray::") -> list[psutil.Process]:
    """Return the live worker processes on the nodes that this process has started."""
    found = []
    nodes = [each for each in psutil.Process().children() if each.name() == "raylet"]
    for process in [worker for node in nodes for worker in node.children(recursive=True)]:
        try:
            command = " ".join(process.cmdline())
            is_dead = process.status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            continue
        if command.startswith(title) and not command.startswith(RAY_ITSELF) and not is_dead:
            found.append(process)
    return found


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


@pytest.mark.long
def test_a_joined_ray_is_left_as_it_was_however_the_driver_ends(
    cluster: Cluster, tmp_path: Path
) -> None:
    write_add_sub(tmp_path, "add_sub")
    killed = join(cluster, tmp_path)
    with pytest.raises(AssertionError, match=f"started by process {killed.pid} on"):
        join(cluster, tmp_path)
    killed.kill(psutil.Process(killed.pid))
    killed.wait(10)
    abandoned = workers()
    assert abandoned
    # Whoever comes next ends what the killed driver has left, as its lease would.
    server = join(cluster, tmp_path)
    assert not psutil.wait_procs(abandoned, timeout=10)[1]
    with triton_http.InferenceServerClient(server.http) as client:
        check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))
    check_what_the_doctor_says(cluster.address)
    ours = workers()
    assert server.terminate() == 0
    assert not psutil.wait_procs(ours, timeout=10)[1]
    assert not workers()


def check_what_the_doctor_says(address: str) -> None:
    """Of a server that listens on loopback only, on a Ray that asks for no token."""
    seen = doctor(address)
    assert "the server that runs" in seen.stderr
    assert seen.returncode == 1
    assert "ray-token" in rules_of(seen)
    assert not rules_of(seen) & {"http-clear-text", "grpc-clear-text", "metrics-open"}
    # What this process would show says nothing of what Ray wants to see.
    seen = doctor(address, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="x" * 32)
    assert "ray-token" in rules_of(seen)


def doctor(address: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = ("doctor", "--running", "--json", f"--ray-address={address}")
    return subprocess.run(
        [sys.executable, "-m", "cluster", *command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | environment,
        timeout=120,
        check=False,
    )


def rules_of(seen: "subprocess.CompletedProcess[str]") -> set[str]:
    return {finding["rule"] for finding in json.loads(seen.stdout)["findings"]}


def test_the_doctor_knows_a_ray_that_asks_for_a_token() -> None:
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        size = f"--object-store-memory={STORE_BYTES}"
        head = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--port=0", "--block",
             "--num-cpus=1", size, f"--temp-dir={folder}", "--include-dashboard=false"],
            env=os.environ | token,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            file = Path(folder) / "ray_current_cluster"
            until(lambda: file.exists() and file.read_text(), "a head")
            address = file.read_text()
            seen = doctor(address, **token)
            assert "ray-token" not in rules_of(seen)
            assert "no server that answers" in seen.stderr
            refused = doctor(address, RAY_AUTH_MODE="disabled")
            assert refused.returncode == 2
            assert "asks for a token" in refused.stderr
            assert token["RAY_AUTH_TOKEN"] not in seen.stdout + seen.stderr + refused.stderr
        finally:
            kill_tree(head)


def test_a_lost_node_costs_only_the_connections_to_it(cluster: Cluster, tmp_path: Path) -> None:
    parameter = 'parameters {{ key: "ray_resources" value: {{ string_value: "{0}" }} }}'
    write_add_sub(tmp_path, "add_sub", instances=2)
    with (tmp_path / "add_sub/config.pbtxt").open("a") as config:
        config.write(parameter.format(r"{\"slot\": 1}"))
    (tmp_path / "echo/1").mkdir(parents=True)
    (tmp_path / "echo/config.pbtxt").write_text(IDENTITY + parameter.format(r"{\"far\": 1}"))
    node = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
    lost = cluster.add_node(**node, resources={"slot": 1})
    cluster.add_node(**node, resources={"slot": 1, "far": 1})
    server = join(cluster, tmp_path)
    infer_until(server, lambda: len(workers(INGRESS)) == 3)

    value = np.random.default_rng(3).random((2, 300_000), dtype=np.float32)
    tensor = triton_http.InferInput("IN", list(value.shape), "FP32")
    tensor.set_data_from_numpy(value)
    for _ in range(8):  # connections are spread over the replicas of all nodes
        with triton_http.InferenceServerClient(server.http) as client:
            np.testing.assert_array_equal(client.infer("echo", [tensor]).as_numpy("OUT"), value)
    peers = {
        connection.raddr.port
        for replica in workers(INGRESS)
        for connection in replica.net_connections("tcp")
        if connection.raddr
    }
    (far,) = workers("ray::echo/1")
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
    cluster.add_node(**node, resources={"slot": 1})
    infer_until(
        server,
        lambda: len(pids := {p.pid for p in workers("ray::add_sub/1")}) == 2 and pids != before,
    )
    ours = workers()
    assert server.terminate() == 0
    assert not psutil.wait_procs(ours, timeout=20)[1]
    assert not workers()
