# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes and removes versions so that readers see all of one or nothing.

In a directory of this machine a version is made under a hidden name beside the models and renamed.
Stores have no rename: there a file ``.incomplete`` comes first into the version's directory, then
its files, then its manifest with its signature, and ``.incomplete`` goes last. Readers leave out a
version that has the file ``.incomplete``.
"""

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from backends.api.errors import AlreadyExistsError, UnavailableError
from cluster.commands.publish.stored_models import StoredModel
from cluster.repository.filesystem import reason_of
from cluster.repository.manifest import (
    MANIFEST_FILE,
    OWN_FILES,
    SIGNATURE_FILE,
    Manifest,
    ManifestFile,
    file_digest,
    make_manifest,
    render_manifest,
)
from cluster.repository.repository import INCOMPLETE_FILE
from cluster.repository.stores.contracts import Store
from cluster.repository.stores.local import LocalStore

Content = Path | bytes
# Gives the content of a manifest's signature.
Sign = Callable[[bytes], bytes]

_IS_THERE: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY})


class LocalTarget:
    """A directory of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(
        self,
        name: str,
        version: int,
        files: Mapping[str, Content],
        shared: Mapping[str, Content],
        sign: Sign | None = None,
    ) -> Manifest:
        """Write a version and its manifest.

        Args:
            name: The model.
            version: Its number; there is none of it yet.
            files: By path in the version's directory.
            shared: By path in the model's directory; what is there stays, but for the manifest of
                these files and its signature.
            sign: Signs the version's manifest; None for no signature.

        Raises:
            AlreadyExistsError: Another has come in between.
            UnavailableError: It cannot be written; nothing of it is seen.
        """
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            hidden = Path(tempfile.mkdtemp(prefix=".publish.", dir=self._root))
        except OSError as error:
            raise _failed(self._root, error) from None
        try:
            made = hidden / name / str(version)
            _copy_all(files, made)
            manifest = make_manifest(made)
            for path, content in _manifest_files(manifest, sign).items():
                _copy(content, made / path)
            _copy_all(shared, hidden / name)
            _publish(hidden / name, self._root / name, version)
        except OSError as error:
            raise _failed(self._root / name, error) from None
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        return manifest

    def remove(self, model: StoredModel, version: int | None) -> None:
        """Remove a version, or for None the model.

        Raises:
            UnavailableError: It cannot be removed.
        """
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
    """A repository in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(
        self,
        name: str,
        version: int,
        files: Mapping[str, Content],
        shared: Mapping[str, Content],
        sign: Sign | None = None,
    ) -> Manifest:
        """See `LocalTarget`."""
        below = f"{name}/{version}"
        manifest = Manifest({path: described(content) for path, content in files.items()})
        self._claim(name, version)
        for path, content in files.items():
            self._store.write(f"{below}/{path}", content)
        for path, content in files.items():
            if described(content) != manifest.files[path]:
                raise UnavailableError(
                    f"'{content!s}' has changed while it was uploaded; remove version {version} of "
                    f"model '{name}' with 'manta model rm' and add it again"
                )
        for path, content in shared.items():
            self._store.write(f"{name}/{path}", content, if_absent=path not in OWN_FILES)
        for path, content in _manifest_files(manifest, sign).items():
            self._store.write(f"{below}/{path}", content)
        self._store.remove(f"{below}/{INCOMPLETE_FILE}")
        return manifest

    def _claim(self, name: str, version: int) -> None:
        """Mark a version as being written; one writer at a time can, and none that comes late."""
        below = f"{name}/{version}"
        where = f"version {version} of model '{name}' in {self._store.location}"
        mark = f"{below}/{INCOMPLETE_FILE}"
        if not self._store.write(mark, b"", if_absent=True):
            raise AlreadyExistsError(
                f"{where} is being written, or that was broken off; then remove it with 'manta "
                "model rm' first"
            )
        if any(file.path != mark for file in self._store.find(below)):
            # Another has written all of it since this one looked.
            self._store.remove(mark)
            raise AlreadyExistsError(f"{where} has come in between; use --next")

    def remove(self, model: StoredModel, version: int | None) -> None:
        """See `LocalTarget`."""
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


def target_of(store: Store) -> LocalTarget | StoreTarget:
    """Return what writes to a store."""
    return (
        LocalTarget(Path(store.location)) if isinstance(store, LocalStore) else StoreTarget(store)
    )


def _publish(made: Path, model: Path, version: int) -> None:
    """Rename what was made to its place: the whole model, or a version of one that is there."""
    if not model.exists() and _renamed(made, model):
        return
    target = model / str(version)
    if target.exists():
        raise AlreadyExistsError(f"'{target}' is there already; use --next")
    for path in sorted(made.iterdir()):
        is_kept = path.name not in OWN_FILES and (model / path.name).exists()
        if path.name != target.name and not is_kept:
            path.rename(model / path.name)
    if not _renamed(made / target.name, target):
        raise AlreadyExistsError(f"'{target}' has come in between; use --next")


def _renamed(made: Path, target: Path) -> bool:
    """Rename a directory; False when another has come in between."""
    try:
        made.rename(target)
    except OSError as error:
        if error.errno in _IS_THERE:
            return False
        raise
    _sync(target.parent)
    return True


def _manifest_files(manifest: Manifest, sign: Sign | None) -> dict[str, bytes]:
    content = render_manifest(manifest)
    signature = {} if sign is None else {SIGNATURE_FILE: sign(content)}
    return {MANIFEST_FILE: content, **signature}


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


def described(content: Content) -> ManifestFile:
    """Return the row of a manifest.

    Raises:
        OSError: It cannot be read.
    """
    if isinstance(content, Path):
        return ManifestFile(file_digest(content), content.stat().st_size)
    return ManifestFile(hashlib.sha256(content).hexdigest(), len(content))


def _failed(path: Path, error: OSError) -> UnavailableError:
    where = error.filename or path
    return UnavailableError(f"'{where}' cannot be written: {reason_of(error)}")
