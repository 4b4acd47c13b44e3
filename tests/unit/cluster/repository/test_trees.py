# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from backends.api.errors import InternalError
from cluster.repository.trees import copy_tree, files_below


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    (made / "1" / "data").mkdir(parents=True)
    (made / "2").mkdir()
    (made / "1" / "model.py").write_text("x")
    (made / "1" / "data" / "a").write_text("a")
    (made / "__pycache__").mkdir()
    (made / "__pycache__" / "model.pyc").write_text("cached")
    (made / "linked").symlink_to(made / "1" / "model.py")
    return made


def test_a_tree_is_listed_without_what_python_caches(source: Path):
    assert sorted(files_below(source)) == ["1/data/a", "1/model.py", "linked"]


def test_a_loop_of_links_ends(source: Path):
    (source / "up").symlink_to(source)
    with pytest.raises(InternalError, match="remove links that lead back up"):
        list(files_below(source))


@pytest.mark.parametrize("links", [True, False])
def test_a_copy_has_files_where_there_were_links(source: Path, tmp_path: Path, *, links: bool):
    target = tmp_path / "deep" / "target"
    copy_tree(source, target, links=links)
    assert sorted(files_below(target)) == ["1/data/a", "1/model.py", "linked"]
    assert (target / "2").is_dir()
    assert not (target / "linked").is_symlink()
    assert (target / "linked").read_text() == "x"
    assert target.stat().st_mode & 0o077 == 0
    is_shared = (target / "1" / "model.py").stat().st_ino == (
        source / "1" / "model.py"
    ).stat().st_ino
    assert is_shared == links


def test_a_file_system_without_hard_links_gets_copies(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise OSError("cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    copy_tree(source, tmp_path / "target", links=True)
    assert (tmp_path / "target" / "1" / "data" / "a").read_text() == "a"
