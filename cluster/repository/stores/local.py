# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Directories of this machine, as a file system of repositories and as a store.

Links are followed, as Triton does; trees are walked to a bounded depth, so a link to a parent
directory ends.
"""

import errno
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from backends.api.errors import InternalError, NotFoundError, UnavailableError
from cluster.repository.filesystem import MAX_DEPTH, DirectoryEntry, reason_of
from cluster.repository.stores.contracts import PIECE_BYTES, StoredFile
from deployments.model_files.contracts import FileChangedError, Write

# Of links that lead nowhere, and files that were removed once they were listed. Others are errors.
_NOTHING_THERE: Final = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))


class LocalFileSystem:
    """The file system of this machine; nothing is copied."""

    def entries(self, path: str) -> tuple[DirectoryEntry, ...]:
        """See `FileSystem`."""
        try:
            with os.scandir(path) as found:
                rows = [_entry(item) for item in found]
        except (OSError, ValueError) as error:
            raise InternalError(f"failed to open directory {path}: {reason_of(error)}") from None
        return tuple(sorted((row for row in rows if row is not None), key=lambda row: row.name))

    def directories(self, path: str) -> tuple[str, ...]:
        """See `FileSystem`; most file systems say in the listing what is a directory."""
        try:
            with os.scandir(path) as found:
                return tuple(sorted(item.name for item in found if item.is_dir()))
        except (OSError, ValueError) as error:
            raise InternalError(f"failed to open directory {path}: {reason_of(error)}") from None

    def identity(self, path: str) -> str:
        """See `FileSystem`; a directory that is mounted, or made, in place of another differs."""
        try:
            status = os.stat(path)  # noqa: PTH116  As in is_directory.
        except (OSError, ValueError):
            return ""
        return f"{status.st_dev}:{status.st_ino}"

    def is_directory(self, path: str) -> bool:
        """See `FileSystem`."""
        return os.path.isdir(path)  # noqa: PTH112  Path's raises for names that are too long.

    def exists(self, path: str) -> bool:
        """See `FileSystem`."""
        return os.path.exists(path)  # noqa: PTH110  As in is_directory.

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        """See `FileSystem`."""
        try:
            with Path(path).open("rb") as file:
                content = file.read(limit_bytes + 1)
        except (OSError, ValueError) as error:
            raise InternalError(
                f"failed to open text file for read {path}: {reason_of(error)}"
            ) from None
        if len(content) > limit_bytes:
            raise InternalError(f"file {path} is larger than the {limit_bytes} bytes allowed")
        return content

    def escapes(self, path: str, directory: str) -> bool:
        """See `FileSystem`."""
        try:
            # Not Path.resolve, which raises for links that form a loop.
            return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory))
        except ValueError:
            return True

    def localise(self, directory: str) -> str:
        """See `FileSystem`; the directory itself."""
        return directory

    def view(self, path: str) -> "LocalFileSystem":
        """See `FileSystem`; itself, as files here change when they do."""
        return self


class LocalStore:
    """Implements `cluster.repository.stores.contracts.Store`.

    Args:
        directory: An absolute path.
    """

    def __init__(self, directory: str) -> None:
        self.location = directory
        self._root = Path(directory)

    def find(self, path: str = "") -> Iterator[StoredFile]:
        """See `Store`; an empty directory is listed as its path with a slash."""
        top = self._root / path.rstrip("/")
        if not path and not top.is_dir():
            raise NotFoundError(f"directory or file does not exist at {self.location}")
        prefix = path.rstrip("/")
        if top.is_dir():
            yield from self._walk(top, f"{prefix}/" if prefix else "", MAX_DEPTH)

    def _walk(self, directory: Path, prefix: str, depth: int) -> Iterator[StoredFile]:
        if depth == 0:
            raise UnavailableError(
                f"directory {directory} has more than {MAX_DEPTH} levels; "
                "remove links that lead back up"
            )
        try:
            with os.scandir(directory) as found:
                items = [_stored(item) for item in found]
        except OSError as error:
            raise self._unavailable(prefix, error) from None
        for row in sorted((row for row in items if row is not None), key=lambda row: row.path):
            if row.path.endswith("/"):
                below = f"{prefix}{row.path}"
                yield from self._walk(directory / row.path, below, depth - 1)
            else:
                yield replace(row, path=f"{prefix}{row.path}")
        if not items and prefix:
            yield StoredFile(prefix, 0, "empty")

    def look(self, path: str) -> StoredFile | None:
        """See `Store`."""
        try:
            status = (self._root / path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise self._unavailable(path, error) from None
        is_directory = (self._root / path).is_dir()
        if is_directory != path.endswith("/"):
            return None
        return StoredFile(path, 0 if is_directory else status.st_size, _stamp(status))

    def read(
        self, path: str, offset_bytes: int = 0, length_bytes: int | None = None, stamp: str = ""
    ) -> bytes:
        """See `Store`."""
        try:
            with (self._root / path).open("rb") as file:
                file.seek(offset_bytes)
                content = file.read(-1 if length_bytes is None else length_bytes)
                now = _stamp(os.fstat(file.fileno()))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            if stamp:
                raise FileChangedError(f"{self.location}/{path} is gone") from None
            raise NotFoundError(f"File does not exist at {self.location}/{path}") from None
        except (OSError, ValueError) as error:
            raise self._unavailable(path, error) from None
        if stamp and now != stamp:
            raise FileChangedError(f"{self.location}/{path} is not the one that was listed")
        return content

    def stream(
        self, path: str, offset_bytes: int, length_bytes: int, stamp: str, write: Write
    ) -> int:
        """See `Store`."""
        content = self.read(path, offset_bytes, min(length_bytes, PIECE_BYTES), stamp)
        write(content, offset_bytes)
        return len(content)

    def write(self, path: str, content: bytes | Path, *, if_absent: bool = False) -> bool:
        """See `Store`; a path that ends with a slash makes a directory."""
        target = self._root / path
        try:
            if path.endswith("/"):
                is_new = not target.is_dir()
                target.mkdir(parents=True, exist_ok=True)
                return is_new
            target.parent.mkdir(parents=True, exist_ok=True)
            return _write(target, content, if_absent)
        except (OSError, ValueError) as error:
            raise self._unavailable(path, error) from None

    def remove(self, path: str) -> None:
        """See `Store`; with the last file of a directory that goes, too."""
        target = self._root / path
        try:
            if path.endswith("/"):
                _prune(target, self._root)
            else:
                target.unlink(missing_ok=True)
                _prune(target.parent, self._root)
        except NotADirectoryError:
            return
        except (OSError, ValueError) as error:
            raise self._unavailable(path, error) from None

    def close(self) -> None:
        """Nothing is open."""

    def _unavailable(self, path: str, error: OSError | ValueError) -> UnavailableError:
        return UnavailableError(f"{self.location}/{path}: {reason_of(error)}")


def _write(target: Path, content: bytes | Path, if_absent: bool) -> bool:
    made, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(made, "wb") as file:
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            if isinstance(content, Path):
                with content.open("rb") as source:
                    while part := source.read(1 << 20):
                        file.write(part)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not if_absent:
            temporary.replace(target)
            return True
        try:
            target.hardlink_to(temporary)
        except FileExistsError:
            return False
        return True
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """Return the process's, which only setting it tells."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _prune(directory: Path, root: Path) -> None:
    """Remove a directory, and those above it, as far as they are empty."""
    while directory != root and directory.is_relative_to(root):
        try:
            directory.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return
        directory = directory.parent


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}:{status.st_size}"


def _entry(item: os.DirEntry[str]) -> DirectoryEntry | None:
    status = _status(item)
    return None if status is None else DirectoryEntry(item.name, item.is_dir(), _stamp(status))


def _stored(item: os.DirEntry[str]) -> StoredFile | None:
    status = _status(item)
    if status is None:
        return None
    # With its slash a directory comes where the paths of its files do.
    name = f"{item.name}/" if item.is_dir() else item.name
    return StoredFile(name, status.st_size, _stamp(status))


def _status(item: os.DirEntry[str]) -> os.stat_result | None:
    """Look at an entry, once; None where nothing is there.

    Raises:
        OSError: There is something that cannot be looked at. It must not be left out of a listing:
            who reads that would take it for removed.
    """
    try:
        return item.stat()
    except OSError as error:
        if error.errno in _NOTHING_THERE:
            return None
        raise OSError(error.errno, f"{item.name}: {reason_of(error)}") from error
