# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A node's cache, as one process uses it."""

import errno
import hashlib
import os
import threading
from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError, ResourceExhaustedError, UnavailableError
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import AgentCall, FileChangedError, ModelFile, ModelFiles
from deployments.model_files.partial import allocate_on_disk
from tests.support.file_sources import (
    PART,
    DirectorySource,
    content_of,
    listed,
    random_bytes,
    stamp_of,
    write,
)

MODEL = {"config.pbtxt": b"name: 'm'", "1/model.onnx": b"weights", "1/deep/empty": b""}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write(tmp_path / "model", MODEL)
    return tmp_path / "model"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def no_source(_location: str) -> DirectorySource:
    raise AssertionError("something is read")


def left(root: Path) -> list[str]:
    """What should not be left over of finished work."""
    folders = ("partial", "making", "locks", "trash")
    return [str(path) for folder in folders for path in (root / folder).iterdir()]


def test_a_model_gets_a_directory_of_its_files(model: Path, root: Path) -> None:
    source = DirectorySource(model)
    with NodeCache(root) as cache:
        directory = cache.ensure(listed(model), source)
        assert content_of(directory) == MODEL
        seen = cache.statistics()
    assert (seen.misses, seen.hits, seen.from_store_bytes) == (3, 0, 16)
    assert left(root) == []


def test_the_second_load_reads_nothing(model: Path, root: Path) -> None:
    files = listed(model)
    with NodeCache(root) as cache:
        first = cache.ensure(files, DirectorySource(model))
    with NodeCache(root) as another:
        assert another.ensure(files, no_source) == first
        assert another.find(files) == first
        assert another.statistics().hits == 6
        assert another.statistics().downloaded_bytes == 0


def test_files_that_versions_share_are_read_once(model: Path, root: Path) -> None:
    with NodeCache(root) as cache:
        cache.ensure(listed(model), DirectorySource(model))
        write(model, {"2/model.onnx": b"other"})
        second = DirectorySource(model)
        directory = cache.ensure(listed(model), second)
        assert [path for path, _ in second.reads] == ["2/model.onnx"]
        assert content_of(directory) == content_of(model)


def test_content_of_a_told_digest_is_read_once_wherever_it_is(model: Path, root: Path) -> None:
    with NodeCache(root) as cache:
        cache.ensure(listed(model), DirectorySource(model))
        elsewhere = listed(model, with_sha256=True, location="s3://other/m")
        assert content_of(cache.ensure(elsewhere, no_source)) == MODEL


def test_equal_contents_are_kept_once(root: Path, tmp_path: Path) -> None:
    content = random_bytes(1 << 20)
    write(tmp_path / "model", {"a": content, "b": content})
    for with_sha256 in (False, True):
        files = listed(tmp_path / "model", with_sha256=with_sha256)
        with NodeCache(root) as cache:
            directory = cache.ensure(files, DirectorySource(tmp_path / "model"))
            assert (directory / "a").samefile(directory / "b")
    assert len(list((root / "blobs").iterdir())) == 1


def test_files_of_several_parts_are_whole(root: Path, tmp_path: Path) -> None:
    content = random_bytes(2 * PART + 123)
    write(tmp_path / "model", {"1/big": content})
    source = DirectorySource(tmp_path / "model")
    with NodeCache(root) as cache:
        files = listed(tmp_path / "model", with_sha256=True)
        assert (cache.ensure(files, source) / "1/big").read_bytes() == content
    assert sorted(source.reads) == [("1/big", 0), ("1/big", PART), ("1/big", 2 * PART)]


def test_a_file_that_changes_meanwhile_fails_it_all_and_leaves_nothing(
    model: Path, root: Path
) -> None:
    files = listed(model)
    write(model, {"1/model.onnx": b"changed!"})
    with NodeCache(root) as cache:
        with pytest.raises(FileChangedError, match=r"model\.onnx"):
            cache.ensure(files, DirectorySource(model))
        assert cache.find(files) is None
        assert left(root) == []
        assert content_of(cache.ensure(listed(model), DirectorySource(model))) == content_of(model)


def test_a_file_without_the_told_digest_is_refused(model: Path, root: Path) -> None:
    path = model / "1/model.onnx"
    told = hashlib.sha256(b"signed").hexdigest()
    file = ModelFile("1/model.onnx", path.stat().st_size, stamp_of(path), told)
    with NodeCache(root) as cache:
        with pytest.raises(UnavailableError, match=f"SHA-256 .*expected {told}"):
            cache.ensure(ModelFiles("dir://m", (file,)), DirectorySource(model))
        assert left(root) == []


def test_a_source_that_sends_too_little_is_not_believed(model: Path, root: Path) -> None:
    class Short(DirectorySource):
        def read(self, file: ModelFile, offset_bytes: int, length_bytes: int) -> bytes:
            return super().read(file, offset_bytes, length_bytes)[:-1]

    with (
        NodeCache(root) as cache,
        pytest.raises(UnavailableError, match="got 6 bytes from offset 0, expected 7"),
    ):
        cache.ensure(ModelFiles("dir://m", listed(model).files[1:2]), Short(model))
    assert left(root) == []


