# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Downloads from sources that stream: several parts with one request."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backends.api.errors import UnavailableError
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import ModelFile, Write
from deployments.model_files.registry import MemoryRegistry
from tests.support.cache_node import Node
from tests.support.file_sources import PART, DirectorySource, listed, write

PARTS = 35
# All parts differ.
CONTENT = b"".join(bytes([part]) * PART for part in range(PARTS))[:-5]
_CHUNK = PART // 2 + 1


class Streaming(DirectorySource):
    """Streams in chunks that are no parts; keeps what it was asked for."""

    def __init__(
        self, folder: Path, before_chunk: Callable[[int], None] = lambda _offset: None
    ) -> None:
        super().__init__(folder)
        self.before_chunk = before_chunk
        self.asked: list[tuple[int, int]] = []

    def stream(self, file: ModelFile, offset_bytes: int, length_bytes: int, write: Write) -> int:
        self.asked.append((offset_bytes, length_bytes))
        data = self.read(file, offset_bytes, length_bytes)
        for begin in range(0, len(data), _CHUNK):
            self.before_chunk(offset_bytes + begin)
            write(data[begin : begin + _CHUNK], offset_bytes + begin)
        return len(data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "model", {"1/big": CONTENT})
    return tmp_path / "model"


def test_a_large_file_takes_few_requests(folder: Path, tmp_path: Path) -> None:
    source = Streaming(folder)
    with NodeCache(tmp_path / "cache") as cache:
        directory = cache.ensure(listed(folder, with_sha256=True), source)
        assert (directory / "1/big").read_bytes() == CONTENT
        assert cache.statistics().downloaded_bytes == len(CONTENT)
    assert len(source.asked) == -(-PARTS // 2)
    assert sum(length for _, length in source.asked) == len(CONTENT)


def test_a_small_file_is_read_by_all_threads(tmp_path: Path) -> None:
    write(tmp_path / "model", {"1/small": CONTENT[: 8 * PART]})
    source = Streaming(tmp_path / "model")
    with NodeCache(tmp_path / "cache") as cache:
        cache.ensure(listed(tmp_path / "model"), source)
    assert sorted(source.asked) == [(part * PART, PART) for part in range(8)]


@pytest.mark.slow
def test_parts_of_a_request_that_was_cut_are_not_read_again(folder: Path, tmp_path: Path) -> None:
    def cut(offset: int) -> None:
        if offset >= 9 * PART + _CHUNK:
            raise UnavailableError("the store is away")

    first = Streaming(folder, cut)
    files = listed(folder, with_sha256=True)
    with NodeCache(tmp_path / "cache") as cache:
        with pytest.raises(UnavailableError, match="away"):
            cache.ensure(files, first)
        there_bytes = cache.statistics().downloaded_bytes
        assert 0 < there_bytes <= 9 * PART
        second = Streaming(folder)
        assert (cache.ensure(files, second) / "1/big").read_bytes() == CONTENT
    assert second.read_bytes == len(CONTENT) - there_bytes


@pytest.mark.parametrize("skipped_bytes", [0, 1])
def test_a_source_that_leaves_gaps_is_not_believed(skipped_bytes: int, tmp_path: Path) -> None:
    class Wrong(DirectorySource):
        def stream(
            self, file: ModelFile, offset_bytes: int, length_bytes: int, write: Write
        ) -> int:
            write(bytes(1000), offset_bytes + skipped_bytes)
            return length_bytes

    write(tmp_path / "model", {"1/big": CONTENT[:PART]})
    with NodeCache(tmp_path / "cache") as cache, pytest.raises(UnavailableError) as caught:
        cache.ensure(listed(tmp_path / "model"), Wrong(tmp_path / "model"))
    wanted = "4194304 from offset 0" if skipped_bytes else "4194304"
    assert caught.value.message == (
        f"file '1/big': got 1000 bytes from offset {skipped_bytes}, expected {wanted}; load again"
    )


@pytest.mark.slow
def test_what_a_source_sends_beyond_what_was_asked_is_not_written(
    folder: Path, tmp_path: Path
) -> None:
    class Much(Streaming):
        def stream(
            self, file: ModelFile, offset_bytes: int, length_bytes: int, write: Write
        ) -> int:
            super().stream(file, offset_bytes, length_bytes, write)
            write(b"more", offset_bytes + length_bytes)
            return length_bytes + 4

    with NodeCache(tmp_path / "cache") as cache:
        directory = cache.ensure(listed(folder), Much(folder))
        assert (directory / "1/big").read_bytes() == CONTENT


@pytest.mark.slow
def test_nodes_that_load_at_once_ask_a_streaming_store_for_everything_once(
    folder: Path, tmp_path: Path
) -> None:
    registry = MemoryRegistry(stale_after_s=float("inf"))
    nodes = [Node(tmp_path / name, registry) for name in ("a", "b", "c")]
    sources = [Streaming(folder) for _ in nodes]
    files = listed(folder)
    try:
        with ThreadPoolExecutor(len(nodes)) as pool:
            directories = list(
                pool.map(lambda node, source: node.ensure(files, source), nodes, sources)
            )
        assert all((each / "1/big").read_bytes() == CONTENT for each in directories)
        assert sum(source.read_bytes for source in sources) == len(CONTENT)
        from_peers = sum(node.cache.statistics().from_peers_bytes for node in nodes)
        assert from_peers == 2 * len(CONTENT)
    finally:
        for node in nodes:
            node.close()
