# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The agent for runtime environments runs once something is asked of it, as the same process."""

import inspect
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray._private import services
from ray._private.runtime_env import agent as rays_agent

from cluster.server import environments_agent
from tests.support.free_ports import free_ports

# Binds its port as Ray's does, and answers once.
AGENT = """
import json, os, socket, sys
port = int(next(each for each in sys.argv if "-port=" in each).partition("=")[2])
other = socket.socket()
other.bind(("127.0.0.1", 0))
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port or int(os.environ["CHOSEN"])))
listener.listen()
connection, _ = listener.accept()
asked = connection.recv(100).decode()
told = {"pid": os.getpid(), "asked": asked, "arguments": sys.argv, "folder": sys.path[0]}
connection.sendall(json.dumps(told).encode())
"""
# A raylet that starts an agent, says its pid, and lives until it is told to end.
RAYLET = """
import subprocess, sys
agent = subprocess.Popen(sys.argv[1:])
print(agent.pid, flush=True)
input()
"""


@pytest.fixture
def agent(tmp_path: Path) -> list[str]:
    """Ray's command for the agent."""
    script = tmp_path / "runtime_env" / "agent" / "main.py"
    script.parent.mkdir(parents=True)
    script.write_text(AGENT)
    return [
        *("/bin/python-client", "-u", str(script), "--node-id=cafe"),
        *("--node-ip-address=127.0.0.1", f"--runtime-env-agent-port={free_ports(1).first}"),
        f"--session-dir={tmp_path}",
    ]


class Raylet:
    """A process with the agent as its child."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RAYLET, *environments_agent.command(command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.agent = int(self.process.stdout.readline())
        self.ended = os.pidfd_open(self.agent)
        told = folder / "runtime_env_agent_port_cafe"
        while not told.exists():
            assert not select.select([self.ended], [], [], 0.01)[0]
        self.port = int(told.read_text())

    def runs(self) -> list[str]:
        return Path(f"/proc/{self.agent}/cmdline").read_text().split("\0")

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self.ended)


@pytest.fixture
def raylet(agent: list[str], tmp_path: Path) -> Iterator[Raylet]:
    made = Raylet(agent, tmp_path)
    yield made
    made.close()


def ask(port: int) -> dict[str, Any]:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"an environment")
        found: dict[str, Any] = json.loads(connection.makefile().read())
        return found


def test_the_first_request_is_answered_by_the_agent_in_the_process_that_the_raylet_watches(
    raylet: Raylet, agent: list[str]
) -> None:
    assert "-S" in raylet.runs()
    told = ask(raylet.port)
    assert told["pid"] == raylet.agent
    assert told["asked"] == "an environment"
    # As if Ray had started it.
    assert told["arguments"] == agent[2:]
    assert told["folder"] == str(Path(agent[2]).parent)


def test_it_listens_on_the_port_that_the_raylet_was_told(raylet: Raylet, agent: list[str]) -> None:
    assert agent[5] == f"--runtime-env-agent-port={raylet.port}"


def test_it_ends_with_its_raylet(raylet: Raylet) -> None:
    raylet.process.kill()
    assert select.select([raylet.ended], [], [], 30)[0]


def test_without_a_raylet_nobody_is_waited_for(
    agent: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert environments_agent.wait_for_a_request(agent[2:]) is None
    assert (tmp_path / "runtime_env_agent_port_cafe").exists()


@pytest.mark.parametrize(
    "other",
    [["python", "-u", "-m", "memray", "main.py"], ["python", "-u", "/ray/agent.py"], ["python"]],
)
def test_a_command_that_is_not_as_rays_stays_as_it_is(other: list[str]) -> None:
    assert environments_agent.command(other) == other


def test_ray_starts_the_agent_and_binds_its_port_so() -> None:
    """What is stood in for is what this release of Ray does."""
    raylet = inspect.getsource(services.start_raylet)
    assert '"runtime_env", "agent", "main.py"' in raylet
    assert "--runtime_env_agent_command=" in raylet
    for flag in ("--node-ip-address=", "--runtime-env-agent-port=", "--session-dir=", "--node-id="):
        assert flag in raylet
    main = (Path(rays_agent.__file__).parent / "main.py").read_text()
    assert "sock.bind(sockaddr)" in main
    assert "sock=sock" in main
