# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A directory of this machine as a store."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from backends.api.errors import NotFoundError, UnavailableError
from cluster.repository.filesystem import MAX_DEPTH, reason_of
from cluster.repository.stores.contracts import StoredFile
from deployments.model_files.contracts import FileChangedError


class LocalStore:
    """Implements `cluster.repository.stores.contracts.Store`.

    Args:
        directory: Its path.
    """

    def __init__(self, directory: str) -> None:
        self._root = Path(directory).absolute()
        self.location = str(self._root)

    def find(self, path: str = "") -> Iterator[StoredFile]:
        """See `Store`."""
        if not self._root.is_dir():
            raise NotFoundError(f"there is no directory '{self.location}'")
        prefix = path.rstrip("/")
        if (self._root / prefix).is_dir():
            yield from self._walk(f"{prefix}/" if prefix else "", MAX_DEPTH)

    def look(self, path: str) -> StoredFile | None:
        """See `Store`."""
        try:
            status = (self._root / path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._unavailable(path, error) from None
        if not (self._root / path).is_file():
            return None
        return StoredFile(path, status.st_size, _stamp(status))

    def read(
        self, path: str, offset_bytes: int = 0, length_bytes: int | None = None, stamp: str = ""
    ) -> bytes:
        """See `Store`."""
        try:
            with (self._root / path).open("rb") as file:
                now = _stamp(os.fstat(file.fileno()))
                file.seek(offset_bytes)
                content = file.read(-1 if length_bytes is None else length_bytes)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            if stamp:
                raise FileChangedError(path) from None
            raise NotFoundError(f"there is no file '{self.location}/{path}'") from None
        except OSError as error:
            raise self._unavailable(path, error) from None
        if stamp and now != stamp:
            raise FileChangedError(path)
        return content

    def write(self, path: str, content: bytes | Path, *, if_absent: bool = False) -> bool:
        """See `Store`."""
        target = self._root / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            return _write(target, content, if_absent=if_absent)
        except OSError as error:
            raise self._unavailable(path, error) from None

    def remove(self, path: str) -> None:
        """See `Store`; directories that it leaves empty go, too."""
        target = self._root / path
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            raise self._unavailable(path, error) from None
        for directory in target.parents:
            if directory == self._root or not _is_removed(directory):
                return

    def close(self) -> None:
        """Nothing is open."""

    def _walk(self, prefix: str, depth: int) -> Iterator[StoredFile]:
        if not depth:
            raise UnavailableError(
                f"directory {self.location}/{prefix} has more than {MAX_DEPTH} levels; remove "
                "links that lead back up"
            )
        try:
            with os.scandir(self._root / prefix) as found:
                entries = sorted((each.name + "/" * each.is_dir(), each) for each in found)
        except OSError as error:
            raise self._unavailable(prefix, error) from None
        for name, entry in entries:
            if name.endswith("/"):
                yield from self._walk(f"{prefix}{name}", depth - 1)
            elif entry.is_file():
                status = entry.stat()
                yield StoredFile(f"{prefix}{name}", status.st_size, _stamp(status))

    def _unavailable(self, path: str, error: OSError) -> UnavailableError:
        return UnavailableError(f"'{self.location}/{path}': {reason_of(error)}")


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}:{status.st_size}"


def _write(target: Path, content: bytes | Path, *, if_absent: bool) -> bool:
    if if_absent and target.exists():
        return False
    handle, name = tempfile.mkstemp(prefix=".", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            if isinstance(content, Path):
                with content.open("rb") as source:
                    while part := source.read(1 << 20):
                        file.write(part)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _is_removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except OSError:
        return False
    return True
