# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What one process of a node fetches for all instances there, and how an instance gets it."""

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from backends.api.errors import InternalError, ResourceExhaustedError, UnavailableError
from backends.api.model_config import ModelConfig
from deployments.instance.model_files import with_local_files
from deployments.instance.node_files import NodeFiles, PeerAddress
from deployments.instance.spec import InstanceSpec
from deployments.model_files import counters
from deployments.model_files.blobs import content_key
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import AgentCall, ModelChangedError, ModelFiles
from deployments.model_files.prefetch import CacheView, Outcome, Prefetched
from deployments.model_files.registry import MemoryRegistry
from tests.support.file_sources import DirectorySource, content_of, listed, random_bytes, write

SECRET = b"the secret of the cluster"
# Files smaller than 64 KiB are never asked of other nodes.
SIZE = 100_000
# Room for one model, with what belongs to it, and not for two.
MAX_BYTES = 150_000


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write(tmp_path / "model", {"1/weights": random_bytes(SIZE)})
    return tmp_path / "model"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    write(tmp_path / "other", {"1/weights": random_bytes(SIZE, 2)})
    return tmp_path / "other"


MakeNode = Callable[..., NodeFiles]


@pytest.fixture
def node_of(tmp_path: Path) -> Iterator[MakeNode]:
    registry = MemoryRegistry()
    with ExitStack() as nodes:

        def make(
            store: DirectorySource, name: str = "a", max_bytes: int = 0, secret: bytes = SECRET
        ) -> NodeFiles:
            root = str(tmp_path / name)
            node = NodeFiles(
                root, max_bytes, secret, PeerAddress("127.0.0.1"), registry, store, name
            )
            nodes.callback(node.close)
            return node

        yield make


def spec(root: Path, files: ModelFiles, max_bytes: int = 0) -> InstanceSpec:
    return InstanceSpec(
        generation=1,
        version=1,
        model_dir="s3://bucket/m",
        name="m/1#0@1",
        model_name="m",
        index=0,
        instance_name="m_0",
        config=ModelConfig("m"),
        auto_complete=False,
        files=files,
        model_cache_directory=str(root),
        model_cache_max_bytes=max_bytes,
    )


def test_what_was_fetched_stays_until_the_instance_has_it(
    model: Path, other: Path, node_of: MakeNode, tmp_path: Path
) -> None:
    node = node_of(lambda location: DirectorySource(Path(location[6:])), max_bytes=MAX_BYTES)
    node.ensure("m", listed(model))
    with pytest.raises(ResourceExhaustedError, match="unload models"):
        node.ensure("other", listed(other))
    with NodeCache(tmp_path / "a") as instance:
        directory = instance.find(listed(model))
        assert directory is not None
        assert content_of(directory) == content_of(model)


def test_what_no_instance_has_taken_is_let_go_after_its_time(
    model: Path, other: Path, node_of: MakeNode
) -> None:
    node = node_of(lambda location: DirectorySource(Path(location[6:])), max_bytes=MAX_BYTES)
    before = set(threading.enumerate())
    node.ensure("m", listed(model))
    for thread in set(threading.enumerate()) - before:
        if isinstance(thread, threading.Timer):
            # Its time has come.
            thread.cancel()
            thread.function(*thread.args)
    node.ensure("other", listed(other))
    assert node.statistics().evictions > 0


def test_who_asks_is_told_how_far_it_is(
    model: Path, node_of: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "_REPORT_INTERVAL_S", 0.0)
    told: list[tuple[int, int]] = []
    node = node_of(DirectorySource(model))
    node.ensure("m", listed(model), on_progress=lambda there, of: told.append((there, of)))
    assert told[-1] == (SIZE, SIZE)
    told.clear()
    node.ensure("m", listed(model), on_progress=lambda there, of: told.append((there, of)))
    assert told == []


def test_a_file_that_changes_meanwhile_is_unavailable_with_what_to_do(
    model: Path, node_of: MakeNode, tmp_path: Path
) -> None:
    files = listed(model)
    (model / "1/weights").write_bytes(bytes(SIZE))
    with pytest.raises(UnavailableError) as caught:
        node_of(DirectorySource(model)).ensure("m", files)
    assert caught.value.message == (
        f"the files of model 'm' at '{files.location}' changed while they were downloaded: "
        f"'{model / '1/weights'}' is no longer what was listed; load the model again once its "
        "upload is complete"
    )
    with NodeCache(tmp_path / "a") as cache:
        assert cache.find(files) is None


