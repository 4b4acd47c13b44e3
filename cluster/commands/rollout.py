# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta rollout``: shows and changes the rollout of a model of a running server, over HTTP."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from cluster.commands.client.command_line import (
    UsageError,
    argument,
    command,
    connect,
    print_json,
)
from cluster.commands.client.connection import model_path

_DESCRIPTION: Final = """Show or change which versions of a model answer requests that name none.
``set`` takes a file with the rollout, YAML or JSON; docs/rollouts.md says what is in it."""

_TIMEOUT_S: Final = 60.0

# By action: HTTP method, and what follows the path of the rollout.
_ACTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "get": ("GET", ""),
    "set": ("PUT", ""),
    "end": ("DELETE", ""),
    "promote": ("POST", "/promote"),
    "pause": ("POST", "/pause"),
    "resume": ("POST", "/resume"),
    "rollback": ("POST", "/rollback"),
}


def document_of(text: str, name: str) -> dict[str, Any]:
    """Return the rollout in a file.

    Raises:
        InvalidArgumentError: It is neither YAML nor JSON, or no mapping.
    """
    import yaml  # noqa: PLC0415 - only for set

    try:
        # JSON is YAML.
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidArgumentError(f"'{name}' is neither YAML nor JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidArgumentError(f"'{name}' has no mapping; it has to describe a rollout")
    return document


@command(
    "rollout",
    _DESCRIPTION,
    argument("model"),
    argument("action", choices=tuple(_ACTIONS)),
    argument("file", nargs="?", help="for set: the rollout; - for standard input"),
)
def main(given: argparse.Namespace) -> None:
    """Run ``manta rollout``; it prints JSON in any case."""
    method, behind = _ACTIONS[given.action]
    body = None if method == "GET" else b""
    if given.action == "set":
        if given.file is None:
            raise UsageError("set expects the file of a rollout; - is standard input.")
        text = sys.stdin.read() if given.file == "-" else Path(given.file).read_text()
        body = json.dumps(document_of(text, given.file)).encode()
    elif given.file is not None:
        raise UsageError(f"{given.action} takes no file.")
    path = f"{model_path(given.model)}/rollout{behind}"
    headers = {"Content-Type": "application/json"}
    print_json(connect(given).ask(method, path, body, headers, _TIMEOUT_S).json())
