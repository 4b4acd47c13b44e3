# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A download that is not whole: the file, and which of its parts are written.

The record of parts is a file of one byte each, written after the part itself. A process that is
killed loses the parts it was writing and no others; another goes on with the rest.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

# What is asked of a source at a time: large enough that waiting for its beginning does not count,
# small enough that all that are under way (`download.PARALLEL`) take 32 MiB of memory.
PART_BYTES: Final = 4 << 20

# Takes room on the disk for an opened file, from offset 0; raises OSError when there is none.
Allocate = Callable[[int, int], None]


def allocate_on_disk(descriptor: int, size_bytes: int) -> None:
    """Take room so that a disk is full before a download begins, not in its middle."""
    os.posix_fallocate(descriptor, 0, size_bytes)


class Partial:
    """A download in `layout.partial`.

    Args:
        path: Of the file.
        size_bytes: Of the whole.
        part_bytes: Of each part but the last.
    """

    __slots__ = ("_parts", "part_bytes", "path", "size_bytes")

    def __init__(self, path: Path, size_bytes: int, part_bytes: int = PART_BYTES) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self.part_bytes = part_bytes
        self._parts = path.with_name(f"{path.name}.parts")

    @property
    def part_count(self) -> int:
        """How many parts the file has."""
        return -(-self.size_bytes // self.part_bytes)

    @property
    def is_allocated(self) -> bool:
        """Whether the file and its record are there."""
        try:
            sizes = (self.path.stat().st_size, self._parts.stat().st_size)
        except FileNotFoundError:
            return False
        return sizes == (self.size_bytes, self.part_count)

    def allocate(self, allocate: Allocate = allocate_on_disk) -> None:
        """Make the file, without any part, in its full size.

        Raises:
            OSError: There is no room; nothing is left of it then.
        """
        self.discard()
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                # The call refuses a size of nothing.
                if self.size_bytes:
                    allocate(descriptor, self.size_bytes)
            finally:
                os.close(descriptor)
            self._parts.write_bytes(bytes(self.part_count))
        except BaseException:
            self.discard()
            raise

    def span(self, part: int) -> tuple[int, int]:
        """Return where a part begins and how long it is, in bytes."""
        offset = part * self.part_bytes
        return offset, min(self.part_bytes, self.size_bytes - offset)

    def written(self) -> bytes:
        """Return the record: one byte for each part, 0 for one that is not there.

        Raises:
            FileNotFoundError: The download is whole or given up.
        """
        return self._parts.read_bytes()

    def note(self, part: int) -> None:
        """Record that a part is written."""
        descriptor = os.open(self._parts, os.O_WRONLY)
        try:
            os.pwrite(descriptor, b"\1", part)
        finally:
            os.close(descriptor)

    def drop_record(self) -> None:
        """Remove the record alone, once the file is whole and has another name."""
        self._parts.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove the file and its record."""
        self._parts.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


def read_record(path: Path) -> bytes:
    """Return the record of a download by the path of its file; nothing when there is none."""
    try:
        return path.with_name(f"{path.name}.parts").read_bytes()
    except FileNotFoundError:
        return b""
