# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Repositories in stores: one listing tells which models have changed, another reads one of them.

Of a listing of the whole only a digest for each model is kept. A model is read from a listing of
its directory and files with the stamps in it, and listed again afterwards: what has changed between
is read again, so that no two uploads are ever mixed.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import groupby
from typing import Final

from backends.api.errors import InternalError, TritonError
from cluster.repository.filesystem import DirectoryEntry, FileSystem
from cluster.repository.skeletons import Skeletons
from cluster.repository.stores.contracts import Store, StoredFile
from cluster.repository.stores.local import LocalFileSystem
from cluster.repository.stores.location import absolute, parse_location
from cluster.repository.stores.opening import open_store
from deployments.model_files.contracts import FileChangedError

# Larger than any model; a listing that goes on is of something else.
_MAX_FILES: Final = 100_000


class RemoteFileSystem:
    """The file system of a repository in a store.

    Args:
        skeletons: Where local stand-ins of its models are made.

    Attributes:
        digests: By model: digest of all its files, as last listed.
        error: Why the last listing came to nothing; empty when it did not.
    """

    def __init__(self, store: Store, skeletons: Skeletons) -> None:
        self.digests: Mapping[str, bytes] = {}
        self.error = ""
        self._store = store
        self._skeletons = skeletons
        self._was_listed = False

    def entries(self, path: str) -> tuple[DirectoryEntry, ...]:
        """List the models, or what one holds; see `FileSystem`.

        When the store cannot be listed, the models are those of the last listing, and `error` says
        why.

        Raises:
            TritonError: It cannot be listed, and never was.
        """
        if path != self._store.location:
            return self.view(path).entries(path)
        try:
            self.digests = dict(_digests(self._store.find()))
            self.error, self._was_listed = "", True
        except TritonError as error:
            self.error = error.message
            if not self._was_listed:
                raise
        return tuple(
            DirectoryEntry(name, is_directory=True, stamp=digest.hex())
            for name, digest in sorted(self.digests.items())
        )

    def directories(self, path: str) -> tuple[str, ...]:
        """See `FileSystem`."""
        return tuple(entry.name for entry in self.entries(path) if entry.is_directory)

    def identity(self, path: str) -> str:
        """See `FileSystem`; nothing can be put in a store's place."""
        return path

    def view(self, path: str) -> "RemoteModel":
        """List one model; what is read of it is what was listed."""
        below = path.removeprefix(self._store.location).strip("/")
        return RemoteModel(self._store, below, self._skeletons)

    def is_directory(self, path: str) -> bool:
        """See `FileSystem`."""
        return self.view(path).is_directory(path)

    def exists(self, path: str) -> bool:
        """See `FileSystem`."""
        return self.view(path).exists(path)

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        """See `FileSystem`."""
        return self.view(path.rpartition("/")[0]).read_bytes(path, limit_bytes)

    def escapes(self, path: str, directory: str) -> bool:
        """See `FileSystem`."""
        return _escapes(path, directory)

    def localise(self, directory: str) -> str:
        """See `FileSystem`."""
        return self.view(directory).localise(directory)


