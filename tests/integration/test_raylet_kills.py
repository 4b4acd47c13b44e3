# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Raylets and drivers are killed, at rest and while ten models load, with fork servers and without.

That of a second node costs what is on the node; that of a server's own Ray is all that it has.
``make test-all`` runs these, with ``MANTA_TESTS=all``.
"""

import contextlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.integration.conftest import write_add_sub
from tests.support.clients import Load, add_sub_inputs, check_add_sub
from tests.support.gates import takes_minutes
from tests.support.head_and_worker import HEAD_IP, SETTINGS, WORKER_IP, HeadAndWorker, on_node
from tests.support.server import ROOT, RunningServer, title_of, until

pytestmark = takes_minutes

TEN = tuple(f"ten_{each}" for each in range(10))
# With an instance on each of two nodes.
LATE = "late"
CLIENTS = 4
INGRESS = "ray::ServeReplica:manta:Ingress"
FORK_SERVER = "manta: fork server"
SOCKET = "MANTA_FORK_SERVER"
# What the raylet and the fork server have started, and what looks after them; not Ray's log
# monitor, which `ray start` leaves to `ray stop`.
OURS = ("ray::", "manta: ")
OF_NODE = ("cluster.fork_server", "default_worker.py", "cluster/server/reaper.py")
HOOK = "RAY_START_HOOK"
SETTING: dict[str, dict[str, str]] = {"forked": {HOOK: "manta.fork_server.begin"}, "plain": {}}
# Of a call while a node dies: the models of that node start anew.
PATIENCE_S = 200.0


@dataclass
class Loading:
    """Models that load at once, each with the one outcome of its call.

    Attributes:
        outcomes: "ok" or an error, by model; one that is not there has not been answered.
    """

    url: str
    outcomes: dict[str, str] = field(default_factory=dict)
    threads: list[threading.Thread] = field(default_factory=list)

    def begin(self) -> None:
        self.threads += [threading.Thread(target=self._load, args=(each,)) for each in TEN]
        for each in self.threads:
            each.start()

    def end(self) -> dict[str, str]:
        """Wait for all answers."""
        for each in self.threads:
            each.join(PATIENCE_S)
        assert not any(each.is_alive() for each in self.threads), "a load hangs"
        return self.outcomes

    def _load(self, model: str) -> None:
        self.outcomes[model] = load(self.url, model)


def load(url: str, model: str) -> str:
    """Load a model; return "ok", or what was said instead."""
    try:
        with triton_http.InferenceServerClient(
            url, connection_timeout=PATIENCE_S, network_timeout=PATIENCE_S
        ) as client:
            client.load_model(model)
    except InferenceServerException as error:
        return str(error)
    except Exception as error:  # whatever the client's transport raises
        return f"connection: {type(error).__name__}"
    return "ok"


def write_models(folder: Path) -> Path:
    for each in ("add_sub", LATE):
        write_add_sub(folder, each, instances=2)
    for each in TEN:
        write_add_sub(folder, each)
    return folder


def socket_of(raylet: psutil.Process) -> Path | None:
    """Return the socket of a raylet's fork server; None where it has none."""
    path = raylet.environ().get(SOCKET)
    return Path(path) if path else None


def is_ours(process: psutil.Process) -> bool:
    title = title_of(process)
    return title.startswith(OURS) or any(each in title for each in OF_NODE)


@dataclass
class TwoNodes:
    """A server on a head and a worker node, whose driver is on the head."""

    nodes: HeadAndWorker
    server: RunningServer

    def raylet(self, node_ip: str) -> psutil.Process:
        (found,) = [each for each in self.nodes.processes(node_ip) if each.name() == "raylet"]
        return found

    def instances(self, model: str, node_ip: str) -> list[psutil.Process]:
        return self.nodes.workers(node_ip, f"ray::{model}/1#")

    def infer(self, model: str) -> None:
        with triton_http.InferenceServerClient(self.server.http, network_timeout=60) as client:
            check_add_sub(client.infer(model, add_sub_inputs(triton_http)))

    def lose(self, node_ip: str) -> None:
        """Kill a node's raylet; nothing of ours may be left of the node."""
        raylet = self.raylet(node_ip)
        socket = socket_of(raylet)
        assert (socket is not None) == bool(self.nodes.workers(node_ip, FORK_SERVER))
        raylet.kill()
        until(
            lambda: not [each for each in self.nodes.processes(node_ip) if is_ours(each)],
            "processes of the dead node are left",
        )
        if socket is not None:
            until(lambda: not socket.parent.exists(), f"{socket.parent} is left")

    def return_worker(self) -> None:
        """Start the second node again, and wait for its ingress."""
        self.nodes.start_worker()
        until(lambda: self.listens(WORKER_IP), "no ingress on the second node")

    def listens(self, node_ip: str) -> bool:
        """Return whether a node's ingress takes connections: it has its title long before."""
        port = int(self.server.http.rpartition(":")[2])
        return any(
            connection.laddr.port == port and connection.status == psutil.CONN_LISTEN
            for each in self.nodes.workers(node_ip, INGRESS)
            for connection in each.net_connections("tcp")
        )

    def loads(self, model: str = "add_sub") -> list[Load]:
        found = [
            Load(self.server.http, model, concurrency=CLIENTS),
            Load(self.server.grpc, model, protocol="grpc", concurrency=CLIENTS),
        ]
        for each in found:
            each.wait_for(100)
        return found


def costs(loads: list[Load]) -> dict[str, int]:
    """Return how requests have ended that were not answered; each has ended once."""
    for each in loads:
        each.wait_for(100)
    outcomes = sum((each.stop() for each in loads[1:]), loads[0].stop())
    assert outcomes.pop("ok")
    return dict(outcomes)


