# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are in a cache before anybody needs them: only in free room, and first to leave."""

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import ModelFiles
from deployments.model_files.download import PARALLEL
from deployments.model_files.locks import StoppedError
from deployments.model_files.prefetch import NoFreeRoomError, PrefetchTurn
from tests.support.file_sources import (
    PART,
    DirectorySource,
    content_of,
    listed,
    random_bytes,
    write,
)

SIZE = 1000
# Room for four models, half of it for two.
MAX_BYTES = 4 * SIZE


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def model(folder: Path, number: int, size_bytes: int = SIZE) -> Path:
    write(folder / str(number), {"1/weights": random_bytes(size_bytes, number)})
    return folder / str(number)


def prefetch(cache: NodeCache, folder: Path, fraction: float = 1.0) -> ModelFiles:
    files = listed(folder)
    cache.prefetch(files, DirectorySource(folder), fraction, Event())
    return files


def use(cache: NodeCache, folder: Path) -> ModelFiles:
    files = listed(folder)
    cache.release(cache.ensure(files, DirectorySource(folder)))
    return files


def test_what_was_prefetched_is_there_for_the_first_use(root: Path, tmp_path: Path) -> None:
    folder = model(tmp_path, 1)
    with NodeCache(root) as cache:
        prefetch(cache, folder)
        source = DirectorySource(folder)
        assert content_of(cache.ensure(listed(folder), source)) == content_of(folder)
        assert source.reads == []
        seen = cache.statistics()
    assert (seen.prefetched_bytes, seen.from_store_bytes) == (SIZE, SIZE)
    # Nobody has waited for it, and nobody has missed it.
    assert (seen.misses, seen.seconds) == (0, 0.0)


def test_a_second_prefetch_reads_nothing(root: Path, tmp_path: Path) -> None:
    folder = model(tmp_path, 1)
    with NodeCache(root) as cache:
        prefetch(cache, folder)
        prefetch(cache, folder)
        assert cache.statistics().prefetched_bytes == SIZE


def test_prefetched_files_fill_a_cache_up_to_their_part_and_evict_nothing(
    root: Path, tmp_path: Path
) -> None:
    folders = [model(tmp_path, number) for number in range(4)]
    with NodeCache(root, MAX_BYTES) as cache:
        used = use(cache, folders[0])
        assert cache.free_bytes(0.5) == SIZE
        ahead = prefetch(cache, folders[1], 0.5)
        with pytest.raises(NoFreeRoomError) as caught:
            prefetch(cache, folders[2], 0.5)
        assert caught.value.wanted_bytes == SIZE
        assert cache.has(used.key())
        assert cache.has(ahead.key())
        use(cache, folders[3])
        assert cache.free_bytes(0.5) == -SIZE
        assert cache.statistics().evictions == 0


def test_a_full_disk_is_no_reason_to_evict_for_a_prefetch(root: Path, tmp_path: Path) -> None:
    def allocate(_descriptor: int, size_bytes: int) -> None:
        if size_bytes > SIZE:
            raise OSError(errno.ENOSPC, "full")

    with NodeCache(root, allocate=allocate) as cache:
        used = use(cache, model(tmp_path, 1))
        with pytest.raises(NoFreeRoomError):
            prefetch(cache, model(tmp_path, 2, SIZE + 1))
        assert cache.has(used.key())
        assert list(cache.layout.partial.iterdir()) == []


def test_what_was_never_used_leaves_before_what_was_used_longest_ago(
    root: Path, tmp_path: Path
) -> None:
    folders = [model(tmp_path, number) for number in range(6)]
    with NodeCache(root, MAX_BYTES) as cache:
        used = [use(cache, folder) for folder in folders[:2]]
        ahead = [prefetch(cache, folder) for folder in folders[2:4]]
        for folder in folders[4:]:
            use(cache, folder)
        assert not any(cache.has(files.key()) for files in ahead)
        assert all(cache.has(files.key()) for files in used)


