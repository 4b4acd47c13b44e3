# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes room in a cache: measures what is there, removes what leaves first, or says what to do."""

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from backends.api.errors import ResourceExhaustedError
from deployments.model_files.blobs import Blobs
from deployments.model_files.counters import CacheCounters
from deployments.model_files.eviction import Content, Contents, evict
from deployments.model_files.layout import Layout
from deployments.model_files.locks import is_locked
from deployments.model_files.prefetch import NoFreeRoomError
from deployments.model_files.trees import inodes_of

# Numbers of the errors of a disk without room.
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# Names of the downloads of a directory that is being made, beside it.
WANTED: Final = ".wanted"


class Room:
    """The bytes of a cache. All calls need the node's lock.

    Args:
        layout: Of the cache.
        max_bytes: What it may hold; 0 for half of what the disk would have free without it.
        counters: Where evictions count.
    """

    def __init__(self, layout: Layout, max_bytes: int, counters: CacheCounters) -> None:
        self._layout = layout
        self._max_bytes = max_bytes
        self._counters = counters

    def make(self, wanted_bytes: int, wanted_for: str) -> None:
        """Remove what leaves first until as many bytes more are within the bound.

        Raises:
            ResourceExhaustedError: What is used leaves no such room; nothing was removed.
        """
        contents = measure(self._layout)
        max_bytes = self._bound(contents)
        excess_bytes = contents.size_bytes + wanted_bytes - max_bytes
        eviction = evict(contents, excess_bytes)
        if eviction.freed_bytes < excess_bytes:
            raise ResourceExhaustedError(
                f"no room for {wanted_for} in the model cache '{self._layout.root}': wanted "
                f"{wanted_bytes} bytes, it may hold {max_bytes} and {contents.kept_bytes} are in "
                "use; raise --model-cache-max-bytes or unload models"
            )
        self._remove(eviction.paths)

    def on_disk(self, wanted_bytes: int, wanted_for: str, write: Callable[[], None]) -> None:
        """Do what may find the disk full, again after each time that something could be removed.

        Raises:
            ResourceExhaustedError: The disk is full and nothing is left to remove.
            OSError: Anything else is wrong with the disk.
        """
        while True:
            try:
                return write()
            except OSError as error:
                if error.errno not in FULL:
                    raise
                self.after_full_disk(wanted_bytes, wanted_for, error)

    def after_full_disk(self, wanted_bytes: int, wanted_for: str, error: OSError) -> None:
        """Remove what leaves first, as much as is wanted or there is.

        Raises:
            ResourceExhaustedError: Nothing can be removed.
        """
        eviction = evict(measure(self._layout), max(wanted_bytes, 1))
        if not eviction.freed_bytes:
            free_bytes = shutil.disk_usage(self._layout.root).free
            raise ResourceExhaustedError(
                f"the disk of the model cache '{self._layout.root}' is full: wanted {wanted_bytes} "
                f"bytes for {wanted_for}, {free_bytes} are free and nothing cached is unused; free "
                "some, name a folder of another disk with --model-cache-directory, or lower "
                "--model-cache-max-bytes if something else needs the disk"
            ) from error
        self._remove(eviction.paths)

    def free_bytes(self, fraction: float) -> int:
        """Return what may come until a part of the bound is reached; negative beyond it."""
        contents = measure(self._layout)
        most_bytes = int(fraction * self._bound(contents))
        return min(most_bytes - contents.size_bytes, shutil.disk_usage(self._layout.root).free)

    def _bound(self, contents: Contents) -> int:
        if self._max_bytes:
            return self._max_bytes
        return (shutil.disk_usage(self._layout.root).free + contents.size_bytes) // 2

    def _remove(self, paths: tuple[Path, ...]) -> None:
        for path in paths:
            if path.is_dir():
                self._layout.discard(path)
            else:
                path.unlink(missing_ok=True)
                path.with_name(f"{path.name}.parts").unlink(missing_ok=True)
        self._counters.count(evictions=len(paths))
        if paths:
            Blobs(self._layout).forget_removed()


class FreeRoom(Room):
    """The room for what nobody needs yet: nothing leaves for it. All calls need the node's lock.

    Args:
        layout: Of the cache.
        max_bytes: As for `Room`.
        counters: Unused.
        fraction: Part of the bound up to which there is room.
    """

    def __init__(
        self, layout: Layout, max_bytes: int, counters: CacheCounters, fraction: float
    ) -> None:
        super().__init__(layout, max_bytes, counters)
        self._fraction = fraction

    def make(self, wanted_bytes: int, wanted_for: str) -> None:
        """Require that there is room.

        Raises:
            NoFreeRoomError: There is none.
        """
        if wanted_bytes > self.free_bytes(self._fraction):
            raise NoFreeRoomError(wanted_bytes)

    def after_full_disk(self, wanted_bytes: int, wanted_for: str, error: OSError) -> None:
        """Give up.

        Raises:
            NoFreeRoomError: Always.
        """
        raise NoFreeRoomError(max(wanted_bytes, 1)) from error


def measure(layout: Layout) -> Contents:
    """Return what a cache holds; removes what was left half made and half removed."""
    for left in layout.trash.iterdir():
        shutil.rmtree(left, ignore_errors=True)
    sizes: dict[int, int] = {}
    found = [*_made(layout, sizes), *_trees(layout, sizes)]
    kept = {
        name
        for wanted in layout.making.glob(f"*{WANTED}")
        for name in wanted.read_text().splitlines()
    }
    for folder in (layout.blobs, layout.unchecked, layout.partial):
        for path in folder.iterdir():
            if path.suffix == ".parts":
                continue
            is_kept = folder == layout.partial and (
                path.name in kept or is_locked(layout.blob_lock(path.name))
            )
            status = path.stat()
            sizes[status.st_ino] = status.st_size
            found.append(Content(path, status.st_mtime_ns, frozenset({status.st_ino}), is_kept))
    return Contents(found, sizes)


def _made(layout: Layout, sizes: dict[int, int]) -> Iterator[Content]:
    for path in list(layout.making.iterdir()):
        key = path.name.removesuffix(WANTED)
        if is_locked(layout.tree_lock(key)):
            inodes = inodes_of(path)
            sizes |= inodes
            yield Content(path, 0, frozenset(inodes), is_kept=True, is_tree=True)
        elif path.is_dir():
            layout.discard(path)
        else:
            path.unlink()


def _trees(layout: Layout, sizes: dict[int, int]) -> Iterator[Content]:
    for path in layout.trees.iterdir():
        inodes = inodes_of(path)
        sizes |= inodes
        used_ns = path.stat().st_mtime_ns
        yield Content(path, used_ns, frozenset(inodes), is_locked(path), is_tree=True)
