# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server that polls a store: it follows what changes there, and serves on whatever goes wrong.

One server for each store, whose cache is on a small disk of its own. A client asks one of its
models all the time, and has to get every answer.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from cluster.repository.stores.contracts import Store
from tests.stores.test_servers import ask, put_model, put_version
from tests.support.file_sources import PART, random_bytes
from tests.support.gates import is_all
from tests.support.object_stores import RUNNING, Emulator, has_azurite
from tests.support.server import RunningServer, until
from tests.support.store_faults import (
    BAD_DAYS,
    GONE,
    REFUSED,
    CredentialFile,
    is_part_of,
    require_whole,
)
from tests.support.toxic_proxy import Seen, Toxic, always, each_third

# Of aiohttp, of what a test writes.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")

# Room for what all tests load: what was fetched is kept for a minute.
_DISK_BYTES = 64 << 20
# Of several parts, so that something can happen between two.
_BALLAST_BYTES = PART + (1 << 20)
_MOUNT = f'mount -t tmpfs -o size={_DISK_BYTES} tmpfs "$0" && exec "$@"'


def _small_disk(folder: Path) -> tuple[str, ...]:
    """Return what runs a command that has a small disk at a folder."""
    return ("unshare", "--map-root-user", "--mount", "sh", "-c", _MOUNT, str(folder))


