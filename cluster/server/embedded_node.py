# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The node that `ray.init` starts for a server of its own, without what only others need.

`ray start` has options for these, `ray.init` has none:

- The dashboard's agent takes port 52365 always. A second Ray on the machine would try that port six
  times, for 3.3 s, give up, and have its raylet wait for it.
- The autoscaler's monitor adds nodes to a cluster that somebody has configured.
- Without its dashboard Ray starts that process all the same, to report how it is used, and an agent
  of it, for which `cluster.server.reaper` stands in.
- The log monitor sends what workers print over the GCS, which `cluster.server.worker_output` reads.

And its agent for runtime environments is told its port: for one that the agent chooses the raylet
waits 15 s, and aborts. A busy machine may take longer to start a Python process. It runs once
something is asked of it (`cluster.server.environments_agent`).
"""

import functools
import inspect
import random
import shlex
import socket
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ray._private import parameter, services, worker

from cluster.server import environments_agent, reaper

_OPTIONS: Final = {
    "dashboard_agent_listen_port": 0,
    "no_monitor": True,
    "include_log_monitor": False,
}
_PORT: Final = "runtime_env_agent_port"
# Behind those of Ray's workers.
_LEAST_PORT: Final = 20_000
_MOST_TRIES: Final = 100
# The kernel gives the ports from here on to whoever connects.
_FIRST_OF_CLIENTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DASHBOARD_AGENT: Final = "--dashboard_agent_command"
_ENVIRONMENTS_AGENT: Final = "--runtime_env_agent_command"
_RAYLET: Final = "raylet"
# Of the command of the dashboard's agent.
_FOLDER: Final = "--session-dir="
_NODE: Final = "--node-id="

# Makes the command that a raylet runs for an agent of the one that Ray gives it.
_Command = Callable[[list[str]], list[str]]


@contextmanager
def embedded_node(*, dashboard: bool) -> Generator[None]:
    """Have `ray.init` start such a node.

    A Ray whose nodes do not know an option starts as it would without it.
    """
    agents: dict[str, _Command] = {_ENVIRONMENTS_AGENT: environments_agent.command}
    if not dashboard:
        agents[_DASHBOARD_AGENT] = _idle
    replaced: list[tuple[Any, str, Any]] = [
        (parameter, "RayParams", _node_options()),
        (services, "start_ray_process", _with_agents(services.start_ray_process, agents)),
    ]
    if not dashboard:
        replaced.append((services, "start_api_server", _no_dashboard))
    own = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, value in replaced:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in own:
            setattr(module, name, value)


def logs_folder() -> Path:
    """Return where the session of the node that this process has started keeps its logs."""
    node: Any = worker._global_node  # noqa: SLF001 - nothing public says it
    return Path(node.get_logs_dir_path())


def has_lost_raylet() -> bool:
    """Whether the raylet that this process has started has ended without being told to."""
    node: Any = worker._global_node  # noqa: SLF001 - as above
    return node is not None and any(kind == _RAYLET for kind, _ in node.dead_processes())


def _node_options() -> Any:
    module: Any = parameter
    known = inspect.signature(module.RayParams).parameters
    options = {**_OPTIONS, _PORT: _free_port()}
    return functools.partial(
        module.RayParams, **{name: value for name, value in options.items() if name in known}
    )


def _free_port() -> int:
    """Return a port that nobody listens on, nor connects from by chance; 0 if none is found."""
    ports = range(_LEAST_PORT, int(_FIRST_OF_CLIENTS.read_text().split()[0]))
    for port in random.SystemRandom().sample(ports, min(len(ports), _MOST_TRIES)):
        with socket.socket() as tried:
            try:
                tried.bind(("", port))
            except OSError:
                continue
            return port
    return 0


def _no_dashboard(*_: Any, **__: Any) -> tuple[None, None]:
    """Return no address and no process."""
    return None, None


def _with_agents(start: Any, agents: Mapping[str, _Command]) -> Any:
    """Return what starts a process of Ray, and a raylet with other commands for its agents."""

    @functools.wraps(start)
    def started(command: list[str], *given: Any, **named: Any) -> Any:
        return start([_replaced(each, agents) for each in command], *given, **named)

    return started


def _replaced(argument: str, agents: Mapping[str, _Command]) -> str:
    """Return an argument of a raylet; that of an agent with what is run in its place."""
    flag, _, words = argument.partition("=")
    if flag not in agents:
        return argument
    return f"{flag}={subprocess.list2cmdline(agents[flag](shlex.split(words)))}"


def _idle(words: list[str]) -> list[str]:
    """Return the command of what stands in for the dashboard's agent."""
    folder, node = (
        next(each.removeprefix(name) for each in words if each.startswith(name))
        for name in (_FOLDER, _NODE)
    )
    return reaper.agent_command(folder, node)
