# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Two nodes of Ray on one machine and a server on them."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil

from tests.chaos import conditions
from tests.chaos.conditions import Conditions
from tests.chaos.load import Address
from tests.chaos.models import write_models
from tests.chaos.network import FarNetwork
from tests.chaos.records import FAR, HEAD
from tests.support.busy_clients import HttpPeer, ask
from tests.support.free_ports import free_ports
from tests.support.ray_nodes import started_head
from tests.support.server import ROOT, RunningServer, title_of

INGRESS: Final = "ray::ServeReplica:manta:Ingress"
CONTROLLER: Final = "ray::ModelController"
SERVE_CONTROLLER: Final = "ray::ServeController"
REPLICAS: Final = 2

# Ray counts a node as lost after about ten seconds of silence; by default it takes half a minute.
_ENVIRONMENT: Final = {
    # Of Ray's workers, which otherwise give way to everything else on the machine.
    "RAY_worker_niceness": "0",
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "10000",
    "RAY_health_check_failure_threshold": "10",
    # A busy machine may take longer than the 30 s that Ray gives a node.
    "RAY_raylet_start_wait_time_s": "120",
}
_STORE_BYTES: Final = 100 << 20
_DISK_BYTES: Final = 96 << 20
_NODE_TIMEOUT_S: Final = 180.0
_CONTROL_TIMEOUT_S: Final = 90.0
_EXIT_TIMEOUT_S: Final = 90.0
_POLL_S: Final = 0.2


