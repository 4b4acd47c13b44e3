# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes and removes versions so that readers see all of one or nothing.

In a directory of this machine a version is made under a hidden name beside the models and renamed.
Stores have no rename: there a file ``.incomplete`` comes first into the version's directory, then
its files, then its manifest, and ``.incomplete`` goes last. Readers leave out a version that has
the file ``.incomplete``.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from backends.api.errors import AlreadyExistsError, UnavailableError
from cluster.repository.filesystem import reason_of
from cluster.repository.manifest import (
    MANIFEST_FILE,
    Manifest,
    ManifestFile,
    file_digest,
    make_manifest,
    render_manifest,
)
from cluster.repository.repository import INCOMPLETE_FILE
from cluster.repository.stores.contracts import Store
from cluster.repository.stores.local import LocalStore
from cluster.tools.publish.stored_models import StoredModel

Content = Path | bytes


class Target(Protocol):
    """A repository that is written."""

    def add(
        self, name: str, version: int, files: Mapping[str, Content], shared: Mapping[str, Content]
    ) -> Manifest:
        """Write a version and its manifest.

        Args:
            name: The model.
            version: Its number; there is none of it yet.
            files: By path in the version's directory.
            shared: By path in the model's directory; what is there stays.

        Raises:
            AlreadyExistsError: Another has come in between.
            UnavailableError: It cannot be written; nothing of it is seen.
        """

    def remove(self, model: StoredModel, version: int | None) -> None:
        """Remove a version, or for None the model.

        Raises:
            UnavailableError: It cannot be removed.
        """


class LocalTarget:
    """A directory of this machine.

    Args:
        root: The repository.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(
        self, name: str, version: int, files: Mapping[str, Content], shared: Mapping[str, Content]
    ) -> Manifest:
        """See `Target`."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            hidden = Path(tempfile.mkdtemp(prefix=".publish.", dir=self._root))
        except OSError as error:
            raise _failed(self._root, error) from None
        try:
            made = hidden / name / str(version)
            _copy_all(files, made)
            manifest = make_manifest(made)
            _copy(render_manifest(manifest), made / MANIFEST_FILE)
            _copy_all(shared, hidden / name)
            _publish(hidden / name, self._root / name, version)
        except OSError as error:
            raise _failed(self._root / name, error) from None
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        return manifest

    def remove(self, model: StoredModel, version: int | None) -> None:
        """See `Target`."""
        path = self._root / model.name
        if version is not None:
            path /= str(version)
        try:
            hidden = Path(tempfile.mkdtemp(prefix=".removed.", dir=self._root))
            path.rename(hidden / path.name)
            _sync(path.parent)
            shutil.rmtree(hidden)
        except OSError as error:
            raise _failed(path, error) from None


class StoreTarget:
    """A repository in a store.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(
        self, name: str, version: int, files: Mapping[str, Content], shared: Mapping[str, Content]
    ) -> Manifest:
        """See `Target`."""
        below = f"{name}/{version}"
        manifest = Manifest({path: _described(content) for path, content in files.items()})
        if not self._store.write(f"{below}/{INCOMPLETE_FILE}", b"", if_absent=True):
            raise AlreadyExistsError(
                f"version {version} of model '{name}' in {self._store.location} is being written, "
                "or that was broken off; then remove it with 'manta model rm' first"
            )
        for path, content in files.items():
            self._store.write(f"{below}/{path}", content)
        for path, content in files.items():
            if _described(content) != manifest.files[path]:
                raise UnavailableError(
                    f"'{content!s}' has changed while it was uploaded; remove version {version} of "
                    f"model '{name}' with 'manta model rm' and add it again"
                )
        for path, content in shared.items():
            self._store.write(f"{name}/{path}", content, if_absent=True)
        self._store.write(f"{below}/{MANIFEST_FILE}", render_manifest(manifest))
        self._store.remove(f"{below}/{INCOMPLETE_FILE}")
        return manifest

    def remove(self, model: StoredModel, version: int | None) -> None:
        """See `Target`."""
        for number in model.versions if version is None else (version,):
            self._remove_version(model, number)
        if version is None:
            for path in model.shared:
                self._store.remove(f"{model.name}/{path}")

    def _remove_version(self, model: StoredModel, version: int) -> None:
        below = f"{model.name}/{version}"
        self._store.write(f"{below}/{INCOMPLETE_FILE}", b"")
        self._store.remove(f"{below}/{MANIFEST_FILE}")
        for path in model.version(version):
            if path not in {MANIFEST_FILE, INCOMPLETE_FILE}:
                self._store.remove(f"{below}/{path}")
        self._store.remove(f"{below}/{INCOMPLETE_FILE}")


def target_of(store: Store) -> Target:
    """Return what writes to a store."""
    return (
        LocalTarget(Path(store.location)) if isinstance(store, LocalStore) else StoreTarget(store)
    )


def _publish(made: Path, model: Path, version: int) -> None:
    """Rename what was made to its place: the whole model, or a version of one that is there."""
    if not model.exists():
        made.rename(model)
        _sync(model.parent)
        return
    target = model / str(version)
    if target.exists():
        raise AlreadyExistsError(f"'{target}' is there already")
    for path in sorted(made.iterdir()):
        if path.name != target.name and not (model / path.name).exists():
            path.rename(model / path.name)
    (made / target.name).rename(target)
    _sync(model)


def _copy_all(files: Mapping[str, Content], directory: Path) -> None:
    for path, content in files.items():
        _copy(content, directory / path)
    directory.mkdir(parents=True, exist_ok=True)
    for folder in {directory, *(path for path in directory.rglob("*") if path.is_dir())}:
        _sync(folder)


def _copy(content: Content, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        if isinstance(content, Path):
            with content.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
        else:
            file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _described(content: Content) -> ManifestFile:
    if isinstance(content, Path):
        return ManifestFile(file_digest(content), content.stat().st_size)
    return ManifestFile(hashlib.sha256(content).hexdigest(), len(content))


def _failed(path: Path, error: OSError) -> UnavailableError:
    where = error.filename or path
    return UnavailableError(f"'{where}' cannot be written: {reason_of(error)}")
