# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a model repository needs of a file system, and digests of its trees."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from backends.api.errors import InternalError

# What Python writes beside modules; never part of a model.
CACHE_DIRECTORY = "__pycache__"
# Deeper and larger than any model directory; a walk that meets them is inside a loop of links.
MAX_DEPTH = 24
MAX_ENTRIES = 100_000


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One entry of a directory.

    Attributes:
        name: Last part of its path.
        is_directory: Whether it is a directory, or a link to one.
        stamp: What changes when a file's content does: modification time and size, or an etag.
    """

    name: str
    is_directory: bool
    stamp: str


class FileSystem(Protocol):
    """Read access to the files of a model repository."""

    def entries(self, path: str) -> tuple[DirectoryEntry, ...]:
        """List a directory, sorted by name; links that lead nowhere are left out.

        Raises:
            InternalError: ``path`` is no directory, or it or one of its entries cannot be read.
        """

    def directories(self, path: str) -> tuple[str, ...]:
        """List the names of the directories in a directory, in order; looks at none of them.

        Raises:
            InternalError: ``path`` is no directory, or it cannot be read.
        """

    def identity(self, path: str) -> str:
        """Return what stands for the directory that is at ``path`` now; empty for none."""

    def is_directory(self, path: str) -> bool:
        """Whether ``path`` is a directory."""

    def exists(self, path: str) -> bool:
        """Whether there is anything at ``path``."""

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        """Read a whole file.

        Raises:
            InternalError: It is not there, cannot be read, or is larger than ``limit_bytes``.
        """

    def escapes(self, path: str, directory: str) -> bool:
        """Whether ``path``, with links and ``..`` resolved, lies outside ``directory``."""

    def localise(self, directory: str) -> str:
        """Return a local directory with the names, and texts, of ``directory``."""

    def view(self, path: str) -> "FileSystem":
        """Return what the model at ``path`` is read through; what it holds does not change."""


def reason_of(error: OSError | ValueError) -> str:
    """Say what went wrong without the path, which clients need not know."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def tree_digest(filesystem: FileSystem, path: str) -> str:
    """Return a digest of the names and stamps of all files below a directory.

    What Python caches does not count.

    Raises:
        InternalError: The tree is too deep or too large.
    """
    digest = blake2b(digest_size=16)
    for line in _walk(filesystem, path, "", MAX_DEPTH, [MAX_ENTRIES]):
        digest.update(line.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()


def _walk(
    filesystem: FileSystem, path: str, prefix: str, depth: int, left: list[int]
) -> Iterator[str]:
    entries = [entry for entry in filesystem.entries(path) if entry.name != CACHE_DIRECTORY]
    left[0] -= len(entries)
    if depth == 0 or left[0] < 0:
        raise InternalError(
            f"directory {path} has more than {MAX_DEPTH} levels or {MAX_ENTRIES} entries; "
            "remove links that lead back up"
        )
    for entry in entries:
        name = f"{prefix}{entry.name}"
        # A directory's own stamp changes with caches that a loading model writes and removes.
        yield f"{name}/" if entry.is_directory else f"{name}={entry.stamp}"
        if entry.is_directory:
            child = f"{path}/{entry.name}"
            yield from _walk(filesystem, child, f"{name}/", depth - 1, left)


def leads_below(path: str) -> bool:
    """Whether a path leads below the directory it is relative to, and is written in one way."""
    return all(part not in {"", ".", ".."} for part in path.split("/"))
