# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Secrets of which every one is told from all others, and where somebody could read them."""

import base64
import json
import os
import re
import secrets
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.support.server import RunningServer

# Ray's drivers, actors, workers and tasks, and what lies in its key-value store.
_ASK_RAY: Final = """
import json, sys
import ray
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_list
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
from ray._private.state import state
tables = str((state.job_table(), state.actor_table(None)))
rows = {}
spaces = b"manta serve fun job cluster session dashboard package tracing _ray".split()
for space in (None, *spaces):
    for key in _internal_kv_list(b"", namespace=space):
        value = _internal_kv_get(key, namespace=space)
        name = f"{space and space.decode()}/{key.decode('utf-8', 'replace')}"
        rows[name] = (value or b"").hex()
print(json.dumps({"tables": tables, "rows": rows}))
"""
_LANE_KEY: Final = "manta/controller/secret"
# Where the values of secret options lie, and nowhere else.
_OPTIONS_KEY: Final = "manta/controller/secret-options"
_TOKEN: Final = Path.home() / ".ray/auth_token"
_MOST_FILE_BYTES: Final = 64 << 20
_DASHBOARD: Final = (
    "/api/v0/actors?detail=1", "/api/v0/jobs?detail=1", "/api/v0/tasks?detail=1",
    "/api/v0/workers?detail=1", "/api/v0/nodes?detail=1", "/api/v0/runtime_envs?detail=1",
    "/api/v0/placement_groups?detail=1", "/api/v0/objects?detail=1", "/api/v0/logs", "/api/jobs/",
    "/api/serve/applications/", "/api/cluster_status", "/nodes?view=summary", "/logical/actors",
)  # fmt: skip


@dataclass(frozen=True)
class Mark:
    """A secret.

    Attributes:
        name: What it is.
        forms: As what it would be found.
    """

    name: str
    forms: tuple[bytes, ...]

    def is_in(self, content: bytes) -> bool:
        """Whether any form of it is."""
        return any(form in content for form in self.forms)


def mark_of(name: str, secret: str | bytes) -> Mark:
    """Return the mark of a secret: a text, or bytes, which texts show in hexadecimal or base64."""
    if isinstance(secret, str):
        return Mark(name, (secret.encode(),))
    return Mark(name, (secret, secret.hex().encode(), base64.b64encode(secret).rstrip(b"=")))


def made_mark(name: str, prefix: str = "") -> tuple[str, Mark]:
    """Make a secret that stands nowhere else; return it and its mark."""
    secret = prefix + secrets.token_hex(20)
    return secret, mark_of(name, secret)


def pem_mark(name: str, path: Path) -> Mark:
    """Return the mark of a private key: each line of it."""
    lines = path.read_bytes().splitlines()
    return Mark(name, tuple(line for line in lines if line and not line.startswith(b"-")))


def ray_token() -> Iterator[Mark]:
    """Yield the token that Ray asks for, if there is one."""
    if token := _ray_token():
        yield mark_of("Ray's token", token)


def _ray_token() -> str:
    if token := os.environ.get("RAY_AUTH_TOKEN", ""):
        return token
    return _TOKEN.read_text().strip() if _TOKEN.exists() else ""


@dataclass(frozen=True)
class RayView:
    """What Ray tells of a server.

    Attributes:
        tables: Jobs and actors.
        rows: Of the key-value store, but for those that secrets are kept in.
        lane_secret: That.
    """

    tables: str
    rows: Mapping[str, bytes]
    lane_secret: bytes


def ask_ray(server: RunningServer) -> RayView:
    """Ask the Ray that a server has started.

    Raises:
        AssertionError: It does not answer, or knows nothing of the server.
    """
    # Ray's token goes to an address only where that is said.
    token = {"RAY_AUTH_MODE": "token"} if _ray_token() else {}
    asked = subprocess.run(
        [sys.executable, "-c", _ASK_RAY, _option(_raylet(server), "gcs-address")],
        capture_output=True,
        text=True,
        env=os.environ | token,
        timeout=120,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr[-500:]
    told = json.loads(asked.stdout.splitlines()[-1])
    assert "manta" in told["tables"], "Ray tells nothing of the server"
    rows = {name: bytes.fromhex(value) for name, value in told["rows"].items()}
    rows.pop(_OPTIONS_KEY)
    return RayView(told["tables"], rows, rows.pop(_LANE_KEY))


def places(
    server: RunningServer, ray: RayView, headers: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Yield places that others could read, and what they hold.

    Args:
        server: The server.
        ray: Its Ray.
        headers: Who asks for the metrics.
    """
    yield "what the server prints", "".join(server.lines).encode()
    asked = urllib.request.Request(f"http://{server.metrics}/metrics", headers=dict(headers))
    with urllib.request.urlopen(asked, timeout=60) as page:
        yield "the metrics page", page.read()
    for pid, line in _command_lines(server).items():
        yield f"the command line of {pid}", line.encode()
    yield "Ray's tables", ray.tables.encode()
    for name, value in ray.rows.items():
        yield f"Ray's key-value store, {name}", value
    session = Path(_option(_raylet(server), "log_dir")).parent
    yield from files(session, "Ray's file")
    yield from _dashboard(server)


def files(folder: Path, what: str) -> Iterator[tuple[str, bytes]]:
    """Yield the content of the files below a folder."""
    for file in folder.rglob("*"):
        if file.is_file() and file.stat().st_size < _MOST_FILE_BYTES:
            yield f"{what} {file.relative_to(folder)}", file.read_bytes()


def inherited(server: RunningServer, marks: Iterable[Mark]) -> Iterator[tuple[str, str, str]]:
    """Yield which process has which mark in which variable of its environment."""
    looked_for = tuple(marks)
    for process in server.tree():
        for variable, value in _environment(process).items():
            content = value.encode("utf-8", "surrogateescape")
            for mark in looked_for:
                if mark.is_in(content):
                    yield str(process), variable, mark.name


def variables(server: RunningServer) -> Iterator[tuple[str, str]]:
    """Yield the names of the variables that each process of a server has."""
    for process in server.tree():
        yield from ((str(process), variable) for variable in _environment(process))


def _dashboard(server: RunningServer) -> Iterator[tuple[str, bytes]]:
    """Yield the dashboard's pages, where one runs."""
    lines = _command_lines(server).values()
    line = next((each for each in lines if "dashboard/dashboard.py" in each), "")
    if not line or "--modules-to-load" in line:
        return
    address = _option(line, "host") + ":" + _option(line, "port")
    headers = {"Authorization": f"Bearer {_ray_token()}"} if _ray_token() else {}
    for path in _DASHBOARD:
        request = urllib.request.Request(f"http://{address}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as page:
                yield f"the dashboard's {path}", page.read()
        except urllib.error.HTTPError as error:
            yield f"the dashboard's {path}", error.read()


def _raylet(server: RunningServer) -> str:
    return next(line for line in _command_lines(server).values() if "raylet/raylet" in line)


def _command_lines(server: RunningServer) -> dict[int, str]:
    found = {}
    for process in (psutil.Process(server.pid), *server.tree()):
        try:
            found[process.pid] = " ".join(process.cmdline())
        except psutil.Error:
            continue
    return found


def _option(line: str, name: str) -> str:
    found = re.search(rf"--{name}=(\S+)", line)
    assert found is not None, f"no --{name}: {line[:200]}"
    return found[1]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return dict(process.environ())
    except psutil.Error:
        return {}
