# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""`manta model` over each store: what readers see while a version comes, and when it never does."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event, Lock, Semaphore

import pytest
import tritonclient.http as triton_http

from cluster.cli import main
from cluster.repository.contents import RepositoryModel
from cluster.repository.remote import RemoteFileSystem
from cluster.repository.repository import ModelRepository
from cluster.repository.skeletons import Skeletons
from cluster.repository.stores.contracts import Store
from tests.stores.test_servers import CODE, CONFIG, ask
from tests.support.object_stores import Emulator
from tests.support.server import ROOT, RunningServer
from tests.support.toxic_proxy import Choose, Seen, Toxic

_WAIT_S = 120.0
_PRECONDITION_FAILED = 412
_WRITES = frozenset({"PUT", "POST", "DELETE"})
# Requests that write a version with two files to a model that has a config: the mark, the files,
# the manifest, and the mark again.
_MARK, _FIRST_FILE, _SECOND_FILE, _MANIFEST, _MARK_GOES = range(1, 6)


@pytest.fixture
def location(emulator: Emulator, directory: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in emulator.environ.items():
        monkeypatch.setenv(name, value)
    return emulator.location(directory)


def write_source(folder: Path, add: float) -> str:
    """Write a model as a repository has it; it adds a number."""
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "1/model.py").write_text(CODE)
    (folder / "1/weights.txt").write_text(str(add))
    (folder / "config.pbtxt").write_text(CONFIG)
    return str(folder)


def add(location: str, source: str, *flags: str) -> int:
    return main(["model", "add", source, "--name", "m", "--to", location, *flags])


def read(store: Store) -> RepositoryModel:
    filesystem = RemoteFileSystem(store, Skeletons())
    opened = lambda _: (filesystem, store.location)  # noqa: E731
    return ModelRepository([store.location], open_location=opened).read_model("m")


