# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An ingress that ends, or makes way for another one, while clients send all they can."""

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.faults.models import BUSY, write_model
from tests.support.busy_clients import LOST, OK, REFUSED, BusyClients, HttpPeer, Outcome
from tests.support.deployed_application import DeployedApplication
from tests.support.server import RunningServer

CLIENTS = 16
LIVE = ("GET", "/v2/health/live")


@contextmanager
def busy(http: str, grpc: str) -> Iterator[BusyClients]:
    """16 clients of each protocol that have had answers already."""
    clients = BusyClients(http, grpc, BUSY, concurrency=CLIENTS, patience_s=30)
    try:
        clients.wait_warm(5, 60)
        yield clients
    finally:
        clients.stop()


def failures(outcomes: list[Outcome], *but: str) -> Counter[tuple[str, str, str]]:
    return Counter(
        (each.protocol, each.kind, each.detail) for each in outcomes if each.kind not in (OK, *but)
    )


def test_sigterm_loses_no_answer(tmp_path: Path) -> None:
    write_model(tmp_path, BUSY, instances=2)
    server = RunningServer(tmp_path)
    idle = [HttpPeer(server.http, 10) for _ in range(8)]
    for peer in idle:
        assert peer.exchange(*LIVE)[0] == 200
    with busy(server.http, server.grpc) as clients:
        terminated_s = time.monotonic()
        ending = threading.Thread(target=server.terminate)
        ending.start()
        # Some of them still idle in the drain, some before it has begun: all are answered.
        for peer in idle:
            assert peer.exchange(*LIVE)[0] == 200
            time.sleep(0.05)
        ending.join()
        outcomes = clients.stop()
    assert server.process.returncode == 0
    assert not failures(outcomes, REFUSED)
    first_refused_s = min(each.begin_s for each in outcomes if each.kind == REFUSED)
    assert first_refused_s > terminated_s


def test_drain_delay_serves_while_not_ready(tmp_path: Path) -> None:
    write_model(tmp_path, BUSY)
    server = RunningServer(tmp_path, "--drain-delay-secs=2")
    ending = threading.Thread(target=server.terminate)
    with busy(server.http, server.grpc) as clients:
        ending.start()
        statuses = set()
        not_ready = []
        while ending.is_alive():
            begin_s = time.monotonic()
            try:
                peer = HttpPeer(server.http, 10)
            except OSError:
                break
            ready, _ = peer.exchange("GET", "/v2/health/ready")
            peer.close()
            if ready != 200:
                not_ready.append(begin_s)
                peer = HttpPeer(server.http, 10)
                statuses.add((ready, peer.exchange("GET", "/-/healthz")[0]))
                peer.close()
            time.sleep(0.1)
        ending.join()
        outcomes = clients.stop()
    # 400 is what Triton says of a server that is not ready.
    assert statuses == {(400, 503)}
    assert not_ready[-1] - not_ready[0] > 1
    served_s = [each.begin_s for each in outcomes if each.kind == OK and each.is_first]
    assert any(not_ready[0] < begin_s < not_ready[-1] for begin_s in served_s)
    assert not failures(outcomes, REFUSED)


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


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.mark.parametrize("per_node", [1, 2])
def test_redeploy_refuses_no_connection_and_loses_no_answer(tmp_path: Path, per_node: int) -> None:
    write_model(tmp_path, BUSY, instances=2)
    http_port, grpc_port, metrics_port = free_ports(3)
    http, grpc = f"127.0.0.1:{http_port}", f"127.0.0.1:{grpc_port}"
    arguments = {
        "model_repository": [str(tmp_path)],
        "http_address": "127.0.0.1",
        "grpc_address": "127.0.0.1",
        "http_port": http_port,
        "grpc_port": grpc_port,
        "metrics_port": metrics_port,
        "ingress_per_node": per_node,
    }
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