@pytest.mark.slow
def test_a_download_that_failed_goes_on_where_it_was(root: Path, tmp_path: Path) -> None:
    content = random_bytes(20 * PART)
    write(tmp_path / "model", {"1/big": content})
    files = listed(tmp_path / "model")

    def fail_late(_path: str, offset: int) -> None:
        if offset >= 15 * PART:
            raise UnavailableError("the store is away")

    first = DirectorySource(tmp_path / "model", fail_late)
    with NodeCache(root) as cache:
        with pytest.raises(UnavailableError, match="away"):
            cache.ensure(files, first)
        assert first.reads
        second = DirectorySource(tmp_path / "model")
        assert (cache.ensure(files, second) / "1/big").read_bytes() == content
    assert sorted(first.reads + second.reads) == [("1/big", part * PART) for part in range(20)]


@pytest.mark.parametrize(
    "path", ["../x", "/x", "a/../../x", "a//b", "", ".", "a/./b", "a\0b", "..\\x", "a/"]
)
def test_a_path_that_leads_out_of_the_model_is_refused(path: str, root: Path) -> None:
    files = ModelFiles("s3://bucket/m", (ModelFile(path, 1, "1"),))
    with (
        NodeCache(root) as cache,
        pytest.raises(InvalidArgumentError, match="of 's3://bucket/m' cannot be a model's"),
    ):
        cache.ensure(files, no_source)


@pytest.mark.parametrize("paths", [("a", "a"), ("a", "a/b"), ("a", "a-", "a/b/c")])
def test_a_path_that_is_taken_is_refused(paths: tuple[str, ...], root: Path) -> None:
    files = ModelFiles("s3://bucket/m", tuple(ModelFile(path, 1, "1") for path in paths))
    with NodeCache(root) as cache, pytest.raises(InvalidArgumentError, match="twice, or is a dir"):
        cache.ensure(files, no_source)


def test_files_cannot_be_written_by_those_who_load_them(model: Path, root: Path) -> None:
    with NodeCache(root) as cache:
        directory = cache.ensure(listed(model), DirectorySource(model))
        assert {path.stat().st_mode & 0o222 for path in directory.rglob("*") if path.is_file()} == {
            0
        }