def states(location: str, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """Return versions and what `ls` says of them."""
    capsys.readouterr()
    assert main(["model", "ls", "m", "--at", location]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    return [(row[1], row[-1]) for row in rows]


def each_write(act: Callable[[int], Toxic | None]) -> Choose:
    """Choose what happens to each request that writes, by its number from 1."""
    lock, count = Lock(), [0]

    def choose(seen: Seen) -> Toxic | None:
        if seen.method not in _WRITES:
            return None
        with lock:
            count[0] += 1
            return act(count[0])

    return choose


def test_a_model_is_published_shown_compared_pulled_and_removed(
    location: str, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_source(tmp_path / "source", 1)
    assert add(location, source) == 0
    write_source(tmp_path / "source", 5)
    assert add(location, source) == 1
    assert add(location, source, "--next") == 0
    assert states(location, capsys) == [("1", "complete"), ("2", "complete")]
    assert read(store).versions == (1, 2)

    assert main(["model", "show", "m", "--at", location]) == 0
    assert "# 2/weights.txt  1 bytes  sha256 " in capsys.readouterr().out
    assert main(["model", "diff", "m@1", f"{location}/m@2", "--at", location]) == 1
    assert capsys.readouterr().out.startswith("files differ: weights.txt")
    assert main(["model", "pull", "m", "--at", location, "--to", str(tmp_path / "here")]) == 0
    assert (tmp_path / "here/m/2/weights.txt").read_text() == "5"
    assert main(["check", location]) == 0

    assert main(["model", "rm", "m", "--version", "1", "--at", location]) == 0
    assert states(location, capsys) == [("2", "complete")]
    assert main(["model", "rm", "m", "--all", "--at", location]) == 0
    assert not [file for file in store.find("m") if not file.path.endswith("/")]


@pytest.mark.parametrize("step", [_MARK, _FIRST_FILE, _SECOND_FILE, _MANIFEST, _MARK_GOES])
def test_an_addition_killed_between_uploads_leaves_nothing_that_loads(
    emulator: Emulator,
    location: str,
    store: Store,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    step: int,
) -> None:
    assert add(location, write_source(tmp_path / "source", 1)) == 0
    source = write_source(tmp_path / "source", 5)
    ready = Event()
    process: list[subprocess.Popen[bytes]] = []

    def kill() -> None:
        _wait(ready)
        process[0].kill()

    away = Toxic(503, before=kill)
    emulator.proxy.choose = each_write(lambda number: away if number >= step else None)
    command = [sys.executable, "-m", "cluster", "model", "add", source, "--name", "m"]
    process.append(subprocess.Popen([*command, "--to", location, "--next"], cwd=ROOT))
    ready.set()
    assert process[0].wait(_WAIT_S) < 0
    emulator.proxy.heal()

    model = read(store)
    assert model.versions == (1,)
    expected = [("1", "complete")]
    assert states(location, capsys) == expected + [("2", "incomplete")] * (step > _MARK)
    assert any("is left out" in text for text in model.warnings) == (step > _MARK)
    # The next one does not go on with it, and what is left can be removed.
    assert add(location, source, "--next") == 0
    newest = 3 if step > _MARK else 2
    assert read(store).versions == (1, newest)
    if step > _MARK:
        assert main(["model", "rm", "m", "--version", "2", "--at", location]) == 0
    assert states(location, capsys) == [*expected, (str(newest), "complete")]


def test_two_additions_at_once_get_two_versions(
    emulator: Emulator, location: str, store: Store, tmp_path: Path
) -> None:
    assert add(location, write_source(tmp_path / "source", 1)) == 0
    sources = [write_source(tmp_path / f"source{number}", number) for number in (2, 3)]
    second_has_come, first_is_done = Event(), Event()

    def come() -> None:
        second_has_come.set()
        _wait(first_is_done)

    # Both want version 2 before either has it. Google's emulator knows no conditions: what Google
    # says to the second comes from the proxy.
    status = _PRECONDITION_FAILED if emulator.kind == "gs" else 0
    meeting = {
        1: Toxic(before=lambda: _wait(second_has_come), after=first_is_done.set),
        2: Toxic(status, before=come),
    }
    emulator.proxy.choose = each_write(meeting.get)
    with ThreadPoolExecutor() as pool:
        codes = list(pool.map(lambda source: add(location, source, "--next"), sources))
    assert codes == [0, 0]
    assert read(store).versions == (1, 2, 3)
    found = {store.read(f"m/{version}/weights.txt") for version in (2, 3)}
    assert found == {b"2", b"3"}
    assert main(["check", location]) == 0


@pytest.mark.parametrize("emulator", ["s3"], indirect=True)
def test_a_server_that_polls_never_serves_half_a_version(
    emulator: Emulator, location: str, tmp_path: Path
) -> None:
    assert add(location, write_source(tmp_path / "source", 1)) == 0
    server = RunningServer(
        location,  # type: ignore[arg-type]
        "--model-control-mode=poll",
        "--repository-poll-secs=1",
        f"--model-cache-directory={tmp_path / 'cache'}",
        environment=dict(os.environ),
    )
    try:
        with closing(triton_http.InferenceServerClient(server.http, network_timeout=_WAIT_S)) as c:
            _add_while_polled(emulator, location, write_source(tmp_path / "source", 5), c)
    finally:
        code = server.terminate()
    assert code == 0


def _add_while_polled(
    emulator: Emulator, location: str, source: str, client: triton_http.InferenceServerClient
) -> None:
    polls, is_held, go_on = Semaphore(0), Event(), Event()

    def hold_on() -> None:
        is_held.set()
        _wait(go_on)

    hold = Toxic(before=hold_on)
    # Between its two files the addition waits.
    writes = each_write(lambda number: hold if number == _SECOND_FILE else None)

    def choose(seen: Seen) -> Toxic | None:
        if seen.method == "GET" and "list-type" in seen.path:
            polls.release()
        return writes(seen)

    def poll(times: int) -> None:
        for _ in range(times):
            assert polls.acquire(timeout=_WAIT_S)

    assert ask(client, "m") == 2
    emulator.proxy.choose = choose
    with ThreadPoolExecutor() as pool:
        adding = pool.submit(add, location, source, "--next")
        try:
            _wait(is_held)
            while polls.acquire(blocking=False):
                pass
            # From here on only the server lists: the repository, and the model twice.
            poll(6)
            assert not adding.done()
            assert (ask(client, "m"), ask(client, "m", "1")) == (2, 2)
            assert not client.is_model_ready("m", "2")
        finally:
            go_on.set()
        assert adding.result(_WAIT_S) == 0
    # Loading takes some periods.
    for _ in range(60):
        if client.is_model_ready("m", "2"):
            break
        poll(1)
    assert (ask(client, "m"), ask(client, "m", "1")) == (6, 2)


def _wait(event: Event) -> None:
    assert event.wait(_WAIT_S)
