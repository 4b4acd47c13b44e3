# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A directory as the store that a node's cache reads models from."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from deployments.model_files.contracts import FileChangedError, ModelFile, ModelFiles

PART = 4 << 20


def stamp_of(path: Path) -> str:
    status = path.stat()
    return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"


def write(folder: Path, contents: Mapping[str, bytes]) -> None:
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def listed(folder: Path, *, with_sha256: bool = False, location: str = "") -> ModelFiles:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest() if with_sha256 else ""
            name = path.relative_to(folder).as_posix()
            found.append(ModelFile(name, path.stat().st_size, stamp_of(path), sha256))
    return ModelFiles(location or f"dir://{folder}", tuple(found))


def content_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def random_bytes(size_bytes: int, seed: int = 1) -> bytes:
    """Bytes whose parts all differ."""
    return hashlib.shake_128(seed.to_bytes(8, "big")).digest(size_bytes)


class DirectorySource:
    """Implements `FileSource` over a directory and counts.

    Args:
        folder: The model's.
        before: Called before each part is read, with path and offset.
    """

    def __init__(
        self, folder: Path, before: Callable[[str, int], None] = lambda _path, _offset: None
    ) -> None:
        self.folder = folder
        self.before = before
        self.reads: list[tuple[str, int]] = []
        self.read_bytes = 0

    def __call__(self, _location: str) -> "DirectorySource":
        """Implement `OpenSource`."""
        return self

    def read(self, file: ModelFile, offset_bytes: int, length_bytes: int) -> bytes:
        self.before(file.path, offset_bytes)
        path = self.folder / file.path
        if not path.exists() or stamp_of(path) != file.stamp:
            raise FileChangedError(f"'{path}' is no longer what was listed")
        with path.open("rb") as opened:
            opened.seek(offset_bytes)
            data = opened.read(length_bytes)
        self.reads.append((file.path, offset_bytes))
        self.read_bytes += len(data)
        return data
