# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Looks for the server's secrets wherever somebody beside it could read them."""

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from tests.attack.scene import Scene
from tests.attack.tally import Tally
from tests.attack.wire import Connection, request

# What Ray tells of its drivers and actors: command lines, arguments by name, environments.
_ASK_RAY: Final = """
import sys
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
from ray._private.state import state
print(state.job_table(), state.actor_table(None))
"""
_PAGES: Final = (
    "/v2", "/v2/models/add_sub/config", "/v2/models/add_sub/stats", "/v2/models/stats",
    "/v2/logging", "/v2/trace/setting", "/v2/openapi.json", "/v2/systemsharedmemory/status",
)  # fmt: skip
_TOKEN: Final = Path.home() / ".ray/auth_token"
_MOST_LOG_BYTES: Final = 64 << 20


def look_for_secrets(scene: Scene, tally: Tally) -> None:
    """See the module."""
    for place, text in _places(scene):
        tally.note("looked at")
        for name, secret in scene.secrets.items():
            tally.expect(secret not in text, f"{name} is in {place}")
    for process in scene.server.tree():
        for variable in scene.concealed:
            tally.expect(
                variable not in _environment(process), f"{variable} is inherited by {process}"
            )


def _places(scene: Scene) -> Iterator[tuple[str, str]]:
    yield "what the server prints", "".join(scene.server.lines)
    yield "its log", scene.log.read_text("utf-8", "replace")
    with Connection(scene.server.http) as connection:
        for path in _PAGES:
            answer = connection.ask(request("GET", path, b"", (scene.credential,)))
            yield path, answer.body.decode("utf-8", "replace")
    with urllib.request.urlopen(f"http://{scene.server.metrics}/metrics", timeout=60) as page:
        yield "metrics", page.read().decode()
    processes = [psutil.Process(scene.server.pid), *scene.server.tree()]
    lines = {process.pid: " ".join(_command(process)) for process in processes}
    yield from ((f"the command line of {pid}", line) for pid, line in lines.items())
    raylet = next(line for line in lines.values() if "raylet/raylet" in line)
    yield "Ray's tables", _ask_ray(_option(raylet, "gcs-address"))
    for file in Path(_option(raylet, "log_dir")).rglob("*"):
        if file.is_file() and file.stat().st_size < _MOST_LOG_BYTES:
            yield f"Ray's log {file.name}", file.read_text("utf-8", "replace")


def _ask_ray(address: str) -> str:
    # Ray's token goes to an address only where that is said.
    token = {"RAY_AUTH_MODE": "token"} if _TOKEN.exists() else {}
    asked = subprocess.run(
        [sys.executable, "-c", _ASK_RAY, address],
        capture_output=True,
        text=True,
        env=os.environ | token,
        timeout=120,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr[-500:]
    assert "manta" in asked.stdout, "Ray tells nothing of the server"
    return asked.stdout


def _option(line: str, name: str) -> str:
    found = re.search(rf"--{name}=(\S+)", line)
    assert found is not None, f"raylet has no --{name}"
    return found[1]


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return dict(process.environ())
    except psutil.Error:
        return {}
