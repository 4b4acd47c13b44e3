# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Looks at all that needs no Ray before Ray is started: files, ports, repositories, models.

A process forked off this one does so while this one imports Ray. What it imports for that is nobody
else's: processes of models are forked off this one, too. It has a second or two; what it has not
found by then a start meets later.
"""

import json
import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn

from cluster.options.parsing import ServerOptions
from cluster.serving.texts import Problems

_PATIENCE_S: Final = 2.0
_END_S: Final = 0.5
_READ_BYTES: Final = 1 << 16
_MODES: Final = ("none", "poll")


class Look:
    """A look that has begun.

    Args:
        find: Finds the problems; called in the other process.
    """

    def __init__(self, find: Callable[[], Problems]) -> None:
        self._until_s = time.monotonic() + _PATIENCE_S
        self._output, writing = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._output)
            _tell(find, writing)
        os.close(writing)

    def wait(self) -> Problems | None:
        """Return what was found; None when it takes too long, or cannot tell."""
        parts = []
        while part := self._read():
            parts.append(part)
        if part is None:
            # It removes what it has made; the end of its output is its own.
            os.kill(self._pid, signal.SIGTERM)
            select.select([self._output], [], [], _END_S)
            os.kill(self._pid, signal.SIGKILL)
        os.close(self._output)
        os.waitpid(self._pid, 0)
        return None if part is None else _decoded(b"".join(parts))

    def _read(self) -> bytes | None:
        left_s = max(0.0, self._until_s - time.monotonic())
        if not select.select([self._output], [], [], left_s)[0]:
            return None
        return os.read(self._output, _READ_BYTES)


def _tell(find: Callable[[], Problems], output: int) -> NoReturn:
    """Find the problems and write them, in the other process; it ends."""
    try:
        # Files that it has made go with it.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: sys.exit())
        logging.disable()
        found = find()
        row = [found.general, dict(found.models), found.options]
        with os.fdopen(output, "w") as file:
            json.dump(row, file)
    finally:
        # Nothing of the process that it was forked off may run here; what it raised is met again.
        os._exit(0)


def _decoded(text: bytes) -> Problems | None:
    if not text:
        return None
    general, models, options = json.loads(text)
    return Problems(
        tuple(general), {name: tuple(lines) for name, lines in models.items()}, tuple(options)
    )


def find_problems(options: ServerOptions) -> Problems:
    """Return what keeps a server with these options from starting."""
    general = list(_wrong_files(options))
    # Of a Ray that is joined: who has the ports is likely the server that runs there, and the
    # controller may find other repositories.
    if options.ray_address:
        return Problems(tuple(general))
    general += _taken_ports(options)
    missing, models = _wrong_models(options)
    return Problems((*general, *missing), models, options.model_repository)


def _wrong_files(options: ServerOptions) -> Iterable[str]:
    from backends.api.errors import TritonError  # noqa: PLC0415
    from cluster.server.transport_options import FILE_CHECKS  # noqa: PLC0415

    for check in FILE_CHECKS:
        try:
            check(options)
        except TritonError as error:
            yield f"{error.code} - {error}"


def _taken_ports(options: ServerOptions) -> Iterable[str]:
    from cluster.server.ports import PortInUseError, PortReservation  # noqa: PLC0415
    from cluster.server.transport_options import listeners  # noqa: PLC0415
    from deployments.supervision.unix_sockets import is_unix  # noqa: PLC0415

    with PortReservation() as ports:
        for name, is_on, host, port in listeners(options):
            try:
                if is_on and not is_unix(host):
                    ports.reserve(f"--{name}-port", host, port)
            except PortInUseError as error:
                yield str(error)


def _wrong_models(options: ServerOptions) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Return what is wrong with all repositories, and by model why the server would exit."""
    from backends.api.errors import TritonError  # noqa: PLC0415
    from cluster.commands.check.repository import check_repositories  # noqa: PLC0415
    from cluster.repository.contents import require_listed  # noqa: PLC0415
    from cluster.repository.repository import ModelRepository  # noqa: PLC0415
    from cluster.repository.single_model import SingleModels  # noqa: PLC0415
    from cluster.repository.stores.location import parse_location  # noqa: PLC0415

    singles = SingleModels(os.environ)
    try:
        if not all(parse_location(each).is_local for each in options.model_repository):
            # A store may take longer, and costs money.
            return [], {}
        paths = singles.repositories(options.model_repository)
        scan = ModelRepository(paths).scan()
        require_listed(scan)
        if not options.exit_on_error or options.model_namespacing:
            return [], {}
        wanted = _loaded_at_start(options, scan.directories) - scan.duplicates
        if not wanted:
            return [], {}
        # Agents may take long, write, and tell others of a load; they run when there is one.
        report = check_repositories(replace(options, model_repository=paths), runs_agents=False)
    except TritonError as error:
        return [f"{error.code} - {error}"], {}
    finally:
        singles.close()
    return [], {
        name: verdict.errors
        for name, verdict in report.verdicts.items()
        if name in wanted and not verdict.loads
    }


def _loaded_at_start(options: ServerOptions, names: Iterable[str]) -> frozenset[str]:
    given = options.load_model
    if options.model_control_mode in _MODES or "*" in given:
        return frozenset(names)
    return frozenset(given) if options.model_control_mode == "explicit" else frozenset()


def count_models(repository: str) -> int | None:
    """Return how many models a repository seems to have; None for a store, or where it is not."""
    folder = Path(repository)
    try:
        if any(map(Path.is_file, (folder, folder / "config.pbtxt", folder / "model.py"))):
            return 1
        with os.scandir(folder) as entries:
            return sum(entry.is_dir() and not entry.name.startswith(".") for entry in entries)
    except OSError:
        return None
