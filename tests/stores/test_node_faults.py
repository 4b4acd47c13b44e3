# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A node that loads a model from each store on a bad day.

Each load ends with all bytes or in an error that says what to do. What the node had before stays,
and nothing that is not whole is ever seen.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from backends.api.errors import ResourceExhaustedError, TritonError, UnavailableError
from cluster.actors.file_registry import FileRegistry
from cluster.repository.stores.contracts import Store
from cluster.repository.stores.retry import RetryPolicy
from cluster.repository.stores.source import StoreSource
from deployments.instance.node_files import NodeFiles, PeerAddress
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import ModelFile, ModelFiles
from tests.support.file_sources import PART, content_of, random_bytes
from tests.support.object_stores import QUICK, Emulator
from tests.support.registry_rows import DictRows
from tests.support.store_faults import BAD_DAYS, EXPIRED, GONE, REFUSED, is_part_of, require_whole
from tests.support.store_nodes import shared_rows, store_node
from tests.support.toxic_proxy import Choose, Seen, Toxic, each_third

# Of aiohttp, of what a test writes.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")

WEIGHTS = "1/model.bin"
PARTS = 4
SIZE = PARTS * PART
CONTENT = {WEIGHTS: random_bytes(SIZE), "config.pbtxt": b"name: 'm'"}
# Parts of the weights that come before something happens.
_BEFORE = 2
_SECRET = b"the secret of the cluster"
_POLL_S = 0.05
# Gives up soon.
_SOON = RetryPolicy(attempts=2, base_s=0.01, cap_s=0.01)


def listed(store: Store, model: str = "m") -> ModelFiles:
    found = list(store.find(model))
    cut = len(model) + 1
    files = (ModelFile(file.path[cut:], file.size_bytes, file.stamp) for file in found)
    return ModelFiles(f"{store.location}/{model}", tuple(files))


class After:
    """Lets the first parts of the weights come; something happens to the others."""

    def __init__(self, then: Toxic) -> None:
        self._then = then
        self._lock = threading.Lock()
        self._count = 0

    def __call__(self, seen: Seen) -> Toxic | None:
        if not is_part_of(seen, WEIGHTS):
            return None
        with self._lock:
            self._count += 1
            return None if self._count <= _BEFORE else self._then


class Node:
    """A node that has a model already, which it keeps in use; without a process of its own."""

    def __init__(
        self, root: Path, emulator: Emulator, rows: DictRows, policy: RetryPolicy, max_bytes: int
    ) -> None:
        self.root = root
        self._registry = FileRegistry(rows, stale_after_s=float("inf"))
        self._emulator, self._policy = emulator, policy
        self.files = NodeFiles(
            str(root),
            max_bytes,
            _SECRET,
            PeerAddress("127.0.0.1"),
            self._registry,
            self._open,
            root.name,
        )
        self._instance = NodeCache(root)
        self._kept: Path | None = None

    def _open(self, location: str) -> StoreSource:
        path = location.removeprefix(self._emulator.location()).lstrip("/")
        return StoreSource(self._emulator.open(path, policy=self._policy))

    def keep(self, files: ModelFiles) -> None:
        """Load a model, as an instance that goes on with it."""
        self.files.ensure("kept", files)
        self._kept = self._instance.find(files)

    def directory(self, files: ModelFiles) -> Path | None:
        """Return where the files are; None where they are not."""
        with NodeCache(self.root) as cache:
            return cache.find(files)

    def require(self, files: ModelFiles, content: dict[str, bytes] | None) -> None:
        """Check what the node has: of these files, this content or nothing; all else whole."""
        require_whole(self.root)
        directory = self.directory(files)
        assert (directory and content_of(directory)) == content
        if self._kept is not None:
            assert content_of(self._kept) == {"1/kept.bin": b"kept"}

    def close(self) -> None:
        self.files.close()
        self._instance.close()


MakeNode = Callable[..., Node]


@pytest.fixture
def node_of(emulator: Emulator, store: Store, tmp_path: Path) -> Iterator[MakeNode]:
    rows = DictRows()
    with ExitStack() as nodes:

        def make(name: str = "a", policy: RetryPolicy = QUICK, max_bytes: int = 0) -> Node:
            node = Node(tmp_path / name, emulator, rows, policy, max_bytes)
            nodes.callback(node.close)
            node.keep(listed(store, "kept"))
            return node

        yield make


@pytest.fixture(autouse=True)
def content(store: Store) -> None:
    """What the store has: the model, and another that the node has loaded before."""
    for path, data in CONTENT.items():
        store.write(f"m/{path}", data)
    store.write("kept/1/kept.bin", b"kept")


@pytest.mark.parametrize("day", BAD_DAYS)
def test_a_load_on_a_bad_day_has_all_bytes(
    emulator: Emulator, store: Store, node_of: MakeNode, day: str
) -> None:
    node, files = node_of(), listed(store)
    emulator.proxy.choose = each_third(BAD_DAYS[day])
    node.files.ensure("m", files)
    node.require(files, CONTENT)


