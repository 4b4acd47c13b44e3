# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The order in which a server starts and ends, without Ray."""

import queue
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from cluster.controller.ownership import LEASE_S, Owner
from cluster.options.parsing import from_mapping
from cluster.server import server as server_module
from cluster.server.ports import PortInUseError
from cluster.server.ray_environment import RAY_ENVIRONMENT
from cluster.server.server import RayletLostError, Server, StartInterruptedError

OTHER = {"name": "n", "state": "UNAVAILABLE", "reason": "no file\n"}
READY = {"name": "m", "state": "READY", "reason": ""}
FAILED = {"name": "m", "state": "UNAVAILABLE", "reason": "broken"}


class FakeController:
    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.rows: list[dict[str, Any]] = [READY]
        self.are_loaded = False
        self.nice = 0
        self.reconnect_s = 600.0

    def begin_loading(self) -> None:
        self.log.append("load")

    def has_loaded(self) -> bool:
        return self.are_loaded

    def wait_loaded(self, check: Any) -> list[dict[str, Any]]:
        check()
        self.log.append("loaded")
        return self.rows

    def status(self) -> list[dict[str, Any]]:
        return self.rows

    def process_settings(self) -> tuple[int, float]:
        return self.nice, self.reconnect_s

    def heartbeat(self) -> None:
        pass

    def is_there(self) -> bool:
        return True

    def is_left(self) -> bool:
        return True

    def make_another(self) -> None:
        self.log.append("another")


class FakeCluster:
    """Notes what is asked of it, in order; any step may be made to fail."""

    def __init__(self, *, is_connected: bool = False) -> None:
        self.log: list[str] = []
        self.controller = FakeController(self.log)
        self.is_connected = is_connected
        self.is_own = False
        self.starts_serve = True
        self.errors: dict[str, Exception] = {}
        self.owner: Owner | None = None
        self.deaths: list[bool] = []
        self.has_raylet = lambda: True

    address = "127.0.0.1:6379"

    def start(self, options: Any) -> None:
        self.is_own = self.is_connected = True
        self._do("start")

    def join(self, address: str) -> None:
        self._do(f"join {address}")

    def ask_head(self) -> None:
        pass

    def has_restarted_fork_server(self) -> bool:
        return bool(self.deaths) and self.deaths.pop()

    def has_lost_raylet(self) -> bool:
        return not self.has_raylet()

    def require_unclaimed(self) -> None:
        self._do("require unclaimed")

    def look_for_serve(self) -> None:
        self._do("look for serve")

    def take(self, options: Any, owner: Owner) -> FakeController:
        self.owner = owner
        self._do("take")
        return self.controller

    def deploy(self, options: Any, check: Any) -> None:
        self._do("deploy")

    def has_started(self) -> None:
        pass

    def end(self, controller: FakeController, timeout_s: float) -> None:
        self._do("end")

    def leave(self) -> None:
        self._do("leave")

    def _do(self, step: str) -> None:
        self.log.append(step)
        if step in self.errors:
            raise self.errors[step]


@pytest.fixture
def cluster():
    return FakeCluster()


def server_on(
    cluster: FakeCluster,
    folder: Path,
    is_interrupted=lambda: False,
    say=lambda line: None,
    on_phase=lambda what: None,
    **options,
) -> Server:
    given = {
        "model_repository": str(folder),
        "http_address": "127.0.0.1",
        "grpc_address": "127.0.0.1",
        **{f"{name}_port": 0 for name in ("http", "grpc", "metrics")},
        **options,
    }
    return Server(
        from_mapping(given),
        {},
        lambda: cluster.log.append("ray started"),
        is_interrupted,
        lambda environment: cluster,
        say,
        on_phase,
    )


def test_models_load_while_serve_starts(cluster, tmp_path):
    with server_on(cluster, tmp_path) as server:
        assert cluster.log == ["start", "ray started", "take", "load", "deploy", "loaded"]
        assert all(":0" not in address for address in server.addresses.values())
        assert cluster.owner.lease_s == 0
    assert cluster.log[6:] == ["end", "leave"]


def test_a_joined_cluster_is_looked_at_before_ports_are_taken(cluster, tmp_path):
    with server_on(cluster, tmp_path, ray_address="auto"):
        assert cluster.log[:3] == ["join auto", "ray started", "require unclaimed"]
        assert cluster.log[3:] == ["look for serve", "take", "load", "deploy", "loaded"]
        assert cluster.owner.lease_s == LEASE_S


def test_a_process_that_is_part_of_a_cluster_joins_it(tmp_path):
    cluster = FakeCluster(is_connected=True)
    with server_on(cluster, tmp_path):
        assert cluster.log[0] == "join "


def started(cluster, folder, error, **options) -> str:
    with pytest.raises(error) as raised, server_on(cluster, folder, **options):
        pass
    return str(raised.value)


def test_a_missing_repository_is_said_before_ray_starts(cluster, tmp_path):
    text = started(cluster, tmp_path / "none", InternalError)
    assert text.startswith("failed to open directory")
    assert cluster.log == ["leave"]


