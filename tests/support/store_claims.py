# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims that hold of every store; each begins with an empty one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from backends.api.errors import NotFoundError
from cluster.repository.stores.contracts import Store
from deployments.model_files.contracts import FileChangedError
from tests.support.file_sources import random_bytes

Claim = Callable[[Store, Path], None]

NAMES = ("m-a/é x+y%20#.txt", "m.b/1", "m/1/model.py", "m/10/model.py", "m/config.pbtxt")


def files_are_listed_sorted_by_path(store: Store, scratch: Path) -> None:
    for name in reversed(NAMES):
        store.write(name, name.encode())
    found = list(store.find())
    assert [file.path for file in found] == sorted(NAMES)
    assert [file.size_bytes for file in found] == [len(n.encode()) for n in sorted(NAMES)]
    assert all(file.stamp for file in found)
    assert [file.path for file in store.find("m")] == sorted(NAMES)[2:]
    assert list(store.find("nothing")) == []


def what_is_listed_and_looked_at_is_the_same(store: Store, scratch: Path) -> None:
    store.write("m/x", b"abc")
    (listed,) = store.find()
    looked = store.look("m/x")
    assert looked is not None
    assert (looked.path, looked.size_bytes, looked.stamp) == ("m/x", 3, listed.stamp)
    assert store.look("m/y") is None


def parts_are_read(store: Store, scratch: Path) -> None:
    content = bytes(range(256)) * 40
    store.write("x", content)
    store.write("empty", b"")
    assert store.read("x") == content
    assert store.read("x", 100, 50) == content[100:150]
    assert store.read("x", 10_000) == content[10_000:]
    assert store.read("x", 5, 0) == b""
    assert store.read("empty") == b""
    with pytest.raises(NotFoundError, match="File does not exist at "):
        store.read("nothing")


def files_are_streamed(store: Store, scratch: Path) -> None:
    content = random_bytes(9 << 20)
    store.write("x", content)
    (listed,) = store.find()
    stamp = listed.stamp
    begin, length = 1000, (9 << 20) - 3000
    made = bytearray()

    def take(data: bytes, offset: int) -> None:
        assert offset == begin + len(made)
        made.extend(data)

    while len(made) < length:
        count = len(made)
        came = store.stream("x", begin + count, length - count, stamp, take)
        assert came == len(made) - count > 0
    assert made == content[begin : begin + length]
    store.write("x", b"other")
    with pytest.raises(FileChangedError):
        store.stream("x", 0, 5, stamp, take)
    store.remove("x")
    with pytest.raises(FileChangedError):
        store.stream("x", 0, 5, stamp, take)
    assert len(made) == length


def a_file_that_changed_is_noticed(store: Store, scratch: Path) -> None:
    store.write("x", b"first")
    before = store.look("x")
    assert before is not None
    assert store.read("x", 1, 3, before.stamp) == b"irs"
    store.write("x", b"second!")
    with pytest.raises(FileChangedError):
        store.read("x", 1, 3, before.stamp)
    store.remove("x")
    with pytest.raises(FileChangedError):
        store.read("x", stamp=before.stamp)


def a_local_file_is_written(store: Store, scratch: Path) -> None:
    content = b"0123456789abcdef" * (1 << 16) * 20  # 20 MiB
    scratch.write_bytes(content)
    assert store.write("big", scratch)
    assert store.read("big", 17 << 20, 1000) == content[17 << 20 : (17 << 20) + 1000]
    found = store.look("big")
    assert found is not None
    assert found.size_bytes == len(content)
    scratch.write_bytes(b"")
    assert store.write("none", scratch)
    assert store.read("none") == b""


def a_file_that_is_there_may_be_left_alone(store: Store, scratch: Path) -> None:
    assert store.write("x", b"1", if_absent=True)
    assert not store.write("x", b"2", if_absent=True)
    assert store.read("x") == b"1"
    assert store.write("x", b"3")
    assert store.read("x") == b"3"


def removing_twice_is_no_error(store: Store, scratch: Path) -> None:
    store.write("m/1/x", b"1")
    store.write("m/y", b"1")
    store.remove("m/1/x")
    store.remove("m/1/x")
    assert [file.path for file in store.find()] == ["m/y"]


def a_location_that_is_not_there_is_not_found(store: Store, scratch: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        list(store.find())
    assert caught.value.message == f"directory or file does not exist at {store.location}"


def an_empty_directory_is_listed(store: Store, scratch: Path) -> None:
    store.write("m/1/", b"")
    store.write("m/config.pbtxt", b"x")
    assert [file.path for file in store.find()] == ["m/1/", "m/config.pbtxt"]
    store.remove("m/1/")
    assert [file.path for file in store.find()] == ["m/config.pbtxt"]
    store.write("empty/", b"")
    assert [file.path for file in store.find("empty")] == ["empty/"]


ALL: tuple[Claim, ...] = (
    files_are_listed_sorted_by_path,
    what_is_listed_and_looked_at_is_the_same,
    parts_are_read,
    files_are_streamed,
    a_file_that_changed_is_noticed,
    a_local_file_is_written,
    a_file_that_is_there_may_be_left_alone,
    removing_twice_is_no_error,
    a_location_that_is_not_there_is_not_found,
)
# Other protocols of fsspec do not list directories.
OF_CLOUDS: tuple[Claim, ...] = (*ALL, an_empty_directory_is_listed)