def test_with_its_first_use_it_is_as_young_as_any(root: Path, tmp_path: Path) -> None:
    folders = [model(tmp_path, number) for number in range(5)]
    with NodeCache(root, MAX_BYTES) as cache:
        ahead = prefetch(cache, folders[0])
        old = use(cache, folders[1])
        directory = cache.find(ahead)
        assert directory is not None
        # Not what tells that nobody has used it: zip files know no year before 1980.
        assert (directory / "1/weights").stat().st_mtime > 1e9
        cache.release(directory)
        for folder in folders[2:]:
            use(cache, folder)
        assert cache.has(ahead.key())
        assert not cache.has(old.key())


def test_a_file_that_another_model_uses_is_used(root: Path, tmp_path: Path) -> None:
    folder = model(tmp_path, 1)
    write(tmp_path / "more", {"1/copy": (folder / "1/weights").read_bytes()})
    with NodeCache(root) as cache:
        files = listed(folder, with_sha256=True)
        cache.prefetch(files, DirectorySource(folder), 1.0, Event())
        more = listed(tmp_path / "more", with_sha256=True)
        directory = cache.ensure(more, DirectorySource(tmp_path / "more"))
        assert (directory / "1/copy").stat().st_mtime > 1e9
        assert cache.statistics().from_store_bytes == SIZE


def test_a_first_use_waits_for_the_same_download(root: Path, tmp_path: Path) -> None:
    folder = model(tmp_path, 1)
    began, goes_on = Event(), Event()

    def wait(_path: str, _offset: int) -> None:
        began.set()
        assert goes_on.wait(60)

    slow, other = DirectorySource(folder, wait), DirectorySource(folder)
    files = listed(folder)
    with NodeCache(root) as cache, ThreadPoolExecutor() as pool:
        ahead = pool.submit(cache.prefetch, files, slow, 1.0, Event())
        assert began.wait(60)
        first_use = pool.submit(cache.ensure, files, other)
        goes_on.set()
        ahead.result(60)
        assert content_of(first_use.result(60)) == content_of(folder)
    assert other.reads == []
    assert slow.read_bytes == SIZE


@pytest.mark.slow
def test_what_was_stopped_is_gone_on_with_and_leaves_first(root: Path, tmp_path: Path) -> None:
    parts = 2 * PARALLEL
    folder = model(tmp_path, 1, parts * PART)
    stop = Event()

    def stop_soon(_path: str, offset: int) -> None:
        if offset >= PARALLEL * PART:
            stop.set()

    with NodeCache(root) as cache:
        files = listed(folder)
        with pytest.raises(StoppedError):
            cache.prefetch(files, DirectorySource(folder, stop_soon), 1.0, stop)
        assert not cache.has(files.key())
        (partial,) = cache.layout.partial.glob("*[!s]")
        assert partial.stat().st_mtime == 0
        source = DirectorySource(folder)
        assert content_of(cache.ensure(files, source)) == content_of(folder)
        assert 0 < source.read_bytes < parts * PART


def test_one_that_was_stopped_at_its_begin_makes_nothing(root: Path, tmp_path: Path) -> None:
    folder = model(tmp_path, 1)
    stop = Event()
    stop.set()
    with NodeCache(root) as cache:
        with pytest.raises(StoppedError):
            cache.prefetch(listed(folder), DirectorySource(folder), 1.0, stop)
        assert not cache.has(listed(folder).key())
        assert list(cache.layout.partial.iterdir()) == []


def test_a_prefetch_stops_for_other_files_and_not_for_its_own() -> None:
    turn = PrefetchTurn()
    with turn.taken("a") as stop:
        with turn.needed("a") as has_stopped:
            assert not has_stopped
            assert not stop.is_set()
        with turn.needed("b") as has_stopped:
            assert has_stopped
            assert stop.is_set()


def test_no_prefetch_begins_while_files_are_needed() -> None:
    turn = PrefetchTurn()
    with turn.needed("a"), pytest.raises(StoppedError), turn.taken("b"):
        pass
    with turn.taken("b") as stop:
        assert not stop.is_set()
        turn.stop()
        assert stop.is_set()
