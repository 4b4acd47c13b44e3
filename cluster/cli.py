# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta``."""

import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from cluster import __version__

# As shells report a command that a signal has ended.
_SIGNAL_EXIT_CODE = 128

# Kubernetes manifests for Triton, KServe's among them, have its command as the first argument.
_SERVE_COMMANDS = ("serve", "tritonserver")

_USAGE = """Usage: manta serve --model-repository PATH [options]
       manta serve --help
       manta graph MODEL [--url HOST:PORT] [--format mermaid|json]
       manta version
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments else ""
    if command.startswith("--") and command not in ("--help", "--version"):
        # tritonserver has no subcommands, and scripts written for it have none either.
        return _serve(arguments)
    if command in _SERVE_COMMANDS:
        return _serve(arguments[1:])
    if command == "graph":
        from cluster.tools.graph import main as graph  # noqa: PLC0415

        return graph(arguments[1:])
    if command in ("version", "--version"):
        print(__version__)
        return 0
    print(_USAGE)
    return 0 if command in ("", "--help", "help") else 1


class _StopSignals:
    """SIGINT and SIGTERM, noted instead of obeyed."""

    def __init__(self) -> None:
        self.came = threading.Event()
        self.first = 0

    def catch(self) -> None:
        """Install the handlers; once more after anybody has put others in their place."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.first = self.first or number
        self.came.set()


def _serve(arguments: list[str]) -> int:
    signals = _StopSignals()
    signals.catch()
    from cluster.options.parsing import OptionError, parse_options, render_options  # noqa: PLC0415

    try:
        options = parse_options(arguments, os.environ, lambda path: Path(path).read_text())
    except OptionError as error:
        print(error, file=sys.stderr if error.exit_code else sys.stdout)
        return error.exit_code
    for warning in options.warnings:
        print(warning, file=sys.stderr)
    if options.print_options:
        print(render_options(options))
        return 0
    # Ray takes a second to import; a mistyped flag should not.
    from backends.api.errors import TritonError  # noqa: PLC0415
    from cluster.server.ports import PortInUseError  # noqa: PLC0415
    from cluster.server.server import Server, StartInterruptedError  # noqa: PLC0415

    try:
        with Server(options, os.environ, signals.catch, signals.came.is_set) as server:
            _announce(server.status(), server.addresses)
            signals.came.wait()
            print("Waiting for in-flight requests to complete.", flush=True)
    except StartInterruptedError:
        print("Stopped before the server was ready.", file=sys.stderr)
        return _SIGNAL_EXIT_CODE + signals.first
    except (TritonError, PortInUseError) as error:
        print(f"error: creating server: {_describe(error)}", file=sys.stderr)
        return 1
    return 0


def _describe(error: Exception) -> str:
    code = getattr(error, "code", "")
    return f"{code} - {error}" if code else str(error)


def _announce(status: list[dict[str, Any]], addresses: dict[str, str]) -> None:
    print(_table(status))
    names = {"grpc": "GRPCInferenceService", "http": "HTTPService", "metrics": "Metrics Service"}
    for protocol in ("grpc", "http", "metrics"):
        if protocol in addresses:
            print(f"Started {names[protocol]} at {addresses[protocol]}")
    # One line for programs: tests and scripts read the chosen ports from it.
    print("MANTA_READY " + json.dumps({**addresses, "pid": os.getpid()}), flush=True)


def _table(status: list[dict[str, Any]]) -> str:
    columns = ("name", "version", "backend", "instances", "state", "reason")
    rows = [[str(row[column]).strip() for column in columns] for row in status]
    # A reason may be a traceback of many lines.
    lines = [
        list(line)
        for row in [[column.capitalize() for column in columns], *rows]
        for line in itertools.zip_longest(*(cell.split("\n") for cell in row), fillvalue="")
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    shown = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    ]
    return "\n".join([rule, shown[0], rule, *shown[1:], rule])