class RemoteModel:
    """A model's directory as it was when listed: a file system of it alone.

    Attributes:
        files: All its files, by their paths in it, sorted; directories without files end with "/".
        digest: Digest of them, as a listing of the whole repository gives it.

    Raises:
        InternalError: A name cannot be a path, or there are too many.
        UnavailableError: It cannot be listed.
    """

    def __init__(self, store: Store, below: str, skeletons: Skeletons) -> None:
        self._store = store
        self._below = below
        self._skeletons = skeletons
        self._root = f"{store.location}/{below}"
        listed = self._list()
        self.digest = _digest(listed)
        cut = len(below) + 1
        named = {file.path[cut:]: file for file in listed}
        self._directories: dict[str, dict[str, DirectoryEntry]] = {}
        for name, file in named.items():
            self._add(name, file)
        # One without a name stands for the directory itself.
        self.files = {name: file for name, file in named.items() if name}

    def _list(self) -> list[StoredFile]:
        listed: list[StoredFile] = []
        for file in self._store.find(self._below):
            listed.append(file)
            if len(listed) > _MAX_FILES:
                raise InternalError(
                    f"directory {self._root} has more than {_MAX_FILES} files; a model has fewer"
                )
        return listed

    def _add(self, name: str, file: StoredFile) -> None:
        parts = name.split("/")
        if {"", ".", ".."} & set(parts[:-1]) or parts[-1] in {".", ".."} or "\0" in name:
            raise InternalError(
                f"'{file.path}' in {self._store.location} cannot be a path; remove or rename it"
            )
        for depth, part in enumerate(parts):
            entries = self._directories.setdefault("/".join(parts[:depth]), {})
            is_directory = depth < len(parts) - 1
            if part and (part not in entries or is_directory):
                stamp = "" if is_directory else f"{file.stamp}:{file.size_bytes}"
                entries[part] = DirectoryEntry(part, is_directory, stamp)

    def entries(self, path: str) -> tuple[DirectoryEntry, ...]:
        """See `FileSystem`."""
        found = self._directories.get(self._name(path))
        if found is None:
            raise InternalError(f"failed to open directory {path}: No such file or directory")
        return tuple(found[name] for name in sorted(found))

    def directories(self, path: str) -> tuple[str, ...]:
        """See `FileSystem`."""
        return tuple(entry.name for entry in self.entries(path) if entry.is_directory)

    def identity(self, path: str) -> str:
        """See `FileSystem`."""
        return path

    def view(self, path: str) -> "RemoteModel":
        """Return itself."""
        return self

    def is_directory(self, path: str) -> bool:
        """See `FileSystem`."""
        return self._name(path) in self._directories

    def exists(self, path: str) -> bool:
        """See `FileSystem`."""
        name = self._name(path)
        return name in self.files or name in self._directories

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        """See `FileSystem`.

        Raises:
            FileChangedError: It is not the one that was listed.
        """
        file = self.files.get(self._name(path))
        if file is None:
            raise InternalError(
                f"failed to open text file for read {path}: No such file or directory"
            )
        if file.size_bytes > limit_bytes:
            raise InternalError(f"file {path} is larger than the {limit_bytes} bytes allowed")
        return self._store.read(file.path, stamp=file.stamp)

    def escapes(self, path: str, directory: str) -> bool:
        """See `FileSystem`."""
        return _escapes(path, directory)

    def localise(self, directory: str) -> str:
        """Return a local directory with its names and small texts."""
        return self._skeletons.make(self._root, self.digest, self.files, self._store)

    def confirm(self) -> None:
        """Make sure that nothing has changed since it was listed.

        Raises:
            FileChangedError: Something has.
        """
        if _digest(self._list()) != self.digest:
            raise FileChangedError(f"{self._root} changed while it was read")

    def _name(self, path: str) -> str:
        parts: list[str] = []
        for part in path.removeprefix(self._root).split("/"):
            if part == "..":
                parts = parts[:-1]
            elif part not in {"", "."}:
                parts.append(part)
        return "/".join(parts)


def open_filesystem(location: str, skeletons: Skeletons | None = None) -> tuple[FileSystem, str]:
    """Return the file system of a repository location, and the path in it.

    Args:
        location: As the command line names it.
        skeletons: Where stand-ins of models in stores are made; None for a place of its own.

    Raises:
        TritonError: The location is none, or its scheme is unknown.
    """
    at = parse_location(location)
    if at.is_local:
        return LocalFileSystem(), absolute(at).path
    store = open_store(at)
    return RemoteFileSystem(store, skeletons or Skeletons()), store.location


def _escapes(path: str, directory: str) -> bool:
    depth = 0
    if not path.startswith(directory) or "\0" in path:
        return True
    for part in path.removeprefix(directory).split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return True
    return False


def _digests(files: Iterator[StoredFile]) -> Iterator[tuple[str, bytes]]:
    """Digest the files of each directory at the top, one after the other."""
    below = (file for file in files if "/" in file.path)
    for name, own in groupby(below, lambda file: file.path.partition("/")[0]):
        yield name, _digest(own)


def _digest(files: Iterable[StoredFile]) -> bytes:
    hashed = blake2b(digest_size=16)
    for file in files:
        hashed.update(_line(file))
    return hashed.digest()


def _line(file: StoredFile) -> bytes:
    text = f"{file.path}={file.size_bytes}:{file.stamp}\0"
    return text.encode("utf-8", "surrogateescape")
