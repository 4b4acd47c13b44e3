# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import io
import os
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from backends.api.errors import InternalError
from backends.environments import launcher
from backends.environments.entry import enter_environment
from backends.environments.launcher import (
    EnvironmentUnusableError,
    find_packages,
    unpack,
    variables,
)

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
USER = """
import pathlib, sys
from backends.environments.launcher import _use
_use(pathlib.Path(sys.argv[1]))
print("in use", flush=True)
sys.stdin.read()
"""
PACKAGES = f"lib/python{VERSION}/site-packages"


def archive_of(path, files, links=()):
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
        for name, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return path


def run_in(given, script, cache):
    """Run a script as a worker is run and return what it prints."""
    command = [*shlex.split(launcher.launcher_command(str(given))), "-c", script]
    variables = {**os.environ, "MANTA_ENVIRONMENT_CACHE": str(cache)}
    return subprocess.run(
        command, env=variables, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_archive_is_unpacked_once(tmp_path):
    archive = archive_of(tmp_path / "env.tar.gz", {"a/b": "text"})
    folder = unpack(archive, tmp_path / "cache")
    assert (folder / "a/b").read_text() == "text"
    (folder / "a/b").write_text("kept")
    assert unpack(archive, tmp_path / "cache") == folder
    assert (folder / "a/b").read_text() == "kept"


def test_archive_that_changed_is_unpacked_anew_and_the_old_one_goes(tmp_path):
    archive = archive_of(tmp_path / "env.tar.gz", {"a": "old"})
    old = unpack(archive, tmp_path / "cache")
    archive_of(archive, {"a": "newer"})
    os.utime(archive, ns=(1, 1))
    new = unpack(archive, tmp_path / "cache")
    assert (new / "a").read_text() == "newer"
    assert not old.exists()


def test_environment_in_use_stays(tmp_path):
    archive = archive_of(tmp_path / "env.tar.gz", {"a": "old"})
    old = unpack(archive, tmp_path / "cache")
    command = [sys.executable, "-c", USER, str(old)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        os.utime(archive, ns=(1, 1))
        unpack(archive, tmp_path / "cache")
        assert old.exists()
        process.stdin.close()
    os.utime(archive, ns=(2, 2))
    unpack(archive, tmp_path / "cache")
    assert not old.exists()


@pytest.mark.parametrize("name", ["../outside", "a/../../outside"])
def test_member_that_leads_out_is_refused_and_leaves_nothing(tmp_path, name):
    archive = archive_of(tmp_path / "env.tar.gz", {"a/fine": "", name: "bad"})
    with pytest.raises(EnvironmentUnusableError, match="outside"):
        unpack(archive, tmp_path / "cache")
    assert not list(tmp_path.rglob("outside"))
    assert not list(tmp_path.rglob("fine"))


def test_link_to_the_interpreter_is_left_out(tmp_path):
    links = [("bin/python", "/usr/bin/python3"), ("up", "../../../etc"), ("b", "a")]
    archive = archive_of(tmp_path / "env.tar.gz", {"a": ""}, links)
    assert {each.name for each in unpack(archive, tmp_path / "cache").iterdir()} == {"a", "b"}


def test_size_is_bounded(tmp_path, monkeypatch):
    archive = archive_of(tmp_path / "env.tar.gz", {"a": "x" * 100})
    monkeypatch.setattr(launcher, "MAX_UNPACKED_BYTES", 99)
    with pytest.raises(EnvironmentUnusableError, match="larger than"):
        unpack(archive, tmp_path / "cache")


@pytest.mark.parametrize("content", [b"", b"no archive at all", b"\x1f\x8b broken"])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "env.tar.gz").write_bytes(content)
    with pytest.raises(EnvironmentUnusableError, match=r"env.tar.gz' cannot be unpacked"):
        unpack(tmp_path / "env.tar.gz", tmp_path / "cache")


def test_other_pythons_environment_is_refused_with_both_versions(tmp_path):
    (tmp_path / "lib/python3.4/site-packages").mkdir(parents=True)
    with pytest.raises(EnvironmentUnusableError) as raised:
        find_packages(tmp_path, "given")
    assert "'given' is an environment of Python 3.4" in str(raised.value)
    assert f"runs models with Python {VERSION}" in str(raised.value)


def test_conda_libraries_come_first(tmp_path):
    (tmp_path / "conda-meta").mkdir()
    found = variables(tmp_path, tmp_path / PACKAGES, tmp_path / "own")
    assert found["LD_LIBRARY_PATH"].split(":")[0] == f"{tmp_path}/lib"
    assert found["CONDA_PREFIX"] == str(tmp_path)


def test_worker_sees_the_environments_packages_before_its_own_but_for_ray(tmp_path):
    folder = tmp_path / "env"
    for name in ("yaml", "ray"):
        (folder / PACKAGES / name).mkdir(parents=True)
        (folder / PACKAGES / name / "__init__.py").write_text("")
    script = """
import importlib.util
for name in ("yaml", "ray"):
    print(importlib.util.find_spec(name).origin)
"""
    first, second = run_in(folder, script, tmp_path / "cache").splitlines()
    assert first == f"{folder}/{PACKAGES}/yaml/__init__.py"
    assert not second.startswith(str(folder))


def test_worker_of_an_unusable_environment_starts_and_says_why(tmp_path):
    script = f"import os; print(os.environ['{launcher.FAILURE_VARIABLE}'])"
    answer = run_in(tmp_path / "no.tar.gz", script, tmp_path / "cache")
    assert (
        answer
        == f"EXECUTION_ENV_PATH '{tmp_path}/no.tar.gz' cannot be read: No such file or directory"
    )


def test_model_of_an_unusable_environment_does_not_load(monkeypatch):
    monkeypatch.setenv(launcher.FAILURE_VARIABLE, "packed badly")
    with pytest.raises(InternalError, match="packed badly"):
        enter_environment()


def test_path_files_of_an_environment_are_read(tmp_path, monkeypatch):
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "from_path_file_zq.py").write_text("")
    packages = tmp_path / PACKAGES
    packages.mkdir(parents=True)
    (packages / "more.pth").write_text(f"{beside}\n")
    monkeypatch.setattr(sys, "path", [str(packages), *sys.path])
    monkeypatch.setenv(launcher.PACKAGES_VARIABLE, str(packages))
    enter_environment()
    assert importlib.util.find_spec("from_path_file_zq") is not None


def test_what_fetches_is_found_where_all_packages_are_in_one(tmp_path):
    for package in ("manta", "manta/backends", "manta/backends/environments"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    installed = tmp_path / "manta/backends/environments/launcher.py"
    installed.write_text(Path(launcher.__file__).read_text())
    (tmp_path / "manta/fetching.py").write_text("import sys; print('fetched', *sys.argv[1:])")
    code = (
        "from manta.backends.environments.launcher import _fetch_apart;"
        "print(_fetch_apart(['manta.fetching', 'given'], 'a'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; {code}"],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        cwd=tmp_path.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "fetched given\n", done.stderr
