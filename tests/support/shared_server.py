# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A running server that test modules share: each brings its models and takes them away again.

A start costs as much as dozens of tests. The models of a module are linked into the server's
repository, so what a test changes in its own folder is what the server reads.
"""

import contextlib
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.support.server import RunningServer

_LOAD_TIMEOUT_S = 300.0
_END_TIMEOUT_S = 120.0
# Models that load at once: as many as have a core each, and some that wait for a process.
_AT_ONCE = 4
# Settings that no client may change.
_SET_AT_START = {"log_file", "trace_file", "trace_mode"}


class Served(Protocol):
    """A server that models are brought to.

    Attributes:
        repository: Its repository, the first if there are several.
    """

    repository: Path

    def post(self, path: str, body: dict[str, object], timeout_s: float) -> Any:
        """Send JSON as somebody who may load models; see `RunningServer.post`."""


_Served = TypeVar("_Served", bound=Served)


@contextlib.contextmanager
def brought(
    server: _Served,
    repository: Path,
    load: Collection[str] | None = None,
    refused: Collection[str] = (),
) -> Iterator[_Served]:
    """Serve the models of a folder on a server in mode ``explicit`` while the block runs.

    Args:
        server: The server.
        repository: A folder of models. One whose name is there already must be the same model: it
            is the server's own and stays.
        load: The models to load; all if None. Steps of ensembles come with them.
        refused: Those of them whose load must fail.

    Raises:
        AssertionError: A model does not load, or the repository's index differs at the end.
    """
    before = _index(server)
    own = {row["name"] for row in before}
    names = sorted(each.name for each in repository.iterdir() if each.name not in own)
    for name in own.intersection(each.name for each in repository.iterdir()):
        assert _files(repository / name) == _files(server.repository / name), name
    links = [server.repository / name for name in names]
    for link in links:
        link.symlink_to(repository / link.name)
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            asked = list(names if load is None else load)
            answers = list(pool.map(lambda name: _call(server, f"models/{name}/load"), asked))
        failures = {name: why for name, why in zip(asked, answers, strict=True) if why}
        assert failures.keys() == set(refused), failures
        yield server
    finally:
        try:
            for name in names:
                _call(server, f"models/{name}/unload", {"unload_dependents": False})
        finally:
            for link in links:
                link.unlink()
    _wait_until_index_is(server, before)


@contextlib.contextmanager
def given_back(server: RunningServer, models: Collection[str]) -> Iterator[None]:
    """Let a block change settings, and load and unload models of the server's own as it likes.

    Args:
        server: The server.
        models: These are loaded anew at the end, and what else was ready then, too.

    Raises:
        AssertionError: The repository's index differs at the end.
    """
    before = _index(server)
    settings = {path: _settings(server, path) for path in ("logging", "trace/setting")}
    try:
        yield
    finally:
        for path, values in settings.items():
            _post(server, path, values).close()
        for name in models:
            _call(server, f"models/{name}/unload")
        for name in [row["name"] for row in before if row.get("state") == "READY"]:
            assert not (why := _call(server, f"models/{name}/load")), why
        for name in models:
            cleared = dict.fromkeys(settings["trace/setting"])
            _post(server, f"models/{name}/trace/setting", cleared).close()
    _wait_until_index_is(server, before)


def _settings(server: RunningServer, path: str) -> dict[str, object]:
    with urllib.request.urlopen(f"http://{server.http}/v2/{path}", timeout=30) as answer:
        values: dict[str, object] = json.loads(answer.read())
    return {key: value for key, value in values.items() if key not in _SET_AT_START}


def _files(model: Path) -> dict[str, bytes]:
    files = (each for each in model.rglob("*") if each.is_file())
    return {each.relative_to(model).as_posix(): each.read_bytes() for each in files}


def _wait_until_index_is(server: Served, expected: list[dict[str, Any]]) -> None:
    deadline_s = time.monotonic() + _END_TIMEOUT_S
    while (found := _index(server)) != expected:
        assert time.monotonic() < deadline_s, f"left behind: {found}, before: {expected}"
        time.sleep(0.1)


def _index(server: Served) -> list[dict[str, Any]]:
    with _post(server, "repository/index", {}) as answer:
        rows: list[dict[str, Any]] = json.loads(answer.read())
    return sorted(rows, key=lambda row: (row["name"], row.get("version", "")))


def _call(server: Served, what: str, parameters: dict[str, object] | None = None) -> str:
    """Return why a call of the repository API failed; empty if it did not."""
    try:
        with _post(server, f"repository/{what}", {"parameters": parameters or {}}):
            return ""
    except urllib.error.HTTPError as error:
        return f"{what}: {error.read().decode()}"


def _post(server: Served, path: str, body: dict[str, object]) -> Any:
    # A name of a model may have a space.
    return server.post(f"/v2/{urllib.parse.quote(path)}", body, _LOAD_TIMEOUT_S)
