# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from backends.api.errors import InternalError, UnsupportedError
from cluster.repository.filesystem import tree_digest
from cluster.repository.remote import open_filesystem
from cluster.repository.stores.local import LocalFileSystem

LOCAL = LocalFileSystem()


def test_entries_are_sorted_and_follow_links(tmp_path: Path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_text("x")
    (tmp_path / "c").symlink_to(tmp_path / "b")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    rows = [(entry.name, entry.is_directory) for entry in LOCAL.entries(str(tmp_path))]
    assert rows == [("a", False), ("b", True), ("c", True)]


def test_an_entry_that_cannot_be_looked_at_is_an_error_and_not_left_out(tmp_path: Path):
    (tmp_path / "b").symlink_to("x" * 300)
    with pytest.raises(InternalError) as caught:
        LOCAL.entries(str(tmp_path))
    assert caught.value.message == f"failed to open directory {tmp_path}: b: File name too long"


def test_links_that_lead_nowhere_are_left_out(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "below").symlink_to("file/below")
    assert [entry.name for entry in LOCAL.entries(str(tmp_path))] == ["file"]


def test_a_directory_in_place_of_another_has_another_identity(tmp_path: Path):
    (tmp_path / "a").mkdir()
    before = LOCAL.identity(f"{tmp_path}/a")
    (tmp_path / "a" / "m").mkdir()
    assert LOCAL.identity(f"{tmp_path}/a") == before
    (tmp_path / "a").rename(tmp_path / "b")
    assert LOCAL.identity(f"{tmp_path}/a") == ""
    (tmp_path / "a").mkdir()
    assert LOCAL.identity(f"{tmp_path}/a") not in {before, ""}


def test_a_missing_directory_is_internal(tmp_path: Path):
    with pytest.raises(InternalError, match="No such file or directory"):
        LOCAL.entries(str(tmp_path / "nothing"))


def test_a_missing_file_has_tritons_text(tmp_path: Path):
    with pytest.raises(InternalError) as caught:
        LOCAL.read_bytes(f"{tmp_path}/x", 10)
    assert caught.value.message == (
        f"failed to open text file for read {tmp_path}/x: No such file or directory"
    )


def test_a_file_over_the_limit_is_refused(tmp_path: Path):
    (tmp_path / "x").write_bytes(b"1234")
    assert LOCAL.read_bytes(f"{tmp_path}/x", 4) == b"1234"
    with pytest.raises(InternalError, match="larger than the 3 bytes allowed"):
        LOCAL.read_bytes(f"{tmp_path}/x", 3)


def test_escapes_resolves_links_and_dots(tmp_path: Path):
    inside = tmp_path / "m"
    inside.mkdir()
    (tmp_path / "m2").mkdir()
    (inside / "link").symlink_to(tmp_path)
    assert not LOCAL.escapes(f"{inside}/a/../b", str(inside))
    assert LOCAL.escapes(f"{inside}/../m2/x", str(inside))
    assert LOCAL.escapes(f"{inside}/link/x", str(inside))


def test_locations_are_opened_by_scheme(tmp_path: Path):
    filesystem, path = open_filesystem(f"file://{tmp_path}")
    assert filesystem.is_directory(path)
    assert path == str(tmp_path)
    assert open_filesystem("models/")[1] == str(Path.cwd() / "models")
    with pytest.raises(UnsupportedError, match="scheme 'nope' is not supported"):
        open_filesystem("nope://bucket/models")


def test_tree_digest_sees_every_change(tmp_path: Path):
    (tmp_path / "1").mkdir()
    file = tmp_path / "1" / "model.py"
    file.write_text("a")
    digests = [tree_digest(LOCAL, str(tmp_path))]
    file.write_text("bb")
    digests.append(tree_digest(LOCAL, str(tmp_path)))
    os.utime(file, ns=(1, 1))
    digests.append(tree_digest(LOCAL, str(tmp_path)))
    file.rename(file.with_name("other.py"))
    digests.append(tree_digest(LOCAL, str(tmp_path)))
    (tmp_path / "2").mkdir()
    digests.append(tree_digest(LOCAL, str(tmp_path)))
    assert len(set(digests)) == len(digests)
    assert tree_digest(LOCAL, str(tmp_path)) == digests[-1]


def test_tree_digest_ignores_what_python_caches(tmp_path: Path):
    before = tree_digest(LOCAL, str(tmp_path))
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "model.pyc").write_text("x")
    assert tree_digest(LOCAL, str(tmp_path)) == before


def test_a_link_to_a_parent_ends(tmp_path: Path):
    (tmp_path / "up").symlink_to(tmp_path)
    with pytest.raises(InternalError, match="links that lead back up"):
        tree_digest(LOCAL, str(tmp_path))
