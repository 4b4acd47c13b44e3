# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An ingress that ends, or makes way for another one, while clients send all they can."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import tritonclient.http as triton_http

from tests.faults.models import BUSY, Shape, write_model
from tests.support.busy_clients import LOST, OK, REFUSED, BusyClients, HttpPeer, failures
from tests.support.deployed_application import DeployedApplication
from tests.support.free_ports import free_ports
from tests.support.server import RunningServer

CLIENTS = 16
# A controller looks every 3 s, and twice, whether its application is there.
NOTICED_S = 12.0


@contextmanager
def busy(http: str, grpc: str) -> Iterator[BusyClients]:
    """16 clients of each protocol that have had answers already."""
    clients = BusyClients(http, grpc, BUSY, concurrency=CLIENTS, patience_s=30)
    try:
        clients.wait_warm(5, 60)
        yield clients
    finally:
        clients.stop()


def ask_once(address: str, path: str) -> int:
    """Return the status of an answer on a connection of its own."""
    peer = HttpPeer(address, 10)
    try:
        return peer.exchange("GET", path)[0]
    finally:
        peer.close()


@pytest.mark.ends_server
def test_sigterm_loses_no_answer_and_leaves_no_process(surface: RunningServer) -> None:
    server = surface
    write_model(server.repository, BUSY, Shape(instances=2))
    with triton_http.InferenceServerClient(server.http, network_timeout=60) as client:
        client.load_model(BUSY)
    tree = server.tree()
    with busy(server.http, server.grpc) as clients:
        terminated_s = time.monotonic()
        assert server.terminate() == 0
        outcomes = clients.stop()
    assert not failures(outcomes, REFUSED)
    assert min(each.begin_s for each in outcomes if each.kind == REFUSED) > terminated_s
    _, alive = psutil.wait_procs(tree, timeout=30)
    assert not alive, alive


@pytest.mark.long
def test_drain_delay_serves_while_not_ready(tmp_path: Path) -> None:
    write_model(tmp_path, BUSY)
    server = RunningServer(tmp_path, "--drain-delay-secs=2")
    idle = [HttpPeer(server.http, 10) for _ in range(8)]
    for peer in idle:
        assert peer.exchange("GET", "/v2/health/live")[0] == 200
    with busy(server.http, server.grpc) as clients:
        ending = threading.Thread(target=server.terminate)
        ending.start()
        while ask_once(server.http, "/v2/health/ready") == 200:
            time.sleep(0.02)
        begin_s = time.monotonic()
        # These have been idle for long; nobody has told them.
        for peer in idle:
            assert peer.exchange("GET", "/v2/health/live")[0] == 200
            assert peer.is_closing
            peer.close()
        while time.monotonic() < begin_s + 1.5:
            # 400 is what Triton says of a server that is not ready.
            assert ask_once(server.http, "/v2/health/ready") == 400
            assert ask_once(server.http, "/-/healthz") == 503
            time.sleep(0.1)
        ending.join()
        outcomes = clients.stop()
    assert server.process.returncode == 0
    assert not failures(outcomes, REFUSED)
    # A channel that was asked to leave may wait a second before it connects again.
    refused_s = [each.end_s for each in outcomes if each.kind == REFUSED]
    assert min(refused_s) > begin_s + 1.5
    new = [each for each in outcomes if each.is_first and each.begin_s > begin_s]
    assert any(each.kind == OK for each in new)


class Connecting:
    """A client that makes a connection for each request.

    Attributes:
        lost: What went wrong.
        answered_count: How many answers it had.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self.lost: list[str] = []
        self.answered_count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                peer = HttpPeer(self._address, 10)
                status, _ = peer.exchange("GET", f"/v2/models/{BUSY}/ready")
                peer.close()
            except Exception as error:
                self.lost.append(f"{type(error).__name__}: {error}")
            else:
                if status != 200:
                    self.lost.append(str(status))
                self.answered_count += 1


def arguments_for(repository: Path) -> dict[str, Any]:
    write_model(repository, BUSY, Shape(instances=2))
    first = free_ports(3).first
    return {
        "model_repository": [str(repository)],
        "http_address": "127.0.0.1",
        "grpc_address": "127.0.0.1",
        "http_port": first,
        "grpc_port": first + 1,
        "metrics_port": first + 2,
    }


@pytest.mark.parametrize("per_node", [pytest.param(1, marks=pytest.mark.long), 2])
def test_redeploy_refuses_no_connection_and_loses_no_answer(tmp_path: Path, per_node: int) -> None:
    arguments = arguments_for(tmp_path) | {"ingress_per_node": per_node}
    http_port = arguments["http_port"]
    http, grpc = f"127.0.0.1:{http_port}", f"127.0.0.1:{arguments['grpc_port']}"
    with DeployedApplication(**arguments) as application:
        application.deploy()
        application.wait_ready(http)
        with busy(http, grpc) as clients:
            connecting = [Connecting(http) for _ in range(4)]
            # Once with a controller that stays, once with one that is replaced as well.
            for more in ({}, {"log_verbose": 1}):
                before = application.ingresses()
                application.deploy(**more)
                _, alive = psutil.wait_procs(before, timeout=40)
                assert not alive
                assert len(application.ingresses()) == per_node
                assert listening_sockets(application, http_port) == per_node
            for each in connecting:
                each.stop()
            outcomes = clients.stop()
    lost = failures(outcomes) + Counter(
        ("connecting", LOST, what) for each in connecting for what in each.lost
    )
    assert all(each.answered_count > 100 for each in connecting)
    assert not lost, lost


@pytest.mark.long
def test_configuration_that_cannot_be_built_leaves_the_server_as_it_was(tmp_path: Path) -> None:
    arguments = arguments_for(tmp_path)
    http, grpc = (f"127.0.0.1:{arguments[name]}" for name in ("http_port", "grpc_port"))
    with DeployedApplication(**arguments) as application:
        assert application.declare() == "RUNNING"
        application.wait_ready(http)
        with busy(http, grpc) as clients:
            assert application.declare(no_such_flag=1) == "DEPLOY_FAILED"
            failed_s = time.monotonic()
            clients.wait_until(
                lambda: any(each.begin_s > failed_s + NOTICED_S for each in clients.outcomes()),
                300,
                "nobody is served",
            )
            outcomes = clients.stop()
    assert not failures(outcomes)
    assert len(clients.answered_at_s) == 2, "an instance was replaced"


def listening_sockets(application: DeployedApplication, port: int) -> int:
    """Return how many accept queues the replicas have for a port."""
    return len(
        {
            (each.pid, connection.fd)
            for each in application.ingresses()
            for connection in each.net_connections("tcp")
            if connection.laddr.port == port and connection.status == psutil.CONN_LISTEN
        }
    )
