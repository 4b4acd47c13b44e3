# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta``."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

from backends.compiled_form import is_compiled
from cluster import __version__

# Kubernetes manifests for Triton, KServe's among them, have its command as the first argument.
_SERVE_COMMANDS = ("serve", "tritonserver")

# As argparse ends on a wrong command line.
_USAGE_EXIT_CODE = 2

# By command: the module whose ``main`` takes its arguments. `explain` and `upgrade` need Ray. Other
# distributions have more, `cluster.commands.entry_points`.
_COMMANDS = {
    "check": "cluster.commands.check.command",
    "doctor": "cluster.commands.doctor.command",
    "explain": "cluster.commands.explain",
    "graph": "cluster.commands.graph",
    "model": "cluster.commands.publish.command",
    "node-resources": "cluster.commands.node_resources",
    "replay": "cluster.commands.replay.command",
    "rollout": "cluster.commands.rollout",
    "policy": "cluster.commands.policy.command",
    "upgrade": "cluster.server.upgrade_command",
}

_USAGE = """Usage: manta serve --model-repository PATH [options]
       manta serve --help
       manta analyze MODEL [options] [--help]
       manta analyze profile|report [-f FILE] [options]
       manta analyze plan MODEL --rate N [options]
       manta check REPOSITORY... [--json] [--strict]
       manta model add|ls|show|diff|pull|rm|sign|keygen ... [--help]
       manta graph MODEL [--url HOST:PORT] [--format mermaid|json]
       manta doctor [--running] [--json] [options of serve]
       manta explain MODEL [--ray-address ADDRESS] [--json]
       manta node-resources [--json]
       manta perf -m MODEL [options] [--help]
       manta genai-perf profile -m MODEL [options] [--help]
       manta replay CAPTURES... [--model-version N] [--help]
       manta rollout MODEL get|set FILE|promote|pause|resume|rollback|end [--url HOST:PORT]
       manta policy check|test|new-key|hash ... [--help]
       manta tune MODEL --slo p99:MS --delay-us LEAST:MOST [--apply --journal FILE] [--help]
       manta upgrade [--ray-address ADDRESS] [--status [--json]]
       manta version
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        return _run(argv)
    except BrokenPipeError:
        _forget_output()
        return 0


def _run(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments else ""
    if command.startswith("--") and command not in ("--help", "--version"):
        # tritonserver has no subcommands, and scripts written for it have none either.
        return _serve(arguments)
    if command in _SERVE_COMMANDS:
        return _serve(arguments[1:])
    if command in _COMMANDS:
        own = getattr(import_module(_COMMANDS[command]), "main")  # noqa: B009 - of any module
        code: int = own(arguments[1:])
        return code
    if command in ("version", "--version"):
        form = "compiled" if is_compiled() else "plain"
        _say(f"{__version__} ({form})")
        return 0
    return _run_installed(command, arguments[1:])


def _run_installed(command: str, arguments: list[str]) -> int:
    # Reads what all installed distributions declare: not for the server.
    from cluster.commands import entry_points  # noqa: PLC0415

    is_help = command in ("", "--help", "help")
    try:
        other = None if is_help else entry_points.load(command)
    except entry_points.CommandError as error:
        _say(f"error: {error}", sys.stderr)
        return _USAGE_EXIT_CODE
    if other is not None:
        return other(arguments)
    _say(entry_points.usage(_USAGE))
    return 0 if is_help else 1


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
