# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What dies costs no more than it must: instance, controller, ingress replica, server."""

import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import tritonclient.http as triton_http

from tests.integration.conftest import write_add_sub
from tests.support.clients import Load, add_sub_inputs, check_add_sub
from tests.support.server import RunningServer


@pytest.fixture(scope="module")
def redundant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Two instances of one model behind two ingress replicas."""
    repository = tmp_path_factory.mktemp("redundant")
    write_add_sub(repository, "add_sub", instances=2)
    write_add_sub(repository, "other")
    running = RunningServer(
        repository, "--model-control-mode=explicit", "--load-model=add_sub", "--ingress-per-node=2"
    )
    yield running
    running.terminate()


def _wait_for_instances(server: RunningServer, count: int, killed: int) -> None:
    with triton_http.InferenceServerClient(server.http) as client:
        for _ in range(100_000):
            check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))
            pids = {each.pid for each in server.processes("ray::add_sub/1")}
            if len(pids) == count and killed not in pids:
                return
    raise AssertionError("the instance did not come back")


def _wait_until_served(server: RunningServer, model: str) -> None:
    """The replica that did not ask for the load may find the new controller a moment later."""
    for _ in range(10_000):
        with triton_http.InferenceServerClient(server.http) as client:
            if client.is_model_ready(model):
                check_add_sub(client.infer(model, add_sub_inputs(triton_http)))
                return
    raise AssertionError(f"model '{model}' was loaded and never served")


def test_killed_instance_costs_no_request(redundant: RunningServer) -> None:
    load = Load(redundant.http, "add_sub")
    load.wait_for(500)
    victim = redundant.processes("ray::add_sub/1")[0]
    redundant.kill(victim)
    load.wait_for(500)
    outcomes = load.stop()
    assert set(outcomes) == {"ok"}, outcomes
    _wait_for_instances(redundant, 2, victim.pid)


def test_killed_controller_costs_no_request_and_control_comes_back(
    redundant: RunningServer,
) -> None:
    load = Load(redundant.http, "add_sub")
    load.wait_for(500)
    victim = redundant.processes("ray::ModelController")[0]
    redundant.kill(victim)
    load.wait_for(500)
    with triton_http.InferenceServerClient(redundant.http, network_timeout=60) as client:
        client.load_model("other")
        _wait_until_served(redundant, "other")
        client.unload_model("other")
    assert set(load.stop()) == {"ok"}


def test_killed_ingress_replica_breaks_only_its_own_connections(redundant: RunningServer) -> None:
    replicas = redundant.processes("ray::ServeReplica:manta:Ingress")
    assert len(replicas) == 2
    victim, survivor = replicas
    port = int(redundant.http.rsplit(":", 1)[1])
    load = Load(redundant.http, "add_sub")
    load.wait_for(500)
    on_victim = sum(
        each.status == psutil.CONN_ESTABLISHED and each.laddr.port == port
        for each in victim.net_connections(kind="tcp")
    )
    redundant.kill(victim)
    load.wait_for(500)
    outcomes = load.stop()
    broken = sum(count for outcome, count in outcomes.items() if outcome != "ok")
    # A client whose connection broke may meet the dying listener once more.
    assert broken <= 2 * on_victim, outcomes
    assert survivor.is_running()


def test_sigterm_under_load_answers_every_accepted_request(tmp_path: Path) -> None:
    write_add_sub(tmp_path, "add_sub")
    server = RunningServer(tmp_path)
    tree = server.tree()
    loads = [
        Load(server.http, "add_sub", concurrency=8),
        Load(server.grpc, "add_sub", protocol="grpc", concurrency=4),
    ]
    for load in loads:
        load.wait_for(200)
    assert server.terminate() == 0
    refused = re.compile("connection: ConnectionRefusedError|.*Connection refused|.*connections")
    for load in loads:
        outcomes = load.stop()
        # Only connections that were never accepted may fail.
        broken = {text for text in outcomes if text != "ok" and not refused.match(text)}
        assert not broken, outcomes
    _, alive = psutil.wait_procs(tree, timeout=30)
    assert not alive, alive


def test_killed_driver_leaves_no_process_and_no_shared_memory(tmp_path: Path) -> None:
    write_add_sub(tmp_path, "add_sub")
    before = set(Path("/dev/shm").iterdir())
    server = RunningServer(tmp_path)
    tree = server.tree()
    server.kill(psutil.Process(server.pid))
    server.wait(10)
    _, alive = psutil.wait_procs(tree, timeout=30)
    assert not alive, alive
    assert set(Path("/dev/shm").iterdir()) <= before