def _has_small_disks(folder: Path) -> bool:
    command = [*_small_disk(folder), "true"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


class Asking(threading.Thread):
    """Asks for an answer all the time."""

    def __init__(self, address: str, model: str, answer: float) -> None:
        super().__init__(daemon=True)
        self.wrong: list[object] = []
        self.right = 0
        self._address, self._model, self._answer = address, model, answer
        self._ended = threading.Event()

    def run(self) -> None:
        with triton_http.InferenceServerClient(self._address, network_timeout=120.0) as client:
            while not self._ended.wait(0.02):
                try:
                    answer = ask(client, self._model)
                except Exception as error:
                    self.wrong.append(error)
                else:
                    self.right += answer == self._answer
                    self.wrong += [] if answer == self._answer else [answer]

    def end(self) -> None:
        self._ended.set()
        self.join()


@dataclass(frozen=True)
class Polling:
    """A server that polls, and what it polls.

    Attributes:
        emulator: The store's.
        store: The repository.
        server: The server.
        client: Asks it.
        cache: Its node's cache.
        credentials: With which it asks the store.
        is_disk: Whether the cache's disk itself is small, or only what the cache may hold.
    """

    emulator: Emulator
    store: Store
    server: RunningServer
    client: Any
    cache: Path
    credentials: CredentialFile
    is_disk: bool

    def index(self) -> dict[str, tuple[str, str]]:
        """Return state and reason of each model, of one version where it has several."""
        rows = self.client.get_model_repository_index()
        return {row["name"]: (row.get("state", ""), row.get("reason", "")) for row in rows}

    def metric(self) -> str:
        """Return whether the repository is reachable, as the metric tells."""
        with urlopen(f"http://{self.server.metrics}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        (line,) = (each for each in lines if each.startswith("manta_repository_reachable{"))
        assert f'repository="{self.store.location}"' in line
        return str(line.rpartition(" ")[2])

    def has_said(self, text: str, begin: int = 0) -> bool:
        return any(text in line for line in self.server.lines[begin:])

    def answers(self, model: str, expected: float, version: str = "") -> bool:
        try:
            return ask(self.client, model, version) == expected
        except InferenceServerException:
            return False

    def put(
        self, model: str, version: int, add: float, seed: int, size_bytes: int = _BALLAST_BYTES
    ) -> None:
        """Publish a version whose files come to the node in several parts; at once."""
        self.store.write(f"{model}/{version}/.incomplete", b"")
        self.store.write(f"{model}/{version}/more.bin", random_bytes(size_bytes, seed))
        put_version(self.store, model, version, add)
        self.store.remove(f"{model}/{version}/.incomplete")


@contextmanager
def _polling(emulator: Emulator, folder: Path) -> Iterator[Polling]:
    directory = uuid4().hex
    store = emulator.open(directory)
    put_model(store, "steady", 1)
    cache = folder / "cache"
    cache.mkdir()
    is_disk = _has_small_disks(cache)
    credentials = CredentialFile(emulator, folder / "credentials.json")
    max_bytes = (1 << 30) if is_disk else _DISK_BYTES
    server = RunningServer(
        emulator.location(directory),  # type: ignore[arg-type]
        "--model-control-mode=poll",
        "--repository-poll-secs=1",
        f"--model-cache-directory={cache}",
        f"--model-cache-max-bytes={max_bytes}",
        manta=(*(_small_disk(cache) if is_disk else ()), sys.executable, "-m", "cluster"),
        environment=dict(os.environ) | dict(emulator.environ) | dict(credentials.environ),
    )
    seen = Path(f"/proc/{server.pid}/root{cache}") if is_disk else cache
    with triton_http.InferenceServerClient(server.http, network_timeout=120.0) as client:
        yield Polling(emulator, store, server, client, seen, credentials, is_disk)
    assert server.terminate() == 0
    assert "very-secret" not in "".join(server.lines)


@pytest.fixture(scope="module", params=list(RUNNING) if is_all() else ["s3"])
def running(
    request: pytest.FixtureRequest,
    emulators: dict[str, Emulator],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Polling]:
    if request.param == "as" and not has_azurite():
        pytest.skip("azurite is not installed: run 'scripts/store_tools.sh'")
    emulator = emulators[request.param]
    emulator.proxy.heal()
    with _polling(emulator, tmp_path_factory.mktemp(request.param)) as polling:
        yield polling
    emulator.opened.close()


@pytest.fixture
def polling(running: Polling) -> Iterator[Polling]:
    """The server of a store; one of its models is asked meanwhile."""
    asking = Asking(running.server.http, "steady", 2)
    asking.start()
    yield running
    running.emulator.proxy.heal()
    before = asking.right
    until(lambda: asking.right > before or asking.wrong)
    asking.end()
    assert asking.wrong == []
    require_whole(running.cache)


@pytest.fixture
def model(polling: Polling) -> Iterator[str]:
    """A model that is served, and leaves after the test; it adds 10."""
    name = f"model-{uuid4().hex[:8]}"
    put_model(polling.store, name, 10)
    until(lambda: polling.answers(name, 11))
    yield name
    polling.emulator.proxy.heal()
    for file in list(polling.store.find(name)):
        polling.store.remove(file.path)
    until(lambda: name not in polling.index())


def test_models_come_change_and_leave_with_the_store(polling: Polling) -> None:
    put_model(polling.store, "comes", 10)
    until(lambda: polling.answers("comes", 11))
    assert polling.index().keys() == {"steady", "comes"}
    put_version(polling.store, "comes", 2, 20)
    until(lambda: polling.answers("comes", 21, "2"))
    assert polling.answers("comes", 11, "1")
    polling.store.write("comes/2/weights.txt", b"30")
    until(lambda: polling.answers("comes", 31, "2"))
    for file in list(polling.store.find("comes")):
        polling.store.remove(file.path)
    until(lambda: not polling.answers("comes", 31))
    until(lambda: polling.index().keys() == {"steady"})


def require_kept_and_taken_up(polling: Polling, fail: Callable[[], None], why: str) -> None:
    """Check what a store that cannot be listed does: nothing, and it is told why."""
    begin = len(polling.server.lines)
    assert polling.metric() == "1"
    fail()
    until(lambda: polling.metric() == "0")
    away = f"model repository '{polling.store.location}' cannot be listed: "
    for state, reason in polling.index().values():
        assert state == "READY"
        assert away in reason
        assert why in reason
    failed = f"failed to list model repository '{polling.store.location}'"
    until(lambda: polling.has_said(failed, begin))
    assert polling.has_said("; what is served goes on", begin)
    polling.emulator.proxy.heal()


def require_back(polling: Polling, begin: int) -> None:
    until(lambda: polling.metric() == "1")
    assert all(reason == "" for _, reason in polling.index().values())
    again = f"model repository '{polling.store.location}' can be listed again"
    until(lambda: polling.has_said(again, begin))


def test_a_store_that_is_away_keeps_what_is_served_and_says_so(
    polling: Polling, model: str
) -> None:
    begin = len(polling.server.lines)

    def fail() -> None:
        polling.emulator.proxy.choose = always(Toxic(500))
        assert polling.answers(model, 11)

    require_kept_and_taken_up(polling, fail, "check the network, the endpoint")
    require_back(polling, begin)
    assert polling.answers(model, 11)


def test_a_bucket_that_is_gone_keeps_what_is_served_and_says_so(
    polling: Polling, model: str
) -> None:
    begin = len(polling.server.lines)

    def fail() -> None:
        polling.emulator.proxy.choose = always(GONE[polling.emulator.kind])

    why = f"Could not get MetaData for bucket with name {polling.emulator.bucket}"
    require_kept_and_taken_up(polling, fail, why)
    require_back(polling, begin)
    assert polling.answers(model, 11)


def test_credentials_that_expire_keep_what_is_served_and_are_renewed_by_the_file(
    polling: Polling, model: str
) -> None:
    begin = len(polling.server.lines)

    def fail() -> None:
        polling.emulator.proxy.choose = polling.credentials.refuse
        polling.credentials.write(is_valid=False)

    try:
        require_kept_and_taken_up(polling, fail, REFUSED[polling.emulator.kind])
        polling.emulator.proxy.choose = polling.credentials.refuse
    finally:
        polling.credentials.write(is_valid=True)
    require_back(polling, begin)
    # With these the node gets what it has not yet.
    polling.put(model, 2, 20, seed=2)
    until(lambda: polling.answers(model, 21, "2"))


@pytest.mark.parametrize("day", BAD_DAYS)
def test_a_version_loads_though_each_third_request_goes_wrong(
    polling: Polling, model: str, day: str
) -> None:
    # Contents that no other test has brought to the node.
    polling.put(model, 2, 20, seed=10 + list(BAD_DAYS).index(day))
    polling.emulator.proxy.choose = each_third(BAD_DAYS[day])
    until(lambda: polling.answers(model, 21, "2"))
    assert polling.answers(model, 11, "1")


def test_an_object_replaced_in_mid_download_is_loaded_as_it_is_listed_next(
    polling: Polling, model: str
) -> None:
    replaced = threading.Event()
    begin = len(polling.server.lines)

    def replace() -> None:
        if not replaced.is_set():
            replaced.set()
            polling.store.write(f"{model}/2/more.bin", random_bytes(_BALLAST_BYTES, 4))
            polling.store.write(f"{model}/2/weights.txt", b"40")

    def choose(seen: Seen) -> Toxic | None:
        return Toxic(before=replace) if is_part_of(seen, "more.bin") else None

    polling.emulator.proxy.choose = choose
    polling.put(model, 2, 20, seed=3)
    until(lambda: polling.answers(model, 41, "2"))
    assert polling.answers(model, 11, "1")
    until(lambda: polling.has_said("changed while they were downloaded", begin))


def test_a_disk_that_is_full_ends_a_load_with_what_to_do(polling: Polling, model: str) -> None:
    polling.put(model, 2, 20, 5, _DISK_BYTES)
    said = "the disk of the model cache" if polling.is_disk else "no room for the files of"
    until(lambda: said in "".join(reason for _, reason in polling.index().values()))
    assert polling.answers(model, 11)
    # What fits is loaded.
    polling.put(model, 2, 30, seed=6)
    until(lambda: polling.answers(model, 31, "2"))
