# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Several nodes that load one model from a store: what it costs, and what a bad day leaves."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest

from cluster.actors.file_registry import FileRegistry, Rows
from cluster.repository.stores.contracts import Store
from deployments.model_files.blobs import content_key
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import ModelFile, ModelFiles
from deployments.model_files.counters import CacheStatistics
from deployments.model_files.layout import Layout
from deployments.model_files.partial import read_record
from tests.support.file_sources import PART, content_of, random_bytes
from tests.support.gates import is_all
from tests.support.object_stores import Emulator
from tests.support.store_nodes import StoreNode, shared_rows, store_node
from tests.support.toxic_proxy import Seen, Toxic

# 200 MB where there is time for it.
PARTS = 50 if is_all() else 16
SIZE = PARTS * PART
WEIGHTS = "1/model.bin"
CONFIG = b"name: 'm'"
# Parts that the store gives before something goes wrong.
_BEFORE = 5
_POLL_S = 0.05


@pytest.fixture
def emulator(emulators: dict[str, Emulator], monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    running = emulators["s3"]
    running.proxy.heal()
    for name, value in running.environ.items():
        monkeypatch.setenv(name, value)
    yield running
    running.proxy.heal()
    running.opened.close()


@pytest.fixture
def content(store: Store) -> dict[str, bytes]:
    """What the model has, which is in the store."""
    content = {WEIGHTS: random_bytes(SIZE), "config.pbtxt": CONFIG}
    for path, data in content.items():
        store.write(path, data)
    return content


@pytest.fixture
def rows_at() -> Iterator[tuple[Rows, object]]:
    with shared_rows() as served:
        yield served


StartNodes = Callable[..., list[StoreNode]]


@pytest.fixture
def start_nodes(
    emulator: Emulator, rows_at: tuple[Rows, object], tmp_path: Path
) -> Iterator[StartNodes]:
    with ExitStack() as started:

        def start(*names: str) -> list[StoreNode]:
            nodes = [
                started.enter_context(store_node(tmp_path / name, rows_at[1])) for name in names
            ]
            for node in nodes:
                node.wait_ready()
            return nodes

        yield start


def listed(store: Store) -> ModelFiles:
    found = (ModelFile(file.path, file.size_bytes, file.stamp) for file in store.find())
    return ModelFiles(store.location, tuple(found))


def has(node: StoreNode, files: ModelFiles, content: dict[str, bytes]) -> bool:
    """Say whether a node's directory of files is there, with these contents."""
    with NodeCache(node.root) as cache:
        directory = cache.find(files)
        return directory is not None and content_of(directory) == content


def require_nothing_partial(node: StoreNode) -> None:
    """Check that whatever is visible is whole; here that the weights are not."""
    assert not list((node.root / "trees").iterdir())
    for blob in (node.root / "blobs").iterdir():
        assert sha256(blob.read_bytes()).hexdigest() == blob.name
        assert blob.stat().st_size == len(CONFIG)


def require_statistics(answer: CacheStatistics | str) -> CacheStatistics:
    assert isinstance(answer, CacheStatistics), answer
    return answer


class Gate:
    """Lets the store give some parts of the weights; those after wait, or see something happen."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile
        self._lock = threading.Lock()
        self._count = 0

    def __call__(self, seen: Seen) -> Toxic | None:
        if seen.method != "GET" or WEIGHTS not in seen.path:
            return None
        with self._lock:
            self._count += 1
            return None if self._count <= _BEFORE else Toxic(before=self._meanwhile)


def test_four_nodes_cost_the_store_about_one_download(
    emulator: Emulator, store: Store, content: dict[str, bytes], start_nodes: StartNodes
) -> None:
    files = listed(store)
    nodes = start_nodes("a", "b", "c", "d")
    emulator.proxy.heal()
    for node in nodes:
        node.begin(files)
    done = [require_statistics(node.end()) for node in nodes]
    assert emulator.proxy.sent_bytes <= 1.2 * files.size_bytes
    assert sum(node.from_store_bytes for node in done) <= 1.2 * files.size_bytes
    assert all(has(node, files, content) for node in nodes)

    sent_bytes = emulator.proxy.sent_bytes
    nodes[0].begin(files)
    again = require_statistics(nodes[0].end())
    assert again.downloaded_bytes == done[0].downloaded_bytes
    assert emulator.proxy.sent_bytes == sent_bytes


def test_the_others_finish_when_the_node_that_asks_the_store_is_killed(
    emulator: Emulator,
    store: Store,
    content: dict[str, bytes],
    start_nodes: StartNodes,
    rows_at: tuple[Rows, object],
) -> None:
    files = listed(store)
    (weights,) = (file for file in files.files if file.path == WEIGHTS)
    key = content_key(files.location, weights)
    registry = FileRegistry(rows_at[0])
    first, *others = start_nodes("a", "b", "c")
    is_stuck, is_killed = threading.Event(), threading.Event()

    def wait() -> None:
        is_stuck.set()
        is_killed.wait()

    emulator.proxy.choose = Gate(wait)
    try:
        first.begin(files)
        is_stuck.wait()
        for node in others:
            node.begin(files)
        while len(registry.holders(key)) < 3:
            time.sleep(_POLL_S)
        # The parts that the store gave may still be on their way.
        while not any(read_record(Layout(first.root).partial / key)):
            time.sleep(_POLL_S)
        first.kill()
    finally:
        is_killed.set()
    require_nothing_partial(first)
    for node in others:
        require_statistics(node.end())
        assert has(node, files, content)
    assert len(registry.holders(key)) == 2

    # The node comes back, with what it had written; the others have the rest.
    emulator.proxy.heal()
    (again,) = start_nodes("a")
    again.begin(files)
    done = require_statistics(again.end())
    assert has(again, files, content)
    assert done.downloaded_bytes < files.size_bytes
    assert emulator.proxy.sent_bytes <= len(CONFIG)


def test_a_model_replaced_in_mid_download_is_an_error_and_loads_once_it_is_listed_again(
    emulator: Emulator, store: Store, content: dict[str, bytes], start_nodes: StartNodes
) -> None:
    files = listed(store)
    new = content | {WEIGHTS: random_bytes(SIZE, 2)}
    nodes = start_nodes("a", "b")
    lock = threading.Lock()
    is_replaced = threading.Event()

    def replace() -> None:
        with lock:
            if not is_replaced.is_set():
                store.write(WEIGHTS, new[WEIGHTS])
                is_replaced.set()

    emulator.proxy.choose = Gate(replace)
    for node in nodes:
        node.begin(files)
    for node in nodes:
        message = node.end()
        assert isinstance(message, str)
        assert message.startswith(f"the files of model 'm' at '{files.location}' changed while")
        assert message.endswith("load the model again once its upload is complete")
        require_nothing_partial(node)
    assert is_replaced.is_set()

    emulator.proxy.heal()
    files = listed(store)
    for node in nodes:
        node.begin(files)
    for node in nodes:
        require_statistics(node.end())
        assert has(node, files, new)
