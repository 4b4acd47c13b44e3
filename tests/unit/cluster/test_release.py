# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from cluster import __version__
from cluster.release import digest_of, own_release


def test_a_release_is_told_by_its_version_and_its_sources() -> None:
    own = own_release()
    assert str(own) == f"{__version__}+{own.digest}"
    assert Path(own.root, "cluster/release.py").is_file()


def test_two_builds_of_one_version_are_two_releases(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    source = tmp_path / "cluster/a.py"
    source.write_text("x = 1\n")
    before = digest_of(tmp_path)
    assert digest_of(tmp_path) == before
    (tmp_path / "cluster/notes.txt").write_text("no source")
    assert digest_of(tmp_path) == before
    source.write_text("x = 2\n")
    assert digest_of(tmp_path) != before
    source.rename(tmp_path / "cluster/b.py")
    assert digest_of(tmp_path) != before
