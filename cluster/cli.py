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
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from backends.compiled_form import is_compiled
from cluster import __version__

if TYPE_CHECKING:
    from cluster.fork_server.starting import ForkServer
    from cluster.options.table import ServerOptions

# As shells report a command that a signal has ended.
_SIGNAL_EXIT_CODE = 128

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
        _say(error, sys.stderr if error.exit_code else sys.stdout)
        return error.exit_code
    for warning in options.warnings:
        _say(warning, sys.stderr)
    if options.print_options:
        _say(render_options(options))
        return 0
    _conceal(arguments)
    if options.ray_address:
        from cluster.controller.gcs_watch import RECONNECT_S, RECONNECT_VARIABLE  # noqa: PLC0415

        # Before Ray is imported. A cluster's head may be away for minutes and come back.
        os.environ.setdefault(RECONNECT_VARIABLE, f"{RECONNECT_S:g}")
    from cluster.server.ray_environment import begun  # noqa: PLC0415

    # Before anything else has imported Ray; the cluster ends it.
    return _run_server(options, signals, begun(options, os.environ))


def _run_server(
    options: "ServerOptions", signals: _StopSignals, fork_server: "ForkServer | None"
) -> int:
    # Ray takes a second to import; a mistyped flag should not.
    from backends.api.errors import TritonError  # noqa: PLC0415
    from cluster.server.ports import PortInUseError  # noqa: PLC0415
    from cluster.server.ray_cluster import RayCluster  # noqa: PLC0415
    from cluster.server.server import Server, StartInterruptedError  # noqa: PLC0415

    try:
        with Server(
            options,
            os.environ,
            signals.catch,
            signals.came.is_set,
            lambda environment: RayCluster(environment, fork_server),
            say=lambda line: _say(line, sys.stderr),
        ) as server:
            for warning in server.warnings:
                _say(warning, sys.stderr)
            _announce(server.status(), server.addresses)
            signals.came.wait()
            _say("Waiting for in-flight requests to complete.")
    except StartInterruptedError:
        _say("Stopped before the server was ready.", sys.stderr)
        return _SIGNAL_EXIT_CODE + signals.first
    except (TritonError, PortInUseError) as error:
        _say(f"error: creating server: {_describe(error)}", sys.stderr)
        return 1
    return 0


def _conceal(arguments: list[str]) -> None:
    """Take secrets out of the command line and the environment before Ray has them."""
    import setproctitle  # noqa: PLC0415 - only here

    from cluster.options import concealing  # noqa: PLC0415
    from cluster.options.parsing import ENVIRONMENT_PREFIX  # noqa: PLC0415
    from cluster.options.table import FLAGS  # noqa: PLC0415

    shown = concealing.shown_arguments(arguments, FLAGS.values())
    if shown != arguments:
        setproctitle.setproctitle(" ".join(("manta serve", *shown)))
    concealing.conceal_variables(os.environ, FLAGS, ENVIRONMENT_PREFIX)


def _describe(error: Exception) -> str:
    code = getattr(error, "code", "")
    return f"{code} - {error}" if code else str(error)


def _announce(status: list[dict[str, Any]], addresses: dict[str, str]) -> None:
    _say(_table(status))
    names = {"grpc": "GRPCInferenceService", "http": "HTTPService", "metrics": "Metrics Service"}
    for protocol in ("grpc", "http", "metrics"):
        if protocol in addresses:
            _say(f"Started {names[protocol]} at {addresses[protocol]}")
    # One line for programs: tests and scripts read the chosen ports from it.
    _say("MANTA_READY " + json.dumps({**addresses, "pid": os.getpid()}))


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
