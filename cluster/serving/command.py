# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta serve``.

What it says while it starts is made in `cluster.serving.texts`: one line at once, one a phase, the
log's line a model, where the server is, lines for programs, and a command to try.
"""

import contextlib
import http.client
import json
import logging
import os
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TextIO
from urllib.parse import quote

from cluster import SIGNAL_EXIT_CODE, __version__

if TYPE_CHECKING:
    from cluster.fork_server.starting import ForkServer
    from cluster.options.table import ServerOptions

_JSON: Final = "json"
# All that a command to try may take to be found.
_EXAMPLE_S: Final = 1.0
# Models that are asked for their config, to find one for the command to try.
_ASKED_MODELS: Final = 16

Say = Callable[..., None]

_log = logging.getLogger(__name__)


class StopSignals:
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


class Speaker:
    """Says lines, as the options would have them.

    Args:
        say: Prints a text to a stream.
        is_json: Whether each is a JSON object.
        started_s: When the start began.
    """

    def __init__(self, say: Say, *, is_json: bool, started_s: float) -> None:
        self._say = say
        self._is_json = is_json
        self._started_s = started_s

    @property
    def passed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started_s

    def tell(self, text: str) -> None:
        """Say what goes well."""
        self._print(text, "info", sys.stdout)

    def warn(self, text: str) -> None:
        """Say what does not."""
        self._print(text, "warning", sys.stderr)

    def fail(self, text: str) -> None:
        """Say why the server does not run."""
        self._print(text, "error", sys.stderr)

    def phase(self, what: str) -> None:
        """Say that a phase of the start has ended."""
        from cluster.serving.texts import phase_line  # noqa: PLC0415

        self.tell(phase_line(what, self.passed_s))

    def _print(self, text: str, level: str, stream: TextIO) -> None:
        if self._is_json:
            from deployments.settings.json_lines import said  # noqa: PLC0415

            text = said(text, level, time.time_ns())
        self._say(text, stream)


def serve(arguments: list[str], say: Say) -> int:
    """Run a server until it is told to stop.

    Args:
        arguments: Those after the command.
        say: Prints a text to a stream, and minds no reader that has gone.

    Returns:
        The exit code.
    """
    started_s = time.monotonic()
    signals = StopSignals()
    signals.catch()
    from cluster.options.parsing import OptionError, parse_options, render_options  # noqa: PLC0415

    try:
        options = parse_options(arguments, os.environ, lambda path: Path(path).read_text())
    except OptionError as error:
        say(error, sys.stderr if error.exit_code else sys.stdout)
        return error.exit_code
    if options.print_options:
        _say_warnings(options, lambda text: say(text, sys.stderr))
        say(render_options(options))
        return 0
    speaker = Speaker(say, is_json=options.log_format == _JSON, started_s=started_s)
    _say_first(options, speaker)
    _say_warnings(options, speaker.warn)
    _conceal(arguments)
    if options.ray_address:
        from cluster.controller.gcs_watch import RECONNECT_S, RECONNECT_VARIABLE  # noqa: PLC0415

        # Before Ray is imported. A cluster's head may be away for minutes and come back.
        os.environ.setdefault(RECONNECT_VARIABLE, f"{RECONNECT_S:g}")
    return _run(options, signals, speaker, say)


def _run(options: "ServerOptions", signals: StopSignals, speaker: Speaker, say: Say) -> int:
    from cluster.serving.beforehand import Look, find_problems  # noqa: PLC0415

    look = Look(lambda: find_problems(options))
    from cluster.server.ray_environment import begun  # noqa: PLC0415

    # Before anything else has imported Ray; the cluster ends it.
    fork_server = begun(options, os.environ)
    problems = look.wait()
    if problems is not None and (problems.general or problems.models):
        if fork_server is not None:
            fork_server.end()
        speaker.fail(f"error: creating server: {problems}")
        return 1
    return _run_server(options, signals, fork_server, speaker, say)


def _run_server(
    options: "ServerOptions",
    signals: StopSignals,
    fork_server: "ForkServer | None",
    speaker: Speaker,
    say: Say,
) -> int:
    if options.log_format == _JSON:
        from deployments.settings.log_lines import log_until_told  # noqa: PLC0415

        log_until_told("WARNING", _JSON)
    # Ray takes a second to import; a mistyped flag should not.
    from backends.api.errors import TritonError  # noqa: PLC0415
    from cluster.server.ports import PortInUseError  # noqa: PLC0415
    from cluster.server.ray_cluster import RayCluster  # noqa: PLC0415
    from cluster.server.server import (  # noqa: PLC0415
        RayletLostError,
        Server,
        StartInterruptedError,
    )

    try:
        with Server(
            options,
            os.environ,
            signals.catch,
            signals.came.is_set,
            lambda environment: RayCluster(environment, fork_server),
            say=speaker.warn,
            on_phase=speaker.phase,
        ) as server:
            for warning in server.warnings:
                speaker.warn(warning)
            _say_ready(options, server.status(), server.addresses, speaker, say)
            server.serve(signals.came)
            speaker.tell("Waiting for in-flight requests to complete.")
    except StartInterruptedError:
        speaker.warn("Stopped before the server was ready.")
        return SIGNAL_EXIT_CODE + signals.first
    except RayletLostError as error:
        speaker.fail(f"Error: {error}.")
        return 1
    except (TritonError, PortInUseError) as error:
        speaker.fail(f"error: creating server: {_describe(error)}")
        return 1
    return 0


def _say_first(options: "ServerOptions", speaker: Speaker) -> None:
    from cluster.options.concealing import without_user  # noqa: PLC0415
    from cluster.serving.beforehand import count_models  # noqa: PLC0415
    from cluster.serving.texts import first_line  # noqa: PLC0415

    rows = [(without_user(place), count_models(place)) for place in options.model_repository]
    speaker.tell(first_line(__version__, rows))


def _say_warnings(options: "ServerOptions", warn: Callable[[str], None]) -> None:
    for warning in options.warnings:
        warn(warning)


def _say_ready(
    options: "ServerOptions",
    rows: Sequence[dict[str, Any]],
    addresses: dict[str, str],
    speaker: Speaker,
    say: Say,
) -> None:
    from cluster.options.checks import TLS_PORTS  # noqa: PLC0415
    from cluster.serving.texts import Ready, started_lines  # noqa: PLC0415

    has_tls = frozenset(name for name in TLS_PORTS if getattr(options, f"{name}_use_ssl"))
    ready = Ready(rows, addresses, has_tls, speaker.passed_s)
    is_json = options.log_format == _JSON
    if is_json:
        speaker.tell("; ".join((ready.summary(), *ready.failures(), *ready.urls().values())))
    else:
        speaker.tell(ready.box())
    for line in started_lines(addresses):
        speaker.tell(line)
    # One line for programs: tests and scripts read the chosen ports from it.
    say("MANTA_READY " + json.dumps({**addresses, "pid": os.getpid()}))
    # Last: it asks the server, and nobody shall wait for that.
    if not is_json and (command := _command(options, rows, addresses)):
        speaker.tell(f"Try: {command}")


def _command(
    options: "ServerOptions", rows: Sequence[dict[str, Any]], addresses: dict[str, str]
) -> str:
    """Return a command that the server answers; empty where credentials would be needed."""
    address = addresses.get("http", "")
    needs_credentials = options.access_policy or options.http_restricted_api
    if not address or options.http_use_ssl or needs_credentials:
        return ""
    try:
        return _example(address, rows)
    except Exception:  # a hint ends no server
        _log.debug("no command to try", exc_info=True)
        return ""


def _example(address: str, rows: Sequence[dict[str, Any]]) -> str:
    from cluster.models.states import DORMANT_REASON  # noqa: PLC0415
    from cluster.serving.texts import curl, example_body, reachable  # noqa: PLC0415
    from deployments.supervision.unix_sockets import is_unix  # noqa: PLC0415

    if is_unix(address):
        return curl(address, "/v2")
    # A question about one that is dormant loads it.
    ready = (row for row in rows if row["state"] == "READY" and row["reason"] != DORMANT_REASON)
    names = list(dict.fromkeys(str(row["name"]) for row in ready))
    paths = [f"/v2/models/{quote(name, safe='')}" for name in names]
    configs = _configs(f"http://{reachable(address)}", paths[:_ASKED_MODELS])
    bodies = [(example_body(config), path) for path, config in configs]
    if shortest := min(((body, path) for body, path in bodies if body), key=_length, default=None):
        return curl(address, f"{shortest[1]}/infer", shortest[0])
    return curl(address, paths[0] if paths else "/v2")


def _length(example: tuple[str, str]) -> int:
    return len(example[0])


def _configs(url: str, paths: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the configs of models by their paths, as many as are told in time."""
    # It is this machine that is asked: no proxy needs to know.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until_s = time.monotonic() + _EXAMPLE_S
    for path in paths:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            return
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            with opener.open(f"{url}{path}/config", timeout=left_s) as answer:
                config = json.load(answer)
            yield path, config


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
