# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What dies costs no more than it must: instance, controller, ingress replica, server."""

import time

import psutil
import pytest
import tritonclient.http as triton_http

from tests.support.clients import Load, add_sub_inputs, check_add_sub
from tests.support.expendable_server import ExpendableServer
from tests.support.server import RunningServer

# What an instance or a controller may take to come back on a machine that does other things too.
PATIENCE_S = 120.0


def _wait_for_instances(server: RunningServer, count: int, killed: int) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    pids: set[int] = set()
    with triton_http.InferenceServerClient(server.http) as client:
        while len(pids) != count or killed in pids:
            assert time.monotonic() < deadline_s, f"{pids} after {killed} was killed, not {count}"
            check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))
            pids = {each.pid for each in server.processes("ray::add_sub/1")}


def _wait_until_served(server: RunningServer, model: str) -> None:
    """The replica that did not ask for the load may find the new controller a moment later."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        with triton_http.InferenceServerClient(server.http) as client:
            if client.is_model_ready(model):
                check_add_sub(client.infer(model, add_sub_inputs(triton_http)))
                return
    raise AssertionError(f"model '{model}' was loaded and not served in {PATIENCE_S:.0f} s")


def test_killed_instance_costs_no_request(expendable: RunningServer) -> None:
    load = Load(expendable.http, "add_sub")
    load.wait_for(500)
    victim = expendable.processes("ray::add_sub/1")[0]
    expendable.kill(victim)
    load.wait_for(500)
    outcomes = load.stop()
    assert set(outcomes) == {"ok"}, outcomes
    _wait_for_instances(expendable, 2, victim.pid)


def test_killed_controller_costs_no_request_and_control_comes_back(
    expendable: RunningServer,
) -> None:
    load = Load(expendable.http, "add_sub")
    load.wait_for(500)
    victim = expendable.processes("ray::ModelController")[0]
    expendable.kill(victim)
    load.wait_for(500)
    with triton_http.InferenceServerClient(expendable.http, network_timeout=60) as client:
        client.load_model("other")
        _wait_until_served(expendable, "other")
        client.unload_model("other")
    assert set(load.stop()) == {"ok"}


def test_killed_ingress_replica_breaks_only_its_own_connections(expendable: RunningServer) -> None:
    replicas = expendable.processes("ray::ServeReplica:manta:Ingress")
    assert len(replicas) == 2
    victim, survivor = replicas
    port = int(expendable.http.rsplit(":", 1)[1])
    load = Load(expendable.http, "add_sub")
    load.wait_for(500)
    on_victim = sum(
        each.status == psutil.CONN_ESTABLISHED and each.laddr.port == port
        for each in victim.net_connections(kind="tcp")
    )
    expendable.kill(victim)
    load.wait_for(500)
    outcomes = load.stop()
    broken = sum(count for outcome, count in outcomes.items() if outcome != "ok")
    # A client whose connection broke may meet the dying listener once more.
    assert broken <= 2 * on_victim, outcomes
    assert survivor.is_running()


@pytest.mark.ends_server
def test_killed_driver_leaves_no_process_and_no_shared_memory(
    expendable_server: ExpendableServer,
) -> None:
    server = expendable_server.running
    tree = server.tree()
    assert {each.pid for each in tree} > {each.pid for each in server.processes("ray::add_sub/1")}
    server.kill(psutil.Process(server.pid))
    server.wait(10)
    _, alive = psutil.wait_procs(tree, timeout=30)
    assert not alive, alive
    assert not expendable_server.left_in_shared_memory()
