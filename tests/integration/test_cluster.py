# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Joining a Ray that is there already."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import tritonclient.http as triton_http
from ray.cluster_utils import Cluster

from tests.integration.conftest import write_add_sub
from tests.support.clients import add_sub_inputs, check_add_sub
from tests.support.ray_nodes import STORE_BYTES, kill_tree, started_head
from tests.support.server import ROOT, RunningServer, title_of, titled, until

INGRESS = "ray::ServeReplica:manta:Ingress"
# Ray's own processes on each node, which are there without Manta.
RAY_ITSELF = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")


@contextlib.contextmanager
def started_cluster() -> Iterator[Cluster]:
    """A head; Ray takes half a minute to miss a dead node unless told to look more often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_health_check_initial_delay_ms", "500")
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("RAY_health_check_failure_threshold", "3")
        started = started_head(num_cpus=2)
        yield started
        started.shutdown()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with started_cluster() as started:
        yield started


def join(cluster: Cluster, repository: Path, *flags: str) -> RunningServer:
    return RunningServer(repository, f"--ray-address={cluster.address}", *flags)


def workers(title: str = "ray::") -> list[psutil.Process]:
    """Return the live worker processes on the nodes that this process has started."""
    nodes = [each for each in psutil.Process().children() if each.name() == "raylet"]
    there = [worker for node in nodes for worker in node.children(recursive=True)]
    return [each for each in titled(there, title) if not title_of(each).startswith(RAY_ITSELF)]


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
