# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Compiled forms that other checkouts of the same sources take."""

import os
import shutil
from pathlib import Path

import pytest

from backends import compiled_form
from scripts import compiled_cache, mypyc_build
from scripts.compiled_cache import CompiledCache


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cache(place: Path) -> CompiledCache:
    return CompiledCache({compiled_cache.VARIABLE: str(place)})


def form(checkout: Path, digest: str = "0123") -> Path:
    folder = checkout / ".compiled" / digest
    (folder / "deployments").mkdir(parents=True)
    (folder / "deployments/a.so").write_text(digest)
    return folder


def test_what_one_checkout_has_compiled_another_takes(cache, tmp_path):
    cache.keep(form(tmp_path / "a"), "2")
    (tmp_path / "b/.compiled").mkdir(parents=True)
    wanted = tmp_path / "b/.compiled/0123"
    assert cache.take(wanted, "2")
    assert (wanted / "deployments/a.so").read_text() == "0123"
    assert [each.name for each in wanted.parent.iterdir()] == ["0123"]


@pytest.mark.parametrize(("digest", "optimization"), [("4567", "2"), ("0123", "0")])
def test_another_digest_or_optimization_is_not_taken(cache, tmp_path, digest, optimization):
    cache.keep(form(tmp_path / "a"), "2")
    (tmp_path / "b/.compiled").mkdir(parents=True)
    assert not cache.take(tmp_path / "b/.compiled" / digest, optimization)
    assert list((tmp_path / "b/.compiled").iterdir()) == []


def test_a_folder_that_others_may_write_to_is_not_used(cache, place, tmp_path, capsys):
    cache.keep(form(tmp_path / "a"), "2")
    place.chmod(0o777)
    (tmp_path / "b/.compiled").mkdir(parents=True)
    assert not cache.take(tmp_path / "b/.compiled/0123", "2")
    assert f"{place} is not this user's alone" in capsys.readouterr().out


def test_what_was_used_longest_ago_goes(cache, place, tmp_path):
    for number in range(8):
        cache.keep(form(tmp_path / "a", f"form{number}"), "2")
        for age, each in enumerate(sorted(place.iterdir(), reverse=True)):
            os.utime(each, (1000 - age, 1000 - age))
    assert sorted(each.name.partition("-")[0] for each in place.iterdir()) == [
        f"form{number}" for number in range(2, 8)
    ]


def test_an_empty_name_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache = CompiledCache({compiled_cache.VARIABLE: ""})
    made = form(tmp_path / "a")
    cache.keep(made, "2")
    shutil.rmtree(made)
    assert not cache.take(made, "2")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    cache = CompiledCache({compiled_cache.VARIABLE: str(tmp_path / "file/cache")})
    made = form(tmp_path / "a")
    cache.keep(made, "2")
    shutil.rmtree(made)
    assert not cache.take(made, "2")


def test_without_a_name_it_is_in_the_users_cache_folder(tmp_path):
    CompiledCache({"HOME": str(tmp_path)}).keep(form(tmp_path / "a"), "2")
    assert len(list((tmp_path / ".cache/manta/compiled").iterdir())) == 1


def test_a_clone_of_compiled_sources_does_not_compile(cache, tmp_path, monkeypatch):
    (tmp_path / "deployments").mkdir()
    (tmp_path / "deployments/a.py").write_text("")
    monkeypatch.setattr(compiled_form, "ROOT", tmp_path)
    monkeypatch.setattr(mypyc_build, "_require_loadable", lambda _: None)
    cache.keep(form(tmp_path / "other", compiled_form.folder().name), "2")
    assert mypyc_build.make(cache=cache).startswith("compiled before, in another checkout")
    assert (compiled_form.folder() / "deployments/a.so").exists()
