# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta load`` and ``manta unload``."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from backends.api.errors import InvalidArgumentError, TritonError, UnavailableError
from cluster.commands.client.command_line import (
    FAILED,
    argument,
    command,
    connect,
    print_json,
    progress,
)
from cluster.commands.client.connection import LONG_TIMEOUT_S, Server
from cluster.commands.client.models import index

_NOT_EXPLICIT = "explicit model load / unload is not allowed"


@command(
    "load",
    "Load models, or load them anew, and wait until they are served.",
    argument("model", nargs="+"),
    argument("--config", metavar="FILE", help="JSON of a config, in the place of the repository's"),
)
def load(given: argparse.Namespace) -> int:
    """Run ``manta load``."""
    parameters: dict[str, Any] = {}
    if given.config:
        text = sys.stdin.read() if given.config == "-" else Path(given.config).read_text("utf-8")
        try:
            parameters["config"] = json.dumps(json.loads(text))
        except ValueError as error:
            raise InvalidArgumentError(f"config '{given.config}' is no JSON: {error}") from None
    return _each(given, "load", parameters)


@command(
    "unload",
    "Unload models, and wait until they have answered what is open.",
    argument("model", nargs="+"),
    argument("--dependents", action="store_true", help="with the models that the steps of it use"),
)
def unload(given: argparse.Namespace) -> int:
    """Run ``manta unload``."""
    return _each(given, "unload", {"unload_dependents": given.dependents})


def _each(given: argparse.Namespace, action: str, parameters: dict[str, Any]) -> int:
    server = connect(given)
    rows = []
    for name in given.model:
        with progress(f"{action}ing {name}"):
            row = {"name": name, **_timed(partial(_do, server, action, name, parameters))}
        rows.append(row)
        if not given.json:
            _say(action, row, server)
    if given.json:
        print_json(rows)
    return FAILED if any(row["error"] for row in rows) else 0


def _do(server: Server, action: str, name: str, parameters: dict[str, Any]) -> None:
    path = f"/v2/repository/models/{quote(name, safe='')}/{action}"
    server.post(path, {"parameters": parameters}, LONG_TIMEOUT_S)


def _timed(call: Callable[[], None]) -> dict[str, Any]:
    began_s = time.monotonic()
    try:
        call()
    except UnavailableError as error:
        if _NOT_EXPLICIT not in error.message:
            # No server: the next model would not find one either.
            raise
        why = f"{error.message}; start the server with --model-control-mode=explicit"
        return {"seconds": 0.0, "error": why}
    except TritonError as error:
        return {"seconds": round(time.monotonic() - began_s, 2), "error": error.message}
    return {"seconds": round(time.monotonic() - began_s, 2), "error": ""}


def _say(action: str, row: dict[str, Any], server: Server) -> None:
    if row["error"]:
        print(f"error: {row['name']}: {' '.join(row['error'].split())}", file=sys.stderr)
        return
    versions = ""
    if action == "load":
        found = [each for each in index(server) if each["name"] == row["name"]]
        numbers = [each.get("version", "") for each in found if each.get("state") == "READY"]
        versions = f" version{'s' * (len(numbers) != 1)} {', '.join(numbers)}" if numbers else ""
    print(f"{action}ed {row['name']}{versions} in {row['seconds']:.1f} s", flush=True)
