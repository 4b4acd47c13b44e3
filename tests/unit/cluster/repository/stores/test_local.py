# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A directory as a store."""

from pathlib import Path

import pytest

from backends.api.errors import NotFoundError, UnavailableError
from cluster.repository.stores.local import LocalStore
from deployments.model_files.contracts import FileChangedError


def test_files_are_listed_by_path(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    for path in ("a/b", "a.b", "a/c/d", "z"):
        store.write(path, path.encode())
    found = [(file.path, file.size_bytes) for file in store.find() if file.path[-1] != "/"]
    assert found == [("a.b", 3), ("a/b", 3), ("a/c/d", 5), ("z", 1)]
    assert [file.path for file in store.find("a/c") if file.path[-1] != "/"] == ["a/c/d"]


def test_a_part_of_a_file_is_read_if_its_stamp_is_the_one_given(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.write("f", b"0123456789")
    file = store.look("f")
    assert file is not None
    assert store.read("f", 2, 3, file.stamp) == b"234"
    with pytest.raises(FileChangedError):
        store.read("f", stamp="other")


def test_a_file_that_is_there_is_left_alone_if_that_is_asked_for(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    source = tmp_path / "source"
    source.write_bytes(b"one")
    assert store.write("f", source)
    assert not store.write("f", b"two", if_absent=True)
    assert store.read("f") == b"one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "source"]


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "none"))
    assert store.look("f") is None
    store.remove("f")
    with pytest.raises(NotFoundError):
        list(store.find())
    with pytest.raises(NotFoundError):
        store.read("f")
    with pytest.raises(FileChangedError):
        store.read("f", stamp="once")


def test_what_cannot_be_written_is_told_with_its_path(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.write("f", b"")
    with pytest.raises(UnavailableError, match="f/g"):
        store.write("f/g", b"")


def test_a_file_that_cannot_be_looked_at_is_an_error_and_not_left_out(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.write("m/f", b"")
    (tmp_path / "m" / "loop").symlink_to("loop")
    assert [file.path for file in store.find()] == ["m/f"]
    (tmp_path / "m" / "g").symlink_to("x" * 300)
    with pytest.raises(UnavailableError, match="m/: g: File name too long"):
        list(store.find())