def test_a_cache_that_cannot_be_written_is_an_internal_error(
    model: Path, node_of: MakeNode, tmp_path: Path
) -> None:
    node = node_of(DirectorySource(model))
    shutil.rmtree(tmp_path / "a" / "making")
    with pytest.raises(InternalError, match=r"files of model 'm' cannot be written .*making"):
        node.ensure("m", listed(model))


def test_errors_of_the_store_come_through_as_they_are(model: Path, node_of: MakeNode) -> None:
    def fail(_path: str, _offset: int) -> None:
        raise UnavailableError("the store is away")

    with pytest.raises(UnavailableError, match=r"^the store is away$"):
        node_of(DirectorySource(model, fail)).ensure("m", listed(model))


def test_an_instance_has_the_files_it_was_fetched_for_to_itself(
    model: Path, node_of: MakeNode, tmp_path: Path
) -> None:
    files = listed(model)
    node = node_of(DirectorySource(model))
    local = with_local_files(spec(tmp_path / "a", files), lambda wanted: node.ensure("m", files))
    node.close()
    with NodeCache(tmp_path / "a", MAX_BYTES) as cache:
        write(tmp_path / "more", {"1/weights": random_bytes(SIZE, 3)})
        with pytest.raises(ResourceExhaustedError):
            cache.ensure(listed(tmp_path / "more"), DirectorySource(tmp_path / "more"))
    assert content_of(Path(local.model_dir)) == content_of(model)


def test_what_is_there_is_not_fetched(model: Path, node_of: MakeNode, tmp_path: Path) -> None:
    files = listed(model)
    node_of(DirectorySource(model)).ensure("m", files)
    wanted: list[InstanceSpec] = []
    local = with_local_files(spec(tmp_path / "a", files), wanted.append)
    assert content_of(Path(local.model_dir)) == content_of(model)
    assert wanted == []


def evicting_fetch(root: Path, model: Path, other: Path, lost: int) -> Callable[[object], None]:
    """Return a fetch whose files leave for another model at once, so many times."""
    left = [lost]

    def fetch(_spec: object) -> None:
        left[0] -= 1
        with NodeCache(root, MAX_BYTES) as cache:
            cache.ensure(listed(model), DirectorySource(model))
        if left[0] >= 0:
            with NodeCache(root, MAX_BYTES) as cache:
                cache.ensure(listed(other), DirectorySource(other))

    return fetch


def test_files_that_leave_before_they_are_pinned_are_fetched_again(
    model: Path, other: Path, tmp_path: Path
) -> None:
    fetch = evicting_fetch(tmp_path / "a", model, other, 2)
    local = with_local_files(spec(tmp_path / "a", listed(model), MAX_BYTES), fetch)
    assert content_of(Path(local.model_dir)) == content_of(model)


def test_a_cache_too_small_for_what_is_loaded_says_what_to_do(
    model: Path, other: Path, tmp_path: Path
) -> None:
    fetch = evicting_fetch(tmp_path / "a", model, other, 99)
    with pytest.raises(UnavailableError, match="give more to --model-cache-max-bytes"):
        with_local_files(spec(tmp_path / "a", listed(model), MAX_BYTES), fetch)


@pytest.mark.parametrize("with_sha256", [False, True])
def test_a_node_that_is_started_anew_announces_what_its_cache_has(
    model: Path, node_of: MakeNode, tmp_path: Path, with_sha256: bool
) -> None:
    write(model, {"1/small": b"x", "1/copy": (model / "1/weights").read_bytes()})
    files = listed(model, with_sha256=with_sha256)
    ended = node_of(DirectorySource(model), "a")
    ended.ensure("m", files)
    ended.close()
    node_of(DirectorySource(model), "a").announce()
    store = DirectorySource(model)
    node_of(store, "b").ensure("m", files)
    assert store.reads == [("1/small", 0)]
    with NodeCache(tmp_path / "b") as cache:
        directory = cache.find(files)
        assert directory is not None
        assert content_of(directory) == content_of(model)


def test_what_was_announced_and_has_left_is_read_from_the_store(
    model: Path, node_of: MakeNode, tmp_path: Path
) -> None:
    files = listed(model)
    node_of(DirectorySource(model), "a").ensure("m", files)
    node_of(DirectorySource(model), "c").ensure("m", files)
    again = node_of(DirectorySource(model), "a")
    again.announce()
    for name in "ac":
        for blob in (tmp_path / name / "blobs").iterdir():
            blob.unlink()
    store = DirectorySource(model)
    node_of(store, "b").ensure("m", files)
    assert store.read_bytes == SIZE


