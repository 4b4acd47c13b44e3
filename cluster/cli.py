# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta``."""

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

from backends.compiled_form import is_compiled
from cluster import SIGNAL_EXIT_CODE, __version__

# Kubernetes manifests for Triton, KServe's among them, have its command as the first argument.
_SERVE_COMMANDS = ("serve", "tritonserver")

_HELP = ("", "help", "-h", "--help")

# As argparse ends on a wrong command line.
_USAGE_EXIT_CODE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        return _run(argv)
    except BrokenPipeError:
        _forget_output()
        return 0
    except KeyboardInterrupt:
        return SIGNAL_EXIT_CODE + signal.SIGINT


def _run(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments else ""
    if command.startswith("--") and command not in ("--help", "--version"):
        # tritonserver has no subcommands, and scripts written for it have none either.
        return _serve(arguments)
    if command in _SERVE_COMMANDS:
        return _serve(arguments[1:])
    if command in _HELP:
        return _help(arguments[1:])
    if command in ("version", "--version"):
        form = "compiled" if is_compiled() else "plain"
        _say(f"{__version__} ({form})")
        return 0
    return _run_other(command, arguments[1:])


def _run_other(command: str, arguments: list[str]) -> int:
    # Of these the server needs none.
    from cluster.commands import table  # noqa: PLC0415

    row = table.BY_NAME.get(command)
    if row is None or not row.where:
        return _run_installed(command, arguments)
    module, _, function = row.where.partition(":")
    code: int = getattr(import_module(module), function)(arguments)
    return code


def _run_installed(command: str, arguments: list[str]) -> int:
    # Reads what all installed distributions declare.
    from cluster.commands import entry_points, table  # noqa: PLC0415

    try:
        other = entry_points.load(command)
    except entry_points.CommandError as error:
        _say(f"error: {error}", sys.stderr)
        return _USAGE_EXIT_CODE
    if other is not None:
        return other(arguments)
    _say(f"error: {table.unknown(command, entry_points.installed())}", sys.stderr)
    return _USAGE_EXIT_CODE


def _help(arguments: list[str]) -> int:
    if arguments and not arguments[0].startswith("-"):
        return _run([arguments[0], "--help"])
    from cluster.commands import entry_points, table  # noqa: PLC0415 - not for the server

    _say(table.help_text(entry_points.installed()))
    return 0


def _say(text: object, stream: TextIO | None = None) -> None:
    """Print a line; who has stopped reading, as ``| head`` does, is no error."""
    try:
        # In one piece: Ray prints what workers log from a thread of its own.
        print(f"{text}\n", end="", file=stream, flush=True)
    except BrokenPipeError:
        _forget_output()


def _forget_output() -> None:
    """Send what is still buffered nowhere: the interpreter writes it out when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def _serve(arguments: list[str]) -> int:
    from cluster.serving.command import serve  # noqa: PLC0415

    return serve(arguments, _say)
