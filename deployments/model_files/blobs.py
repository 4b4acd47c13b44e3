# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Contents by their SHA-256, and what SHA-256 a store's file is known to have."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from deployments.model_files.contracts import ModelFile
from deployments.model_files.layout import Layout, replace_text

_SHA256_DIGITS: Final = 64
_CHUNK_BYTES: Final = 1 << 20


def source_key(location: str, file: ModelFile) -> str:
    """Return the digest of where a file is, and of what the store says of its content."""
    text = "\0".join((location, file.path, file.stamp, str(file.size_bytes)))
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def content_key(location: str, file: ModelFile) -> str:
    """Return what a file's content goes by before it is there: its SHA-256 where it is told."""
    return file.sha256 or source_key(location, file)


@dataclass(frozen=True, slots=True)
class Blobs:
    """The contents of a cache. What changes names needs the node's lock.

    Attributes:
        layout: Where they are.
    """

    layout: Layout

    def path(self, sha256: str) -> Path:
        """Return where a content is, or would be."""
        return self.layout.blobs / sha256

    def find(self, location: str, file: ModelFile) -> Path | None:
        """Return where a file's content is; None when it is not there."""
        sha256 = file.sha256 or self._indexed(source_key(location, file))
        if not sha256:
            return None
        return _of_size(self.path(sha256), file.size_bytes)

    def find_unchecked(self, location: str, file: ModelFile) -> Path | None:
        """Return where a content is that must be read before it is used; None for nowhere."""
        sha256 = file.sha256 or self._indexed(source_key(location, file))
        if not sha256:
            return None
        return _of_size(self.layout.unchecked / sha256, file.size_bytes)

    def find_by_key(self, key: str) -> Path | None:
        """Return where the content is that goes by a `content_key`; None when it is not there."""
        sha256 = key if len(key) == _SHA256_DIGITS else self._indexed(key)
        path = self.path(sha256)
        return path if sha256 and path.is_file() else None

    def add(self, written: Path, sha256: str, location: str, file: ModelFile) -> Path:
        """Make a file that is written a blob, and remember whose content it is.

        Args:
            written: On the same file system; moved.
            sha256: Hex digest of its content.
            location: Of the model.
            file: Which was read.
        """
        blob = self.path(sha256)
        # First, so that whoever is killed in between leaves a whole download behind, not a blob
        # that nothing leads to.
        replace_text(self.layout.index / source_key(location, file), sha256)
        if _of_size(blob, file.size_bytes) is None:
            written.rename(blob)
            blob.chmod(0o444)
        else:
            written.unlink()
        return blob

    def known(self, least_bytes: int) -> Iterator[tuple[str, str]]:
        """Yield each `content_key` that a content of some size may go by, with its SHA-256."""
        blobs = list(self.layout.blobs.iterdir())
        large = {blob.name for blob in blobs if _size_bytes(blob) >= least_bytes}
        yield from ((sha256, sha256) for sha256 in large)
        for entry in list(self.layout.index.iterdir()):
            sha256 = self._indexed(entry.name)
            # What is being written has a suffix.
            if sha256 in large and not entry.suffix:
                yield entry.name, sha256

    def forget_removed(self) -> None:
        """Remove from the index what is no longer there."""
        for entry in list(self.layout.index.iterdir()):
            sha256 = entry.read_text()
            folders = (self.layout.blobs, self.layout.unchecked)
            if not sha256 or not any((folder / sha256).exists() for folder in folders):
                entry.unlink()

    def _indexed(self, key: str) -> str:
        try:
            sha256 = (self.layout.index / key).read_text()
        except FileNotFoundError:
            return ""
        # After a loss of power an entry may be empty.
        return sha256 if len(sha256) == _SHA256_DIGITS else ""


def sha256_of(path: Path) -> str:
    """Return the hex digest of a file's content."""
    digest = hashlib.sha256()
    buffer = bytearray(_CHUNK_BYTES)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(memoryview(buffer)[:count])
    return digest.hexdigest()


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        # It has left meanwhile.
        return 0


def _of_size(path: Path, size_bytes: int) -> Path | None:
    try:
        return path if path.stat().st_size == size_bytes else None
    except FileNotFoundError:
        return None