def test_threads_that_want_the_same_read_it_once(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "model", {f"1/{number}": random_bytes(1000, number) for number in range(20)})
    files = listed(tmp_path / "model")
    source = DirectorySource(tmp_path / "model")
    found: list[Path] = []
    with NodeCache(root) as cache, NodeCache(root) as another:
        threads = [
            threading.Thread(target=lambda one=one: found.append(one.ensure(files, source)))
            for one in (cache, another) * 3
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert len(source.reads) == 20


def test_models_that_share_a_file_read_it_once_at_the_same_time(root: Path, tmp_path: Path) -> None:
    both_want = threading.Barrier(2)
    write(tmp_path / "a", {"shared": b"shared", "own": b"a"})
    write(tmp_path / "b", {"shared": b"shared", "own": b"b"})
    counts = []

    def meet(path: str, _offset: int) -> None:
        if path == "own":
            both_want.wait(20)

    def load(name: str) -> None:
        source = DirectorySource(tmp_path / name, meet)
        with NodeCache(root) as cache:
            directory = cache.ensure(listed(tmp_path / name, with_sha256=True), source)
            assert content_of(directory) == content_of(tmp_path / name)
        counts.append([path for path, _ in source.reads].count("shared"))

    threads = [threading.Thread(target=load, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == [0, 1]


def test_progress_is_told_at_most_once_a_second(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "model", {f"1/{number}": bytes(100) for number in range(10)})
    now = [0.0]
    told: list[tuple[int, int]] = []

    def tick(_path: str, _offset: int) -> None:
        now[0] += 0.25

    with NodeCache(root, clock=lambda: now[0]) as cache:
        source = DirectorySource(tmp_path / "model", tick)
        cache.ensure(listed(tmp_path / "model"), source, lambda *both: told.append(both))
        assert cache.statistics().seconds == 2.5
    assert 1 <= len(told) <= 2
    assert {total for _, total in told} == {1000}
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_what_was_used_longest_ago_leaves_first(root: Path, tmp_path: Path) -> None:
    with NodeCache(root, max_bytes=2500) as cache:
        wanted = []
        for number in range(3):
            folder = tmp_path / str(number)
            write(folder, {"1/model": random_bytes(1000, number)})
            wanted.append(listed(folder))
            directory = cache.ensure(wanted[-1], DirectorySource(folder))
            cache.release(directory)
            if number == 1:
                cache.release(cache.ensure(wanted[0], no_source))
        assert cache.find(wanted[1]) is None
        assert cache.find(wanted[0]) is not None
        assert cache.find(wanted[2]) is not None
        assert cache.statistics().evictions == 2
    assert len(list((root / "blobs").iterdir())) == 2
    assert len(list((root / "index").iterdir())) == 2


def test_what_is_used_never_leaves(root: Path, tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path / str(number), {"1/model": random_bytes(1000, number)})
    with NodeCache(root, max_bytes=1500) as cache, NodeCache(root, max_bytes=1500) as another:
        used = cache.ensure(listed(tmp_path / "0"), DirectorySource(tmp_path / "0"))
        second, source = listed(tmp_path / "1"), DirectorySource(tmp_path / "1")
        with pytest.raises(
            ResourceExhaustedError,
            match=r"wanted 1000 bytes, it may hold 1500 and 1000 are in use; raise --model-cache",
        ):
            another.ensure(second, source)
        assert content_of(used) == content_of(tmp_path / "0")
        assert left(root) == []
        cache.release(used)
        another.ensure(second, source)
        assert not used.exists()


def test_a_file_of_a_model_in_use_stays_when_another_model_with_it_leaves(
    root: Path, tmp_path: Path
) -> None:
    for number in range(3):
        write(tmp_path / str(number), {"own": random_bytes(1000, number)})
    for number in range(2):
        write(tmp_path / str(number), {"shared": random_bytes(1000, 9)})
    with NodeCache(root, max_bytes=3000) as cache:
        first, used = (
            cache.ensure(listed(folder, with_sha256=True), DirectorySource(folder))
            for folder in (tmp_path / "0", tmp_path / "1")
        )
        cache.release(first)
        cache.ensure(listed(tmp_path / "2"), DirectorySource(tmp_path / "2"))
        assert not first.exists()
        assert content_of(used) == content_of(tmp_path / "1")


class SmallDisk:
    """A disk that is full when files take more than it has."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.folder, self.size_bytes = folder, size_bytes

    def __call__(self, descriptor: int, wanted_bytes: int) -> None:
        inodes = {
            (status := path.stat()).st_ino: status.st_size
            for path in self.folder.rglob("*")
            if path.is_file() and path.parent.name in {"blobs", "partial", "1"}
        }
        if sum(inodes.values()) + wanted_bytes > self.size_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate_on_disk(descriptor, wanted_bytes)


def test_a_full_disk_is_made_room_on(root: Path, tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path / str(number), {"1/model": random_bytes(10_000, number)})
    with NodeCache(root, max_bytes=1 << 40, allocate=SmallDisk(root, 15_000)) as cache:
        first = cache.ensure(listed(tmp_path / "0"), DirectorySource(tmp_path / "0"))
        second, source = listed(tmp_path / "1"), DirectorySource(tmp_path / "1")
        with pytest.raises(
            ResourceExhaustedError,
            match=rf"'{root}' is full: wanted 10000 bytes .* are free .*--model-cache-max-bytes",
        ):
            cache.ensure(second, source)
        assert content_of(first) == content_of(tmp_path / "0")
        assert left(root) == []
        cache.release(first)
        assert content_of(cache.ensure(second, source)) == content_of(tmp_path / "1")
        assert not first.exists()


def test_what_is_made_of_files_is_made_once_and_kept_apart(model: Path, root: Path) -> None:
    plain = listed(model)
    files = ModelFiles(plain.location, plain.files, (AgentCall("unpack"),))
    made = []

    def make(directory: Path) -> None:
        made.append(directory)
        write(directory, {"1/unpacked": b"content"})

    with NodeCache(root) as cache:
        cache.ensure(plain, DirectorySource(model))
        first = cache.derive(files.key(), make, 7)
        assert cache.derive(files.key(), make, 7) == first
        assert cache.find(files) == first
        assert content_of(first) == {"1/unpacked": b"content"}
    assert len(made) == 1


def test_what_fails_to_be_made_is_not_there(root: Path) -> None:
    def make(directory: Path) -> None:
        write(directory, {"half": b""})
        raise UnavailableError("checksum mismatch")

    with NodeCache(root) as cache, pytest.raises(UnavailableError, match="checksum mismatch"):
        cache.derive("ab", make, 0)
    assert left(root) == []
    assert list((root / "trees").iterdir()) == []


def test_after_a_start_of_the_machine_contents_are_read_before_they_are_used(
    model: Path, root: Path
) -> None:
    files = listed(model)
    with NodeCache(root, boot_id="first") as cache:
        directory = cache.ensure(files, DirectorySource(model))
        damaged = (directory / "1/model.onnx").resolve()
        damaged.chmod(0o600)
        # What a loss of power may leave: the size is right, the content never reached the disk.
        damaged.write_bytes(bytes(len(MODEL["1/model.onnx"])))
    source = DirectorySource(model)
    with NodeCache(root, boot_id="second") as cache:
        assert cache.find(files) is None
        assert content_of(cache.ensure(files, source)) == MODEL
    assert [path for path, _ in source.reads] == ["1/model.onnx"]


def test_the_folder_of_another_user_is_refused(root: Path, monkeypatch) -> None:
    root.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: root.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="another user"):
        NodeCache(root)


def test_releasing_what_is_not_held_is_an_error(root: Path) -> None:
    with NodeCache(root) as cache, pytest.raises(KeyError, match="not held"):
        cache.release(root / "trees" / "x")