FAULTS: dict[str, Callable[[str], Toxic]] = {
    "throttled": lambda kind: BAD_DAYS["throttled"],
    "failing": lambda kind: BAD_DAYS["failing"],
    "cut in mid-body": lambda kind: BAD_DAYS["cut in mid-body"],
    "credentials expired": EXPIRED.__getitem__,
    "bucket gone": GONE.__getitem__,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_load_that_fails_in_its_middle_says_why_and_goes_on_next_time(
    emulator: Emulator, store: Store, node_of: MakeNode, fault: str
) -> None:
    node, files = node_of(policy=_SOON), listed(store)
    before = node.files.statistics().downloaded_bytes
    emulator.proxy.choose = After(FAULTS[fault](emulator.kind))
    with pytest.raises(TritonError) as caught:
        node.files.ensure("m", files)
    said = {
        "throttled": "poll less often, or have the store's limits raised",
        "credentials expired": REFUSED[emulator.kind],
        "bucket gone": f"{WEIGHTS} is gone; load the model again",
    }.get(fault, "check the network, the endpoint and the store's own state")
    assert said in caught.value.message
    assert f"{files.location}/{WEIGHTS}" in caught.value.message
    assert "very-secret" not in caught.value.message
    node.require(files, None)

    emulator.proxy.heal()
    node.files.ensure("m", files)
    node.require(files, CONTENT)
    # No part that had come came again.
    came = node.files.statistics().downloaded_bytes - before
    assert came == SIZE + len(CONTENT["config.pbtxt"])


def test_an_object_replaced_in_mid_download_is_an_error_until_it_is_listed_again(
    emulator: Emulator, store: Store, node_of: MakeNode
) -> None:
    node, files = node_of(), listed(store)
    new = CONTENT | {WEIGHTS: random_bytes(SIZE, 2)}
    lock, replaced = threading.Lock(), threading.Event()

    def replace() -> None:
        with lock:
            if not replaced.is_set():
                store.write(f"m/{WEIGHTS}", new[WEIGHTS])
                replaced.set()

    emulator.proxy.choose = After(Toxic(before=replace))
    with pytest.raises(UnavailableError, match="changed while they were downloaded"):
        node.files.ensure("m", files)
    node.require(files, None)
    files = listed(store)
    node.files.ensure("m", files)
    node.require(files, new)


def test_a_cache_that_is_full_keeps_what_is_used_and_says_what_to_do(
    emulator: Emulator, store: Store, node_of: MakeNode
) -> None:
    node, files = node_of(max_bytes=SIZE), listed(store)
    emulator.proxy.heal()
    with pytest.raises(ResourceExhaustedError, match="raise --model-cache-max-bytes or unload"):
        node.files.ensure("m", files)
    # It is known before the first byte comes.
    assert emulator.proxy.seen == []
    node.require(files, None)


def test_a_node_killed_in_mid_download_goes_on_when_it_is_back(
    emulator: Emulator,
    store: Store,
    node_of: MakeNode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = listed(store)
    for name, value in emulator.environ.items():
        monkeypatch.setenv(name, value)
    stuck, killed = threading.Event(), threading.Event()

    def wait() -> None:
        stuck.set()
        killed.wait()

    emulator.proxy.choose = After(Toxic(before=wait))
    with shared_rows() as (_, address), store_node(tmp_path / "a", address) as process:
        process.wait_ready()
        process.begin(files)
        try:
            stuck.wait()
            until_written(tmp_path / "a", _BEFORE)
            process.kill()
        finally:
            killed.set()
    emulator.proxy.heal()
    require_whole(tmp_path / "a")
    node = node_of()
    node.require(files, None)
    node.files.ensure("m", files)
    node.require(files, CONTENT)
    assert node.files.statistics().downloaded_bytes <= SIZE - _BEFORE * PART + 100


def until_written(root: Path, parts: int) -> None:
    """Wait until a node has written so many parts of the weights."""
    while not any(
        len(record) == PARTS and record.count(1) >= parts
        for record in map(content_if_there, (root / "partial").glob("*.parts"))
    ):
        time.sleep(_POLL_S)


def content_if_there(path: Path) -> bytes:
    """Return what is in a file; nothing of one that has gone since, as a whole file's record."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


@pytest.mark.parametrize("day", [None, *BAD_DAYS])
def test_two_nodes_at_once_cost_the_store_about_one_download(
    emulator: Emulator, store: Store, node_of: MakeNode, day: str | None
) -> None:
    nodes, files = [node_of("a"), node_of("b")], listed(store)
    choose: Choose = each_third(BAD_DAYS[day]) if day else lambda seen: None
    emulator.proxy.choose = choose
    loads = [threading.Thread(target=node.files.ensure, args=("m", files)) for node in nodes]
    for load in loads:
        load.start()
    for load in loads:
        load.join()
    for node in nodes:
        node.require(files, CONTENT)
    came_bytes = sum(node.files.statistics().from_store_bytes for node in nodes)
    assert came_bytes <= 1.2 * files.size_bytes
