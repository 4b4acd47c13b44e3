# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The file of differences between versions is bounded, and never anybody's concern."""

import os
from pathlib import Path

import pytest

from deployments.routing.mismatch_file import MismatchFile, default_folder


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_lines_a_minute_are_bounded(tmp_path: Path, clock: Clock) -> None:
    file = MismatchFile(tmp_path, clock)
    for number in range(5):
        file.add(b"%d" % number, 2)
    clock.now_s = 61.0
    file.add(b"later", 2)
    assert file.path.read_bytes() == b"0\n1\nlater\n"


def test_a_full_file_ends(tmp_path: Path, clock: Clock) -> None:
    file = MismatchFile(tmp_path, clock, most_bytes=10)
    for _ in range(5):
        file.add(b"four", 100)
    assert file.path.stat().st_size <= 10


def test_only_the_owner_may_read_it(tmp_path: Path, clock: Clock) -> None:
    file = MismatchFile(tmp_path / "new", clock)
    file.add(b"line", 1)
    assert file.path.stat().st_mode & 0o077 == 0
    assert file.path.parent.stat().st_mode & 0o077 == 0


def test_a_link_in_its_place_is_not_followed(tmp_path: Path, clock: Clock) -> None:
    file = MismatchFile(tmp_path, clock)
    target = tmp_path / "target"
    file.path.symlink_to(target)
    file.add(b"line", 1)
    assert not target.exists()


def test_the_folder_is_the_users_own_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MANTA_ROLLOUT_DIRECTORY", raising=False)
    assert default_folder().name == f"manta-rollouts-{os.getuid()}"
    monkeypatch.setenv("MANTA_ROLLOUT_DIRECTORY", "/elsewhere")
    assert default_folder() == Path("/elsewhere")