class Plant:
    """The cluster and its server.

    Args:
        folder: For the repository and the nodes' caches.
        network: The second node's; None: there is one node only.

    Attributes:
        repository: The models.
        addresses: Node -> where clients reach its ingresses.
        conditions: Node -> the wall clock and the disk that its processes see.
        small_disk: Folder of the head's cache, on a small disk of its own.
        why_no_small_disk: Why it is on none; empty: it is.
    """

    def __init__(self, folder: Path, network: FarNetwork | None) -> None:
        self.network = network
        self.folder = folder
        self.repository = folder / "models"
        write_models(self.repository)
        self._far: subprocess.Popen[bytes] | None = None
        # Undone in the opposite order, each whatever becomes of the others.
        self._undo = ExitStack()
        if network is not None:
            self._undo.callback(network.close)
        self.small_disk = self._cache_of(HEAD)
        self.why_no_small_disk = _mount(self.small_disk)
        if not self.why_no_small_disk:
            self._undo.callback(_unmount, self.small_disk)
        head_ip = network.head_ip if network else "127.0.0.1"
        os.environ.update(_ENVIRONMENT)
        # The GCS keeps what it knows in a folder, so that it may be killed.
        gcs = folder / "gcs"
        gcs.mkdir()
        os.environ.update(RAY_gcs_storage="rocksdb", RAY_gcs_storage_path=str(gcs))
        os.environ["PYTHONPATH"] = f"{conditions.FOLDER}:{ROOT}"
        self.conditions = {
            node: Conditions(folder / f"{node}.conditions", self.repository, self._cache_of(node))
            for node in self._hosts()
        }
        self._server: RunningServer | None = None
        self.addresses: dict[str, Address] = {}
        head = {
            "num_cpus": 4,
            "include_dashboard": False,
            "object_store_memory": _STORE_BYTES,
            "node_ip_address": head_ip,
            "env_vars": {"TMPDIR": str(self.small_disk), **self.conditions[HEAD].environment},
        }
        try:
            self._cluster = started_head(**head)
        except BaseException:
            self._undo.close()
            raise
        self._undo.callback(self._cluster.shutdown)
        self._undo.callback(self._end_far)

    def __enter__(self) -> "Plant":
        try:
            if self.network is not None:
                self.start_far()
            # None that the system gives out: Ray's processes on a node that was lost take those.
            ports = free_ports(3).first
            self._server = RunningServer(
                self.repository,
                "--http-address=0.0.0.0",
                "--grpc-address=0.0.0.0",
                f"--http-port={ports}",
                f"--grpc-port={ports + 1}",
                f"--metrics-port={ports + 2}",
                f"--ray-address={self._cluster.address}",
                "--model-control-mode=explicit",
                "--load-model=*",
                "--allow-client-shm=true",
                f"--ingress-per-node={REPLICAS}",
            )
        except BaseException:
            self.close()
            raise
        for node, host in self._hosts().items():
            http, grpc = (each.rsplit(":", 1)[1] for each in (self.server.http, self.server.grpc))
            self.addresses[node] = Address(f"{host}:{http}", f"{host}:{grpc}")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def server(self) -> RunningServer:
        """The driver."""
        assert self._server is not None
        return self._server

    def _hosts(self) -> dict[str, str]:
        hosts = {HEAD: "127.0.0.1"}
        if self.network is not None:
            hosts[FAR] = self.network.client_ip
        return hosts

    def _cache_of(self, node: str) -> Path:
        path = self.folder / f"temporary-{node}"
        path.mkdir(exist_ok=True)
        return path

    # The second node

    def start_far(self) -> None:
        """Start the second node.

        Raises:
            TimeoutError: Ray does not count it in time.
        """
        assert self.network is not None
        command = [
            *self.network.prefix,
            sys.executable, "-m", "ray.scripts.scripts", "start", "--block",
            f"--address={self._cluster.address}",
            f"--node-ip-address={self.network.far_ip}",
            "--num-cpus=4",
            f"--object-store-memory={_STORE_BYTES}",
            "--min-worker-port=0", "--max-worker-port=0",
            "--disable-usage-stats",
        ]  # fmt: skip
        environment = os.environ | {
            "TMPDIR": str(self._cache_of(FAR)),
            **self.conditions[FAR].environment,
        }
        with (self.folder / "far.log").open("ab") as log:
            self._far = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )
        wait_until(self._counts_far, _NODE_TIMEOUT_S, "the second node is not there")

    def _counts_far(self) -> bool:
        assert self.network is not None
        return bool(self._raylets(FAR)) and any(
            row["Alive"] and row["NodeManagerAddress"] == self.network.far_ip
            for row in self._cluster.global_state.node_table()
        )

    def lose_far(self) -> None:
        """Kill the second node's raylet; what else is there ends with it."""
        assert self._far is not None
        tree = psutil.Process(self._far.pid).children(recursive=True)
        for raylet in self._raylets(FAR):
            raylet.kill()
        _, alive = psutil.wait_procs(tree, timeout=_NODE_TIMEOUT_S)
        for process in alive:
            process.kill()
        self._far.wait(_NODE_TIMEOUT_S)
        self._far = None

    def _end_far(self) -> None:
        if self._far is not None:
            self.lose_far()

    # The GCS

    def kill_gcs(self) -> None:
        """Kill the GCS."""
        self._cluster.head_node.kill_gcs_server(check_alive=False)

    def start_gcs(self) -> None:
        """Start the GCS on the port that it had.

        Raises:
            TimeoutError: It does not run in time.
        """
        self._cluster.head_node.start_gcs_server()
        wait_until(self._has_gcs, _NODE_TIMEOUT_S, "the GCS is not there")

    def _has_gcs(self) -> bool:
        return any(_name(each) == "gcs_server" for each in _children(psutil.Process()))

    # Processes

    def processes(self, title: str = "ray::", node: str = "") -> list[psutil.Process]:
        """Return the processes with a title that begins so, in the order of their ids.

        Args:
            title: What the title begins with.
            node: On which node; empty for both.
        """
        found = []
        for each in [node] if node else [HEAD, FAR]:
            for root in self._roots(each):
                found += [p for p in _children(root) if title_of(p).startswith(title)]
        return sorted(found, key=lambda process: process.pid)

    def node_of(self, process: psutil.Process) -> str:
        """Return the node that a process is on."""
        far = {each.pid for each in self.processes(node=FAR)}
        return FAR if process.pid in far else HEAD

    def _roots(self, node: str) -> list[psutil.Process]:
        """Return whose descendants a node's workers are: forked ones are not the raylet's."""
        raylets = self._raylets(node)
        return [psutil.Process(self._far.pid)] if node == FAR and raylets and self._far else raylets

    def _raylets(self, node: str) -> list[psutil.Process]:
        if node == FAR:
            if self._far is None:
                return []
            return [p for p in _children(psutil.Process(self._far.pid)) if _name(p) == "raylet"]
        return [p for p in psutil.Process().children() if _name(p) == "raylet"]

    # The server

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Send a request to the head; return status and body, or 0 and why there is none."""
        return ask(self.addresses[HEAD].http, method, path, body, _CONTROL_TIMEOUT_S)

    def missing(self, wanted: dict[str, int]) -> str:
        """Return what keeps the server from being whole; empty: nothing.

        Args:
            wanted: Model -> instances that it is to have.
        """
        nodes = list(self.addresses)
        for node in nodes:
            found = self.processes(INGRESS, node)
            if len(found) != REPLICAS:
                return f"{len(found)} of {REPLICAS} ingresses on {node}"
        for model, count in wanted.items():
            found = self.processes(f"ray::{model}/1")
            if len(found) != count:
                names = ", ".join(f"{title_of(each)[5:]} ({each.pid})" for each in found)
                return f"{len(found)} of {count} instances of {model}: {names}"
        for title in (CONTROLLER, SERVE_CONTROLLER):
            if len(self.processes(title)) != 1:
                return f"{len(self.processes(title))} processes '{title}'"
        status, text = self.ask("GET", "/v2/health/ready")
        if status != 200:
            return f"not ready: {status} {text[:200]}"
        status, text = self.ask("POST", "/v2/repository/index", {})
        if status != 200:
            return f"no index: {status} {text[:200]}"
        return "; ".join(
            f"{row['name']}: {row.get('state')} {row['reason']}"
            for row in json.loads(text)
            if row.get("reason")
        )

    def actors(self, states: Collection[str]) -> list[str]:
        """Return the class of each of the server's actors that is in one of these states."""
        table = self._cluster.global_state.actor_table(None)
        return [
            each["ActorClassName"]
            for each in table.values()
            if each["State"] in states and not each["ActorClassName"].startswith("JobSupervisor")
        ]

    def regions(self) -> list[str]:
        """Return the names of the regions that are registered at the head."""
        status, text = self.ask("GET", "/v2/systemsharedmemory/status")
        return [each["name"] for each in json.loads(text)] if status == 200 else []

    def metrics(self) -> str:
        """Return the page of metrics."""
        port = self.server.metrics.rsplit(":", 1)[1]
        peer = HttpPeer(f"127.0.0.1:{port}", _CONTROL_TIMEOUT_S)
        try:
            return peer.exchange("GET", "/metrics")[1].decode()
        finally:
            peer.close()

    def unfinished_files(self) -> list[str]:
        """Return the files that a download or a load has begun and not finished."""
        return [str(each) for each in self.folder.glob("temporary-*/manta-model-cache-*/partial/*")]

    def close(self) -> list[str]:
        """End everything; return what is wrong with the server's end."""
        server, self._server = self._server, None
        with self._undo:
            return [] if server is None else self._end(server)

    def _end(self, server: RunningServer) -> list[str]:
        breaches: list[str] = []
        ours = [process for process in self.processes() if _is_mantas(process)]
        try:
            code = server.terminate(_EXIT_TIMEOUT_S)
            breaches += [f"exit code {code}"] if code else []
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.wait(30)
            breaches.append(f"still there {_EXIT_TIMEOUT_S:g} s after SIGTERM")
        finally:
            (self.folder / "server.log").write_text("".join(server.lines))
        _, alive = psutil.wait_procs(ours, timeout=20)
        return breaches + [f"'{title_of(p)}' outlives the server" for p in alive]

    def keep_logs(self, target: Path) -> None:
        """Copy what was printed."""
        target.mkdir(parents=True, exist_ok=True)
        for log in self.folder.glob("*.log"):
            shutil.copy(log, target)


def _mount(folder: Path) -> str:
    """Mount a small disk; return why not."""
    if os.geteuid():
        return "needs root to mount a small disk"
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "manta-chaos", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=False)


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: It did not in time; the message starts with ``what``.
    """
    until_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until_s:
            raise TimeoutError(f"{what} within {timeout_s:g} s")
        time.sleep(_POLL_S)


def _is_mantas(process: psutil.Process) -> bool:
    ray_itself = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
    return not title_of(process).startswith(ray_itself) and bool(title_of(process))


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""