def test_a_tls_file_that_cannot_be_used_is_said_before_ray_starts(cluster, tmp_path):
    tls = {"http_use_ssl": True, "http_server_cert": "/none", "http_server_key": "/none"}
    assert "--http-server-cert" in started(cluster, tmp_path, InvalidArgumentError, **tls)
    assert cluster.log == ["leave"]


def test_a_port_in_use_is_said_before_ray_starts(cluster, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert "--http-port" in started(cluster, tmp_path, PortInUseError, http_port=port)
    assert cluster.log == ["leave"]


def test_a_server_that_cannot_be_deployed_is_ended(cluster, tmp_path):
    cluster.errors["deploy"] = InternalError("the ingress cannot start")
    started(cluster, tmp_path, TritonError)
    assert cluster.log[-2:] == ["end", "leave"]


def test_ray_is_left_also_when_the_end_fails(cluster, tmp_path):
    cluster.errors["end"] = RuntimeError("a bug")
    started(cluster, tmp_path, RuntimeError)
    assert cluster.log[-1] == "leave"


@pytest.mark.parametrize("exits", [True, False])
def test_a_model_that_failed_ends_the_start_unless_told_otherwise(cluster, tmp_path, exits):
    cluster.controller.rows = [FAILED]
    if exits:
        text = started(cluster, tmp_path, InternalError)
        assert text == "failed to load all models: m: broken"
        return
    with server_on(cluster, tmp_path, exit_on_error=False) as server:
        assert server.status() == [FAILED]


def test_each_of_several_models_that_failed_is_a_paragraph(cluster, tmp_path):
    cluster.controller.rows = [FAILED, READY, OTHER]
    text = started(cluster, tmp_path, InternalError)
    assert text == "failed to load all models:\n\nm: broken\n\nn: no file"


def test_phases_of_a_start_are_told_as_they_end(cluster, tmp_path):
    phases = []
    with server_on(cluster, tmp_path, on_phase=phases.append):
        assert phases == ["Ray started at 127.0.0.1:6379", "ports open"]


@pytest.mark.parametrize("after", ["", "start", "load", "deploy"])
def test_a_signal_while_starting_ends_what_was_started(cluster, tmp_path, after):
    def is_interrupted() -> bool:
        return not after or after in cluster.log

    started(cluster, tmp_path, StartInterruptedError, is_interrupted=is_interrupted)
    assert cluster.log[-1] == "leave"
    assert ("end" in cluster.log) == ("take" in cluster.log)
    assert "loaded" not in cluster.log


def test_a_signal_once_all_models_are_loaded_ends_a_server_that_is_ready(cluster, tmp_path):
    cluster.controller.are_loaded = True
    with server_on(cluster, tmp_path, is_interrupted=lambda: "deploy" in cluster.log):
        assert "loaded" in cluster.log
    assert cluster.log[-1] == "leave"


@pytest.mark.parametrize("after", ["start", "deploy", "loaded"])
def test_a_raylet_that_ends_ends_the_start_or_the_server(cluster, tmp_path, monkeypatch, after):
    monkeypatch.setattr(server_module, "_LOOK_S", 0.01)
    cluster.has_raylet = lambda: after not in cluster.log
    if after == "loaded":
        with server_on(cluster, tmp_path) as server, pytest.raises(RayletLostError):
            server.serve(threading.Event())
        return
    assert "start the server anew" in started(cluster, tmp_path, RayletLostError)
    assert cluster.log[-1] == "leave"
    assert "loaded" not in cluster.log


def test_a_server_serves_until_it_is_told_to_stop(cluster, tmp_path):
    with server_on(cluster, tmp_path) as server:
        told = threading.Event()
        told.set()
        server.serve(told)
    assert cluster.log[-1] == "leave"


@pytest.mark.parametrize(("nice", "count"), [(15, 1), (0, 0)])
def test_processes_that_ray_has_niced_are_warned_of(cluster, tmp_path, nice, count):
    cluster.controller.nice = nice
    with server_on(cluster, tmp_path, ray_address="auto") as server:
        assert len(server.warnings) == count
        assert all("RAY_worker_niceness=0" in warning for warning in server.warnings)


def test_a_cluster_that_does_not_wait_for_its_head_is_warned_of(cluster, tmp_path):
    cluster.controller.reconnect_s = 60.0
    with server_on(cluster, tmp_path, ray_address="auto") as server:
        (warning,) = server.warnings
    assert "RAY_gcs_rpc_server_reconnect_timeout_s=600" in warning


def test_an_embedded_ray_does_not_nice_its_workers():
    assert RAY_ENVIRONMENT["RAY_worker_niceness"] == "0"


def test_a_fork_server_that_was_started_anew_is_said(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(server_module, "HEARTBEAT_S", 0.01)
    cluster.deaths = [True]
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    with server_on(cluster, tmp_path, say=said.put):
        assert said.get(timeout=30) == "The fork server had ended: another one was started."
    assert said.empty()