@pytest.fixture(scope="module", params=SETTING)
def two_nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoNodes]:
    repository = write_models(tmp_path_factory.mktemp("models"))
    setting = {"PYTHONPATH": str(ROOT), **SETTING[request.param]}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(HOOK, raising=False)
        started = HeadAndWorker("memory", setting)
    with started as nodes:
        nodes.start_head()
        nodes.start_worker()
        server = RunningServer(
            repository,
            "--model-control-mode=explicit",
            "--load-model=add_sub",
            manta=(sys.executable, "-c", on_node(HEAD_IP), nodes.address),
            environment={**os.environ, **SETTINGS},
        )
        found = TwoNodes(nodes, server)
        has_one = bool(nodes.workers(WORKER_IP, FORK_SERVER))
        assert has_one == (request.param == "forked")
        yield found
        if server.process.poll() is None:
            # A test that failed may have left it without its Ray, for which it would wait.
            server.process.kill()
            server.wait(30)


def test_a_second_nodes_raylet_that_is_killed_costs_its_connections_and_is_made_up_for(
    two_nodes: TwoNodes,
) -> None:
    until(lambda: all(map(two_nodes.listens, (HEAD_IP, WORKER_IP))))
    assert len(two_nodes.instances("add_sub", WORKER_IP)) == 1
    loads = two_nodes.loads()
    two_nodes.lose(WORKER_IP)
    until(lambda: len(two_nodes.instances("add_sub", HEAD_IP)) == 2, "the instance is not replaced")
    lost = costs(loads)
    assert sum(lost.values()) <= 2 * CLIENTS, lost


def test_a_second_nodes_raylet_that_is_killed_while_ten_models_load_hangs_none(
    two_nodes: TwoNodes,
) -> None:
    nodes = two_nodes.nodes
    two_nodes.return_worker()
    loads, loading = two_nodes.loads(), Loading(two_nodes.server.http)
    loading.begin()
    until(lambda: nodes.workers(WORKER_IP, "ray::ten_"), "nothing begins on the second node")
    two_nodes.lose(WORKER_IP)
    outcomes = loading.end()
    assert set(outcomes) == set(TEN)
    for each in TEN:
        # Asked over the ingress of the dead node, or of its connection.
        if outcomes[each] != "ok":
            assert outcomes[each].startswith(("connection: ", "[503]")), outcomes
            assert load(two_nodes.server.http, each) == "ok"
        two_nodes.infer(each)
        assert len(two_nodes.instances(each, HEAD_IP)) == 1
    lost = costs(loads)
    assert sum(lost.values()) <= 2 * CLIENTS, lost


def test_the_heads_raylet_that_is_killed_leaves_what_the_other_node_serves(
    two_nodes: TwoNodes,
) -> None:
    """The controller is gone with it, and Ray restarts that on a head alone."""
    url = two_nodes.server.http
    two_nodes.return_worker()
    assert load(url, LATE) == "ok"
    assert len(two_nodes.instances(LATE, WORKER_IP)) == 1
    loads = two_nodes.loads(LATE)
    two_nodes.lose(HEAD_IP)
    lost = costs(loads)
    assert sum(lost.values()) <= 2 * CLIENTS, lost
    said = load(url, TEN[0])
    assert said.startswith("[503]"), said
    assert "try again" in said
    two_nodes.server.process.kill()
    two_nodes.server.wait(30)


def of_server(folder: str) -> list[psutil.Process]:
    """Return the processes of a server whose temporary files are in a folder of their own."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            is_one = each.environ().get("TMPDIR") == folder
            if is_one and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found


@contextlib.contextmanager
def served(setting: str, repository: Path, folder: str) -> Iterator[RunningServer]:
    """Serve on a Ray of the server's own, and leave nothing of it whatever has failed."""
    try:
        yield RunningServer(
            repository,
            "--model-control-mode=explicit",
            "--load-model=add_sub",
            *(("--no-fork-server",) if setting == "plain" else ()),
            environment={**os.environ, "TMPDIR": folder},
        )
    finally:
        for each in of_server(folder):
            with contextlib.suppress(psutil.Error):
                each.kill()


@pytest.mark.parametrize("setting", SETTING)
@pytest.mark.parametrize("is_loading", [False, True], ids=["at_rest", "while_ten_models_load"])
@pytest.mark.parametrize("victim", ["raylet", "driver"])
def test_a_server_that_loses_its_own_raylet_or_its_driver_ends_and_leaves_nothing(
    setting: str, is_loading: bool, victim: str, tmp_path: Path
) -> None:
    """Nobody starts a raylet again: whoever supervises the server starts that anew."""
    with (
        # Paths of Ray's sockets have to be short.
        tempfile.TemporaryDirectory(prefix="raylet-", ignore_cleanup_errors=True) as folder,
        served(setting, write_models(tmp_path), folder) as server,
    ):
        (raylet,) = [each for each in server.tree() if each.name() == "raylet"]
        assert (socket_of(raylet) is not None) == (setting == "forked")
        clients, loading = Load(server.http, "add_sub", concurrency=CLIENTS), Loading(server.http)
        clients.wait_for(100)
        if is_loading:
            loading.begin()
            until(lambda: server.processes("ray::ten_"), "nothing begins to load")
        if victim == "driver":
            os.kill(server.pid, signal.SIGKILL)
            server.wait(30)
        else:
            raylet.kill()
            assert server.wait(30) == 1
            assert any("raylet of this server's own Ray has ended" in each for each in server.lines)
        until(lambda: not of_server(folder), "processes are left")
        until(lambda: not list(Path(folder).glob("manta-fork-*")), "a folder is left")
        clients.stop()
        assert set(loading.end()) == (set(TEN) if is_loading else set())
