# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Looks for the secrets of two servers wherever somebody beside them could read them.

One server is that of the other families, with all that these have done to it. The other is given
every kind of secret, and has peers that repeat what it shows to them.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.attack.marked_server import CREDENTIALS_OF_PROCESSES, MarkedServer
from tests.attack.marks import (
    Mark,
    ask_ray,
    files,
    inherited,
    made_mark,
    mark_of,
    places,
    ray_token,
    variables,
)
from tests.attack.scene import Scene
from tests.attack.tally import Tally
from tests.attack.wire import Connection, request
from tests.support.server import ROOT, RunningServer

_PAGES: Final = (
    "/v2", "/v2/models/add_sub/config", "/v2/models/add_sub/stats", "/v2/models/stats",
    "/v2/logging", "/v2/trace/setting", "/v2/openapi.json", "/v2/systemsharedmemory/status",
)  # fmt: skip
_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})
# What there has to be to look at: otherwise nothing was shown by finding nothing.
_SEEN: Final = (
    "the answer to an inference", "an answer over gRPC", "a refusal over gRPC",
    "the metrics page", "the command line of", "Ray's tables", "Ray's key-value store, serve/",
    "Ray's key-value store, manta/", "Ray's file logs/", "the dashboard's /api/v0/actors",
)  # fmt: skip
_REFUSED: Final = (
    "s3://who:{}@127.0.0.1:1/bucket", "s3://http://who:{}@127.0.0.1:1/bucket/x",
    "ftp://who:{}@127.0.0.1:1/models", "mlflow://who:{}@127.0.0.1:1/models/m",
)  # fmt: skip


def look_for_secrets(scene: Scene, tally: Tally) -> None:
    """See the module."""
    marks = [mark_of(*each) for each in scene.secrets.items()] + list(ray_token())
    _look_at(scene.server, marks, _pages(scene), tally)
    _look_at_environments(scene.server, marks, scene.concealed, tally)
    _look_at_refusals(tally)
    with tempfile.TemporaryDirectory(prefix="manta-attack-secrets-") as folder:
        marked = MarkedServer(Path(folder))
        try:
            answers = [*marked.ask_as_clients(), *_answers_of_stores(marked)]
            for kind in ("Bearer ", "Basic ", "AWS4-HMAC", "AUTH", "/v1/traces"):
                tally.expect(marked.was_shown(kind), f"no peer was shown {kind}")
            # What was asked last is written at the end.
            seen = _look_at(marked.server, marked.marks, answers, tally, marked.headers)
            for begin in _SEEN:
                tally.expect(any(name.startswith(begin) for name in seen), f"not seen: {begin}")
            _look_at_environments(marked.server, marked.marks, marked.concealed, tally)
        finally:
            marked.close()
        _look(files(marked.written, "what is written:"), marked.marks, tally)
        _look([("its last words", "".join(marked.server.lines).encode())], marked.marks, tally)
        for name in ("server.log", "audit.jsonl", "captures"):
            tally.expect((marked.written / name).exists(), f"there is no {name} to look at")


def _look_at(
    server: RunningServer,
    marks: Iterable[Mark],
    answers: Iterable[tuple[str, bytes]],
    tally: Tally,
    headers: Mapping[str, str] = _NOBODY,
) -> list[str]:
    """Look at a server's places; return their names."""
    ray = ask_ray(server)
    looked_for = [*marks, mark_of("the lanes' secret", ray.lane_secret)]
    found = [*answers, *places(server, ray, headers)]
    _look(found, looked_for, tally)
    for process, variable, name in inherited(server, looked_for[-1:]):
        tally.findings.append(f"{name} is in {variable} of {process}")
    return [place for place, _ in found]


def _look(found: Iterable[tuple[str, bytes]], marks: Iterable[Mark], tally: Tally) -> None:
    looked_for = tuple(marks)
    for place, content in found:
        tally.note("looked at")
        for mark in looked_for:
            tally.expect(not mark.is_in(content), f"{mark.name} is in {place}")


def _look_at_environments(
    server: RunningServer, marks: Iterable[Mark], concealed: Iterable[str], tally: Tally
) -> None:
    for process, variable, name in inherited(server, marks):
        is_needed = variable in CREDENTIALS_OF_PROCESSES
        tally.note("a credential that processes inherit" if is_needed else "looked at")
        tally.expect(is_needed, f"{name} is in {variable} of {process}")
    hidden = frozenset(concealed)
    for process, variable in variables(server):
        tally.expect(variable not in hidden, f"{variable} is inherited by {process}")


def _look_at_refusals(tally: Tally) -> None:
    """Look at what is said of locations with passwords."""
    for location in _REFUSED:
        secret, mark = made_mark("the password of a location")
        said = _check(location.format(secret), os.environ)
        _look([(f"the refusal of {location}", said)], [mark], tally)


def _answers_of_stores(marked: MarkedServer) -> Iterator[tuple[str, bytes]]:
    for store in marked.stores:
        yield f"what is said of {store}", _check(store, marked.environment)


def _check(location: str, environment: Mapping[str, str]) -> bytes:
    """Return what ``manta check`` says of a repository."""
    ended = subprocess.run(
        [sys.executable, "-m", "cluster", "check", location],
        capture_output=True,
        cwd=ROOT,
        env=environment,
        timeout=120,
        check=False,
    )
    return ended.stdout + ended.stderr


def _pages(scene: Scene) -> Iterator[tuple[str, bytes]]:
    yield "its log", scene.log.read_bytes()
    with Connection(scene.server.http) as connection:
        for path in _PAGES:
            yield path, connection.ask(request("GET", path, b"", (scene.credential,))).body