@pytest.mark.parametrize(
    ("secret", "from_store"),
    [pytest.param(SECRET, 0, id="same"), pytest.param(b"another", SIZE, id="another")],
)
def test_nodes_that_do_not_share_a_secret_read_from_the_store(
    model: Path, node_of: MakeNode, tmp_path: Path, secret: bytes, from_store: int
) -> None:
    files = listed(model)
    node_of(DirectorySource(model), "a").ensure("m", files)
    store = DirectorySource(model)
    second = node_of(store, "b", secret=secret)
    second.ensure("m", files)
    assert store.read_bytes == second.statistics().from_store_bytes == from_store
    with NodeCache(tmp_path / "b") as cache:
        directory = cache.find(files)
        assert directory is not None
        assert content_of(directory) == content_of(model)


def test_a_node_whose_process_ended_costs_others_nothing_but_the_store(
    model: Path, node_of: MakeNode
) -> None:
    files = listed(model)
    first = node_of(DirectorySource(model), "a")
    first.ensure("m", files)
    first.close()
    store = DirectorySource(model)
    second = node_of(store, "b")
    second.ensure("m", files)
    assert store.read_bytes == SIZE
    key = content_key(files.location, files.files[0])
    assert len(second._registry.holders(key)) == 1


# Room for both models.
AMPLE_BYTES = 250_000


def source_of(location: str) -> DirectorySource:
    return DirectorySource(Path(location.removeprefix("dir://")))


def test_what_was_prefetched_is_told_with_the_room_that_is_left(
    model: Path, other: Path, node_of: MakeNode
) -> None:
    node = node_of(source_of, max_bytes=AMPLE_BYTES)
    files, more = listed(model), listed(other)
    answer = node.prefetch("m", files, 0.5)
    assert (answer.outcome, answer.free_bytes) == (Outcome.THERE, AMPLE_BYTES // 2 - SIZE)
    refused = node.prefetch("other", more, 0.5)
    assert refused == Prefetched(Outcome.NO_ROOM, answer.free_bytes, wanted_bytes=SIZE)
    assert node.view([more.key(), files.key()], 0.5) == CacheView((files.key(),), answer.free_bytes)
    assert node.statistics().prefetched_bytes == SIZE
    assert node.statistics().evictions == 0


def test_agents_run_with_the_first_use_over_what_was_prefetched(
    model: Path, node_of: MakeNode
) -> None:
    store = DirectorySource(model)
    node = node_of(store)
    files = replace(listed(model), agents=(AgentCall("checksum"),))
    node.prefetch("m", files, 1.0)
    runs: list[Path] = []

    def run(plain: Path, directory: Path) -> None:
        runs.append(plain)
        shutil.copytree(plain, directory, dirs_exist_ok=True)

    assert node.view([replace(files, agents=()).key()], 1.0).held
    store.reads.clear()
    assert content_of(node.ensure("m", files, run)) == content_of(model)
    assert store.reads == []
    assert len(runs) == 1


def test_a_load_has_the_room_of_a_prefetch_that_stops_for_it(
    model: Path, other: Path, node_of: MakeNode
) -> None:
    began, loads = threading.Event(), threading.Event()

    def hold(_path: str, _offset: int) -> None:
        began.set()
        assert loads.wait(60)

    sources = {str(model): DirectorySource(model, hold), str(other): DirectorySource(other)}
    node = node_of(lambda location: sources[location.removeprefix("dir://")], max_bytes=MAX_BYTES)
    ended = node._prefetch_turn.wait_over

    def wait_over() -> None:
        loads.set()
        ended()

    node._prefetch_turn.wait_over = wait_over  # type: ignore[method-assign]
    with ThreadPoolExecutor() as pool:
        ahead = pool.submit(node.prefetch, "m", listed(model), 1.0)
        assert began.wait(60)
        assert content_of(node.ensure("other", listed(other))) == content_of(other)
        assert ahead.result(60).outcome is Outcome.STOPPED


def test_a_prefetch_can_be_stopped_and_another_node_asks_the_store(
    model: Path, node_of: MakeNode
) -> None:
    stopping: list[NodeFiles] = []
    node = node_of(DirectorySource(model, lambda _path, _offset: stopping[0].stop_prefetch()), "a")
    stopping.append(node)
    assert node.prefetch("m", listed(model), 1.0).outcome is Outcome.STOPPED
    store = DirectorySource(model)
    node_of(store, "b").ensure("m", listed(model))
    assert store.read_bytes == SIZE


def test_a_prefetch_of_files_that_changed_says_so(model: Path, node_of: MakeNode) -> None:
    files = listed(model)
    (model / "1/weights").write_bytes(bytes(SIZE))
    with pytest.raises(ModelChangedError, match="files of model 'm' at"):
        node_of(DirectorySource(model)).prefetch("m", files, 1.0)
