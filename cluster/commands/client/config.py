# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta config``: the config that a model is served with, and what a file would change in it."""

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backends.api.errors import InvalidArgumentError
from cluster.commands.client.command_line import (
    FAILED,
    add_json,
    add_server,
    connect,
    make_parser,
    print_json,
    run,
)
from cluster.commands.client.connection import Server
from cluster.commands.client.models import described

_SHOW = "print the config that a model is served with, defaults included, as config.pbtxt"
_DIFF = "compare it with a config.pbtxt, whose defaults are filled in; exit code 1 if they differ"


def main(arguments: Sequence[str]) -> int:
    """Run ``manta config``."""
    parser = make_parser("config", "Print or compare the configs of models.")
    commands = parser.add_subparsers(required=True, metavar="show|diff", dest="command")
    for name, meaning, command in (("show", _SHOW, _show), ("diff", _DIFF, _diff)):
        made = commands.add_parser(name, help=meaning, description=meaning)
        made.set_defaults(run=command)
        made.add_argument("model")
        if name == "diff":
            made.add_argument("file", help="a config.pbtxt, the folder it is in, or -")
        made.add_argument("--version", default="", metavar="N")
        add_json(made)
        add_server(made)
    return run(parser, arguments, lambda given: given.run(given))


def _served(server: Server, given: argparse.Namespace) -> dict[str, Any]:
    return described(server, given.model, given.version, "/config")


def _show(given: argparse.Namespace) -> int:
    found = _served(connect(given), given)
    if given.json:
        print_json(found)
    else:
        print("\n".join(_lines(found)))
    return 0


def _diff(given: argparse.Namespace) -> int:
    from backends.config.normalisation import infer_backend, normalise  # noqa: PLC0415 - protobuf
    from backends.config.pbtxt import edit, parse_pbtxt, to_pbtxt  # noqa: PLC0415 - likewise

    found = _served(connect(given), given)
    path = Path(given.file)
    path = path / "config.pbtxt" if path.is_dir() else path
    text = sys.stdin.read() if given.file == "-" else path.read_text("utf-8")
    named = edit(
        parse_pbtxt(text, str(path)),
        lambda message: setattr(message, "name", message.name or found["name"]),
    )
    own = normalise(infer_backend(named, None), gpu_ids=())
    lines = list(
        difflib.unified_diff(
            to_pbtxt(own).rstrip().splitlines(), _lines(found), str(path), "served", lineterm=""
        )
    )
    if given.json:
        print_json({"differs": bool(lines), "diff": lines})
    else:
        print("\n".join(lines) if lines else f"'{given.model}' is served as {path} says")
    return FAILED if lines else 0


def _lines(config: dict[str, Any]) -> list[str]:
    from backends.config.pbtxt import from_json, to_pbtxt  # noqa: PLC0415 - with protobuf

    try:
        return to_pbtxt(from_json(json.dumps(config))).rstrip().splitlines()
    except InvalidArgumentError:
        # Of a server that knows fields which are not known here.
        return json.dumps(config, indent=2).splitlines()
