# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The client is one file that can be started: compiled once, or a script."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.fork_server import client_file
from cluster.fork_server.requests import PYTHON_VARIABLE, SOCKET_VARIABLE

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler"
)


@pytest.fixture
def nothing_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a wheel nor `make install` has compiled it."""
    monkeypatch.setattr(client_file, "_HERE", tmp_path / "none")
    monkeypatch.setattr(client_file, "ROOT", tmp_path / "root")


@needs_compiler
def test_the_client_is_compiled_once(tmp_path: Path) -> None:
    place = tmp_path / "deep" / client_file.NAME
    assert client_file.compiled(place) == str(place)
    assert os.access(place, os.X_OK)
    before = place.stat()
    assert client_file.compiled(place) == f"{place}: compiled already"
    assert place.stat() == before
    assert list(place.parent.iterdir()) == [place]


@needs_compiler
def test_a_source_that_cannot_be_compiled_leaves_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "broken.c"
    source.write_text("int main(void) { return no_such_name; }")
    monkeypatch.setattr(client_file, "_SOURCE", source)
    place = tmp_path / "made" / client_file.NAME
    assert "no_such_name" in client_file.compiled(place)
    assert not list(place.parent.iterdir())


def test_without_a_compiler_a_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    place = tmp_path / "made" / client_file.NAME
    assert client_file.compiled(place).startswith("no C compiler")
    assert not place.parent.exists()


def test_another_source_has_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = client_file.compiled_place()
    assert before == client_file.compiled_place()
    source = tmp_path / "client.c"
    source.write_text("int main(void) { return 0; }")
    monkeypatch.setattr(client_file, "_SOURCE", source)
    assert client_file.compiled_place() != before


@pytest.mark.usefixtures("nothing_compiled")
def test_what_was_compiled_is_taken_from_where_it_is(tmp_path: Path) -> None:
    beside_packages = client_file.compiled_place()
    beside_packages.parent.mkdir(parents=True)
    beside_packages.touch()
    assert client_file.made(tmp_path) == beside_packages
    in_wheel = tmp_path / "none" / client_file.NAME
    in_wheel.parent.mkdir()
    in_wheel.touch()
    assert client_file.made(tmp_path) == in_wheel


@pytest.mark.usefixtures("nothing_compiled")
def test_a_script_stands_for_it_where_nothing_was_compiled(tmp_path: Path) -> None:
    script = client_file.made(tmp_path)
    assert script.parent == tmp_path
    assert script.stat().st_mode & 0o777 == 0o700
    assert script.read_text().splitlines()[0] == f"#!{sys.executable} -IS"
    # A raylet may be starting it.
    before = script.stat()
    assert client_file.made(tmp_path) == script
    assert script.stat() == before


@pytest.mark.usefixtures("nothing_compiled")
def test_a_python_that_a_script_cannot_name_has_no_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/" + "p" * 130)
    with pytest.raises(OSError, match="too long for a script: /ppp"):
        client_file.made(tmp_path)


@pytest.fixture(params=["compiled", "script"])
def client(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "compiled":
        place = tmp_path / client_file.NAME
        client_file.compiled(place)
        return place if place.is_file() else pytest.skip("no C compiler")
    request.getfixturevalue("nothing_compiled")
    return client_file.made(tmp_path)


def run(client: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [client, *arguments], env=os.environ | variables, capture_output=True, check=False
    )


@pytest.mark.parametrize("socket", [None, "/nowhere", "/" + "s" * 200, ""])
@pytest.mark.parametrize("name", ["default_worker.py", "other.py"])
def test_what_nobody_forks_the_client_runs_itself(
    client: Path, tmp_path: Path, name: str, socket: str | None
) -> None:
    script = tmp_path / name
    script.write_text("import sys\nprint(sys.argv[1:], sys.executable)\nsys.exit(7)")
    variables = {} if socket is None else {SOCKET_VARIABLE: socket}
    done = run(client, str(script), "a b", "", **{PYTHON_VARIABLE: sys.executable}, **variables)
    assert (done.returncode, done.stderr) == (7, b"")
    assert done.stdout.decode() == f"{['a b', '']} {sys.executable}\n"


def test_options_of_python_are_python_s(client: Path) -> None:
    done = run(client, "-c", "print(2 + 3)", **{PYTHON_VARIABLE: sys.executable})
    assert (done.returncode, done.stdout) == (0, b"5\n")
