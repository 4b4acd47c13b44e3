# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What compiling does again, what it keeps, and what `make install` says of it."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends import compiled_form
from scripts import mypyc_build

RUN: list[list[str]] = []
NICED: list[int] = []


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MANTA_COMPILED", "")
    from scripts import compile as script

    monkeypatch.setattr(script, "_WISH", "")
    return script


@pytest.fixture
def tree(tmp_path: Path, script, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "deployments").mkdir()
    (tmp_path / "deployments/a.py").write_text("")
    monkeypatch.setattr(compiled_form, "ROOT", tmp_path)
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(mypyc_build, "impediment", lambda: "")
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: RUN.append(command))
    # The niceness of these tests, and of the session that all tests are in, stays.
    monkeypatch.setattr(os, "nice", NICED.append)
    monkeypatch.setattr(script, "_AUTOGROUP", tmp_path / "autogroup")
    RUN.clear()
    NICED.clear()
    return tmp_path


def test_tree_is_compiled_in_the_background(tree, script):
    assert script.start_in_background().startswith("compiling in the background")
    assert RUN[0][-1] == "--detached"


def test_compiled_tree_is_not_compiled_again_until_a_source_changes(tree, script):
    compiled_form.folder().mkdir(parents=True)
    assert script.start_in_background().startswith("compiled already")
    assert RUN == []
    (tree / "deployments/a.py").write_text("edited = True")
    assert script.start_in_background().startswith("compiling in the background")


def test_one_process_compiles_at_a_time(tree, script):
    with mypyc_build._locked(waits=False):
        assert script.start_in_background().startswith("compiling in the background since before")
    assert RUN == []


def test_without_a_compiler_servers_run_plain(tree, script, monkeypatch):
    monkeypatch.setattr(mypyc_build, "impediment", lambda: "no C compiler 'cc'")
    assert script.start_in_background() == "no C compiler 'cc': servers run uncompiled, slower"
    assert RUN == []


def test_who_wants_plain_servers_compiles_nothing(tree, script, monkeypatch):
    monkeypatch.setattr(script, "_WISH", "0")
    assert script.start_in_background() == "MANTA_COMPILED=0: servers run uncompiled, slower"
    assert RUN == []


def test_source_that_does_not_compile_is_tried_again_when_it_has_changed(tree, script, monkeypatch):
    def refuse(*_, **__):
        raise SystemExit("mypyc refuses")

    monkeypatch.setattr(mypyc_build, "make", refuse)
    (tree / ".compiled").mkdir()
    assert script._compile_quietly("2", 1) == 1
    assert (NICED, (tree / "autogroup").read_text()) == ([19], "19")
    assert "cannot be compiled, .compiled/log says why" in script.start_in_background()
    (tree / "deployments/a.py").write_text("edited = True")
    assert script.start_in_background().startswith("compiling in the background")


def test_compiler_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -O3")
    assert mypyc_build.impediment() == "no C compiler 'no-such-compiler'"


class Copied:
    """A file that a command makes of another and a header."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = root / "source.c"
        self.header = root / "header.h"
        self.source.write_text("1")
        self.header.write_text("1")
        self.target = root / "out/target.o"

    def make(self, *options: str) -> bool:
        """Make it; return whether that ran the command."""
        ran = self.root / "ran"
        ran.unlink(missing_ok=True)
        command = ["sh", "-c", f"touch {ran}; cp {self.source} {self.target}", *options]
        rule = self.root / "rule.d"
        rule.write_text(f"{self.target}: {self.source} \\\n {self.header}\n")
        mypyc_build._call(command, self.target, lambda: mypyc_build._dependencies(rule))
        return ran.exists()


def touch_later(path: Path, than: Path) -> None:
    later_ns = than.stat().st_mtime_ns + 1
    os.utime(path, ns=(later_ns, later_ns))


def test_object_is_kept_until_a_source_a_header_or_the_command_changes(tmp_path):
    copied = Copied(tmp_path)
    assert copied.make()
    assert not copied.make()
    touch_later(copied.header, copied.target)
    assert copied.make()
    touch_later(copied.source, copied.target)
    assert copied.make()
    assert not copied.make()
    assert copied.make("other")
    copied.header.unlink()
    assert copied.make("other")


def test_command_that_fails_leaves_nothing_that_looks_finished(tmp_path):
    copied = Copied(tmp_path)
    copied.make()
    with pytest.raises(subprocess.CalledProcessError):
        mypyc_build._call(["false"], copied.target, list)
    with pytest.raises(subprocess.CalledProcessError):
        mypyc_build._call(["false"], copied.target, list)


def folders(place: Path, *names: str) -> list[Path]:
    made = [place / name for name in names]
    for age, path in enumerate(made):
        (path / "deployments").mkdir(parents=True)
        os.utime(path, ns=(age, age))
    return made


def test_folders_of_older_sources_go_but_for_the_last(tmp_path):
    *_, last, wanted = folders(tmp_path, "c", "b", "a", "d")
    (tmp_path / "build").mkdir()
    (tmp_path / "e.new").mkdir()
    mypyc_build._remove_old(wanted)
    assert sorted(tmp_path.iterdir()) == sorted([last, wanted, tmp_path / "build"])


def test_folder_that_a_process_runs_from_stays(tmp_path):
    first, _, last, wanted = folders(tmp_path, "a", "b", "c", "d")
    assert compiled_form._hold(first)
    mypyc_build._remove_old(wanted)
    assert sorted(tmp_path.iterdir()) == [first, last, wanted]


def test_folder_that_is_being_removed_is_not_taken(tmp_path):
    (old,) = folders(tmp_path, "a")
    file = os.open(old, os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX)
    assert not compiled_form._hold(old)
    os.close(file)
    assert compiled_form._hold(old)


def test_folder_tells_what_it_was_compiled_with(tmp_path):
    (made,) = folders(tmp_path, "a")
    assert not mypyc_build.optimization_of(made)
    (made / "optimization").write_text("0")
    assert mypyc_build.optimization_of(made) == "0"


def test_library_that_cannot_be_loaded_is_not_taken(tmp_path):
    broken = tmp_path / "library.so"
    broken.write_bytes(b"no library")
    with pytest.raises(SystemExit, match=r"cannot be loaded.*remove \.compiled/build"):
        mypyc_build._require_loadable(broken)


class OfMypyc(mypyc_build.Build):
    """Generates as mypyc does; the first time, everything is in its cache."""

    def _mypycify(self, build: Path) -> list[str]:
        (build / "mypy_cache").mkdir(exist_ok=True)
        is_first = not RUN
        RUN.append([])
        (build / "ops.txt").write_text("" if is_first else "def f(): ...")
        return ["without mypyc's own files" if is_first else "whole"]


def test_mypyc_that_finds_nothing_to_do_is_asked_again_without_its_cache(tree):
    _, extensions = OfMypyc(["cc"], "2", 1)._generate(tree)
    assert extensions == ["whole"]
    RUN.append([])
    OfMypyc(["cc"], "2", 1)._generate(tree)
    assert len(RUN) == 4


def test_sources_that_change_while_they_are_compiled_are_read_again(tree):
    class Editing(OfMypyc):
        def _mypycify(self, build: Path) -> list[str]:
            if len(RUN) < 3:
                (tree / "deployments/a.py").write_text(f"edit = {len(RUN)}")
            return super()._mypycify(build)

    wanted, _ = Editing(["cc"], "2", 1)._generate(tree)
    assert wanted == compiled_form.folder()
