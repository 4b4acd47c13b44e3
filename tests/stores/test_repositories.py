# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The tests of the local repository, over each store.

Each repository a test opens is copied to a store as it is whenever the test asks it something, and
what it answers is told with the local paths that the test knows.
"""

import inspect
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from backends.api.errors import InternalError
from cluster.repository.contents import RepositoryModel, RepositoryScan
from cluster.repository.remote import RemoteFileSystem
from cluster.repository.repository import ModelRepository
from cluster.repository.skeletons import Skeletons
from cluster.repository.stores.contracts import Store
from tests.support.object_stores import Emulator
from tests.unit.cluster.repository import test_repository as local

# What is about files of this machine: links, a place without room, a walk of directories, a name
# that ends nowhere, a directory that goes; a store that does not exist is an error of its own.
OF_THIS_MACHINE = {
    "test_a_label_file_that_cannot_be_opened_fails_the_poll",
    "test_a_model_in_two_repositories_is_unavailable",
    "test_a_repository_that_cannot_be_listed_has_the_models_of_its_last_listing",
    "test_a_tree_is_walked_once_however_many_digests_are_asked_for",
    "test_scan_skips_files_and_hidden_directories",
}
TESTS = {
    name: test
    for name, test in vars(local).items()
    if name.startswith("test_")
    and "root" in inspect.signature(test).parameters
    and name not in OF_THIS_MACHINE
}


class _Mirrored:
    """A repository whose local directory is kept in a store."""

    def __init__(self, emulator: Emulator, locations: Sequence[str], **options: Any) -> None:
        (self._root,) = locations
        self._store = emulator.open(uuid4().hex)
        self._copied: dict[str, tuple[int, bytes]] = {}
        self._skeletons = Skeletons()
        filesystem = RemoteFileSystem(self._store, self._skeletons)
        self._repository = ModelRepository(
            [self._store.location],
            open_location=lambda location: (filesystem, self._store.location),
            **options,
        )

    def scan(self) -> RepositoryScan:
        self._copy()
        return self._repository.scan()

    def open_directory(self, name: str) -> Any:
        self._copy()
        return self._repository.open_directory(name)

    def read_model(self, name: str, **options: Any) -> RepositoryModel:
        self._copy()
        try:
            found = self._repository.read_model(name, **options)
        except InternalError as error:
            text = error.message.replace(self._store.location, self._root)
            raise InternalError(text) from None
        if found.files is None:
            return found
        assert Path(found.model_dir).name == name
        return replace(found, model_dir=f"{self._root}/{name}")

    def _copy(self) -> None:
        found = dict(_tree(Path(self._root)))
        for name, path in found.items():
            # Its time and its content: a test may change either alone.
            state = (0, b"")
            if not name.endswith("/"):
                state = (path.stat().st_mtime_ns, path.read_bytes())
            if self._copied.get(name) != state:
                self._store.write(name, state[1])
                self._copied[name] = state
        for name in self._copied.keys() - found.keys():
            self._store.remove(name)
            del self._copied[name]
        if not found:
            # A store has no directories; without a file there is no repository.
            self._store.write("README", b"")


def _tree(root: Path) -> Any:
    for folder, folders, files in os.walk(root):
        below = Path(folder).relative_to(root)
        for name in files:
            yield str(below / name), Path(folder, name)
        if not folders and not files and Path(folder) != root:
            yield f"{below}/", Path(folder)


@pytest.mark.parametrize("name", TESTS)
def test_repository(name: str, emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = tmp_path / "models"
    root.mkdir()
    made = lambda locations, **options: _Mirrored(emulator, locations, **options)  # noqa: E731
    monkeypatch.setattr(local, "ModelRepository", made)
    test = TESTS[name]
    for given in _parameters(test):
        for left in root.iterdir():
            _empty(left)
        _call(test, {"root": root, "tmp_path": tmp_path / uuid4().hex, **given})


def _parameters(test: Callable[..., None]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", ()):
        names, values = mark.args
        keys = re.split(r",\s*", names) if isinstance(names, str) else list(names)
        each = [dict(zip(keys, v if len(keys) > 1 else (v,), strict=True)) for v in values]
        rows = [row | more for row in rows for more in each]
    return rows


def _call(test: Callable[..., None], given: dict[str, Any]) -> None:
    given["tmp_path"].mkdir()
    test(**{name: given[name] for name in inspect.signature(test).parameters})


def _empty(path: Path) -> None:
    if path.is_dir():
        for each in path.iterdir():
            _empty(each)
        path.rmdir()
    else:
        path.unlink()


def test_a_model_in_two_stores_is_unavailable(emulator: Emulator, directory: str):
    stores: list[Store] = [emulator.open(f"{directory}/{which}") for which in "ab"]
    for store in stores:
        store.write("m/1/model.py", b"x")
    stores[1].write("only/1/model.py", b"x")
    places = {s.location: (RemoteFileSystem(s, Skeletons()), s.location) for s in stores}
    repository = ModelRepository(list(places), open_location=places.__getitem__)
    with pytest.raises(InternalError, match="not unique across all model repositories"):
        repository.read_model("m")
    scan = repository.scan()
    assert scan.duplicates == {"m"}
    assert list(scan.directories) == ["m", "only"]
    found = repository.read_model("only").files
    assert found is not None
    assert found[1].location == f"{stores[1].location}/only"
