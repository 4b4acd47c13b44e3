# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Changes of a folder are noticed, with the kernel's help and without."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cluster.server import file_changes
from cluster.server.file_changes import FileChanges


@pytest.fixture
def end() -> Iterator[tuple[int, int]]:
    """Both ends of what ends the wait."""
    ends = os.pipe()
    yield ends
    for each in ends:
        os.close(each)


@pytest.fixture(params=["inotify", "poll"])
def changes(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FileChanges]:
    if request.param == "poll":
        monkeypatch.setattr(file_changes, "_watch", lambda folder: None)
        monkeypatch.setattr(file_changes, "_POLL_S", 0.001)
    with closing(FileChanges(tmp_path)) as made:
        yield made


def until(changes: FileChanges, end: int, name: str) -> set[str]:
    """Wait for a change of a file; return all that were told meanwhile."""
    told: set[str] = set()
    while name not in told:
        names = changes.wait(end)
        assert names is not None
        told |= names
    return told


def test_files_that_come_and_grow_are_told(
    changes: FileChanges, end: tuple[int, int], tmp_path: Path
) -> None:
    name = "worker-\udcff.out"
    (tmp_path / name).write_text("a")
    assert until(changes, end[0], name) == {name}
    with (tmp_path / name).open("a") as file:
        file.write("b")
    assert until(changes, end[0], name) == {name}
    (tmp_path / "another").touch()
    until(changes, end[0], "another")


def test_the_end_comes_before_changes(
    changes: FileChanges, end: tuple[int, int], tmp_path: Path
) -> None:
    (tmp_path / "f").touch()
    os.write(end[1], b".")
    assert changes.wait(end[0]) is None


def test_only_what_has_changed_is_told_by_the_kernel(end: tuple[int, int], tmp_path: Path) -> None:
    for each in "abc":
        (tmp_path / each).touch()
    with closing(FileChanges(tmp_path)) as changes:
        if changes._events is None:
            pytest.skip("the kernel has no inotify left")
        (tmp_path / "b").write_text("b")
        (tmp_path / "d").write_text("d")
        assert until(changes, end[0], "d") == {"b", "d"}


def test_changes_that_were_too_many_are_all_files(
    end: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unchanged").touch()
    with closing(FileChanges(tmp_path)) as changes:
        if changes._events is None:
            pytest.skip("the kernel has no inotify left")
        (tmp_path / "f").touch()
        overflow = file_changes._EVENT.pack(-1, file_changes._OVERFLOW, 0, 0)
        with monkeypatch.context() as patch:
            patch.setattr(file_changes.os, "read", lambda _events, _count: overflow)
            assert changes.wait(end[0]) == {"f", "unchanged"}


class Kernel:
    """The C library of a kernel that has none left of something."""

    def __init__(self, events: int) -> None:
        self.events = events

    def inotify_init1(self, _flags: int) -> int:
        return self.events

    def inotify_add_watch(self, _events: int, _folder: bytes, _mask: int) -> int:
        return -1


@pytest.mark.parametrize("has_events", [True, False])
def test_without_inotify_all_files_are_looked_at_and_no_descriptor_is_left(
    end: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_events: bool
) -> None:
    events = os.open(tmp_path, os.O_RDONLY) if has_events else -1
    monkeypatch.setattr(file_changes.ctypes, "CDLL", lambda *_, **__: Kernel(events))
    monkeypatch.setattr(file_changes, "_POLL_S", 0.001)
    (tmp_path / "f").touch()
    with closing(FileChanges(tmp_path)) as changes:
        assert changes.wait(end[0]) == {"f"}
    if has_events:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(events)


def test_a_watch_leaves_no_descriptor(tmp_path: Path) -> None:
    with closing(FileChanges(tmp_path)) as changes:
        if changes._events is None:
            pytest.skip("the kernel has no inotify left")
        events = Path(f"/proc/self/fd/{changes._events}")
        assert str(events.readlink()).endswith("inotify")
    # Another thread may have got the number meanwhile, but none that watches.
    assert not events.is_symlink() or not str(events.readlink()).endswith("inotify")
