# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A node of one's own starts without what only others need, and Ray is as it was afterwards."""

import inspect
import shlex
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray._private import node, parameter, ray_constants, services, worker

from cluster.server import embedded_node as embedded_node_module
from cluster.server import environments_agent, reaper
from cluster.server.embedded_node import embedded_node, has_lost_raylet, logs_folder

AGENT = (
    "--dashboard_agent_command=/bin/python-client -u /ray/dashboard/agent.py --node-ip-address=1"
    " '--session-dir=/tmp/a b/session_1' --node-id=cafe --log-dir=/logs"
)
ENVIRONMENTS_AGENT = (
    "--runtime_env_agent_command=/bin/python-client -u /ray/runtime_env/agent/main.py --node-id=1"
    ' "--logging-format=%(asctime)s - \\"%(message)s\\""'
)


def of_ray() -> list[Any]:
    return [parameter.RayParams, services.start_api_server, services.start_ray_process]


@pytest.mark.parametrize("dashboard", [True, False])
def test_a_node_has_no_monitors_and_its_agent_any_port(dashboard: bool) -> None:
    before = of_ray()
    with embedded_node(dashboard=dashboard):
        options = parameter.RayParams(node_name="n")
    assert options.dashboard_agent_listen_port == 0
    assert (options.no_monitor, options.include_log_monitor) == (True, False)
    assert options.node_name == "n"
    assert of_ray() == before
    others = parameter.RayParams()
    assert others.dashboard_agent_listen_port != 0
    assert not others.no_monitor
    assert others.include_log_monitor is not False


def test_the_agent_for_environments_is_told_a_port_that_no_client_gets() -> None:
    with embedded_node(dashboard=False):
        port = parameter.RayParams().runtime_env_agent_port
    assert 20_000 <= port < int(embedded_node_module._FIRST_OF_CLIENTS.read_text().split()[0])
    assert not parameter.RayParams().runtime_env_agent_port


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_port_that_somebody_has_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        # There is one port to choose from.
        (tmp_path / "range").write_text(f"{port + 1}\t60999\n")
        monkeypatch.setattr(embedded_node_module, "_FIRST_OF_CLIENTS", tmp_path / "range")
        monkeypatch.setattr(embedded_node_module, "_LEAST_PORT", port)
        if not is_taken:
            other.close()
        with embedded_node(dashboard=False):
            # 0 leaves the choice to the agent.
            assert parameter.RayParams().runtime_env_agent_port == (0 if is_taken else port)


def test_a_ray_whose_nodes_do_not_know_an_option_starts_as_it_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Older:
        def __init__(self, no_monitor: bool = False) -> None:
            """The options of a release in which the port is chosen otherwise."""
            self.no_monitor = no_monitor

    monkeypatch.setattr(parameter, "RayParams", Older)
    with embedded_node(dashboard=False):
        assert parameter.RayParams().no_monitor
    assert parameter.RayParams is Older


def test_a_start_that_fails_leaves_ray_as_it_was() -> None:
    before = of_ray()

    def start() -> None:
        with embedded_node(dashboard=False):
            raise RuntimeError("no raylet")

    with pytest.raises(RuntimeError, match="no raylet"):
        start()
    assert of_ray() == before


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What Ray would start."""
    found: list[Any] = []
    monkeypatch.setattr(services, "start_ray_process", lambda *given, **named: found.append(given))
    return found


def test_with_a_dashboard_its_process_and_its_agent_are_started(started: list[Any]) -> None:
    before = services.start_api_server
    with embedded_node(dashboard=True):
        assert services.start_api_server is before
        services.start_ray_process(["raylet", AGENT], "raylet")
    assert started == [(["raylet", AGENT], "raylet")]


@pytest.mark.parametrize("dashboard", [True, False])
def test_the_agent_for_environments_waits_for_a_request(
    started: list[Any], dashboard: bool
) -> None:
    with embedded_node(dashboard=dashboard):
        services.start_ray_process(["raylet", ENVIRONMENTS_AGENT], "raylet")
    (((_, argument), _),) = started
    flag, _, waiting = argument.partition("=")
    assert flag == "--runtime_env_agent_command"
    own = shlex.split(ENVIRONMENTS_AGENT.partition("=")[2])
    assert shlex.split(waiting) == environments_agent.command(own) != own
    assert shlex.split(waiting)[0] == sys.executable


def test_without_a_dashboard_there_is_no_process_of_it_and_the_raylets_agent_is_idle(
    started: list[Any],
) -> None:
    with embedded_node(dashboard=False):
        assert services.start_api_server(True, "raise", "127.0.0.1") == (None, None)
        services.start_ray_process(["raylet", "--x=1", AGENT], "raylet", fate_share=True)
    ((command, kind),) = started
    assert (command[:2], kind) == (["raylet", "--x=1"], "raylet")
    name, _, idle = command[2].partition("=")
    assert name == "--dashboard_agent_command"
    assert shlex.split(idle) == reaper.agent_command("/tmp/a b/session_1", "cafe")
    # Python itself, also while Ray starts the client in its place.
    assert shlex.split(idle)[0] == sys.executable


def test_ray_gives_a_raylet_its_agent_by_that_flag() -> None:
    """What is replaced is what this release of Ray calls and passes."""
    raylet = inspect.getsource(services.start_raylet)
    assert "--dashboard_agent_command=" in raylet
    assert "start_ray_process(" in raylet
    assert {"--session-dir=", "--node-id="} <= {
        each for each in ("--session-dir=", "--node-id=") if each in raylet
    }
    assert "start_api_server(" in inspect.getsource(node.Node.start_api_server)


def test_logs_are_in_the_folder_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    own = SimpleNamespace(get_logs_dir_path=lambda: "/tmp/ray/session_1/logs")
    monkeypatch.setattr(worker, "_global_node", own)
    assert logs_folder() == Path("/tmp/ray/session_1/logs")


@pytest.mark.parametrize(
    ("ended", "is_lost"), [([], False), (["gcs_server"], False), (["gcs_server", "raylet"], True)]
)
def test_a_raylet_that_has_ended_is_lost(
    monkeypatch: pytest.MonkeyPatch, ended: list[str], is_lost: bool
) -> None:
    own = SimpleNamespace(dead_processes=lambda: [(kind, None) for kind in ended])
    monkeypatch.setattr(worker, "_global_node", own)
    assert has_lost_raylet() is is_lost


def test_a_process_without_a_node_has_lost_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_global_node", None)
    assert not has_lost_raylet()
    # The name by which Ray's node knows it.
    assert "PROCESS_TYPE_RAYLET" in inspect.getsource(node.Node.start_raylet)
    assert ray_constants.PROCESS_TYPE_RAYLET == "raylet"
