# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a model repository needs of a store of files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from deployments.model_files.contracts import Write

# What a store reads at once that cannot but hold all of it in memory.
PIECE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a listing tells of it.

    Attributes:
        path: Where it is below the store's location, with ``/``. A path that ends with one is no
            file but stands for a directory: an empty one, or one that a console has made.
        size_bytes: Its size.
        stamp: What changes with its content: an etag, a generation, or time and size.
        md5: Hex digest of its content, where the store tells one; else empty.
        sha256: The same.
    """

    path: str
    size_bytes: int
    stamp: str
    md5: str = ""
    sha256: str = ""


class Store(Protocol):
    """A tree of files in a store, below one location. Used from several threads; all calls block.

    Retries with backoff and jitter what is worth it. Errors name bucket, key, the kind of the
    credentials' source, and what to do; never the credentials.

    Attributes:
        location: As the command line names it, without credentials.
    """

    location: str

    def find(self, path: str = "") -> Iterator[StoredFile]:
        """List all files below a directory, sorted by path, in constant memory.

        One recursive listing: as many requests as the store has pages.

        Raises:
            NotFoundError: The bucket, container or directory of the location is not there.
            UnavailableError: The store cannot be reached, or refuses.
        """

    def look(self, path: str) -> StoredFile | None:
        """Return what the store says of one file now; None when there is none.

        Raises:
            UnavailableError: The store cannot be reached, or refuses.
        """

    def read(
        self, path: str, offset_bytes: int = 0, length_bytes: int | None = None, stamp: str = ""
    ) -> bytes:
        """Read a file, or a part of it.

        Args:
            path: Which.
            offset_bytes: Where the part begins.
            length_bytes: Its length; None for the rest.
            stamp: The file must still have this stamp; empty for any.

        Raises:
            FileChangedError: It has another stamp, or is gone (with ``stamp``).
            NotFoundError: There is no such file.
            UnavailableError: The store cannot be reached, or refuses.
        """

    def stream(
        self, path: str, offset_bytes: int, length_bytes: int, stamp: str, write: Write
    ) -> int:
        """Read a part of a file without holding it in memory.

        Args:
            path: Which.
            offset_bytes: Where the part begins.
            length_bytes: Its length, within the file.
            stamp: The file must still have this stamp; empty for any.
            write: Gets all that comes, in order and without gaps.

        Returns:
            How many bytes came; one call may give only the beginning.

        Raises:
            FileChangedError: It has another stamp, or is gone (with ``stamp``).
            NotFoundError: There is no such file.
            UnavailableError: The store cannot be reached, or refuses.
        """

    def write(self, path: str, content: bytes | Path, *, if_absent: bool = False) -> bool:
        """Write a file as a whole: readers see none, the former, or this one.

        Args:
            path: Which.
            content: Its content, or a local file with it, which is read in parts.
            if_absent: Leave a file alone that is there.

        Returns:
            Whether it was written.

        Raises:
            UnavailableError: The store cannot be reached, or refuses.
        """

    def remove(self, path: str) -> None:
        """Remove a file; no error when there is none.

        Raises:
            UnavailableError: The store cannot be reached, or refuses.
        """

    def close(self) -> None:
        """Close all connections; a later call opens them again."""
