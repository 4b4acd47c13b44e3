# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The model cache of a node: a local directory of what a model is loaded from, downloaded once.

All processes of a node use one folder; `deployments.model_files.layout` says what is in it. What a
caller gets is whole, verified, and stays until its process releases it or ends. Contents are kept
once, however many models and versions have them, and what was used longest ago leaves first when
the cache is full. Calls block; they are made from threads.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock
from types import TracebackType
from typing import Self

from deployments.model_files.ages import note_never_used, note_use
from deployments.model_files.contracts import ModelFiles, OpenSource
from deployments.model_files.counters import (
    CacheCounters,
    CacheStatistics,
    Clock,
    OnProgress,
    PrefetchCounters,
    Progress,
)
from deployments.model_files.download import Downloads
from deployments.model_files.filling import Filling, Means
from deployments.model_files.layout import Layout, open_layout
from deployments.model_files.locks import let_go, locked, locked_while_working, open_shared
from deployments.model_files.partial import Allocate, allocate_on_disk
from deployments.model_files.room import FreeRoom, Room
from deployments.model_files.trees import require_safe_paths


class NodeCache:
    """One process's use of its node's cache. Used from several threads.

    Args:
        root: The cache's folder, on a disk of the node's own; made where it is not.
        max_bytes: What it may hold; 0 for half of what the disk would have free without it, worked
            out anew whenever files come.
        clock: Returns seconds, for progress and statistics.
        allocate: Takes room on the disk.
        boot_id: Which start of the machine this is; None to ask the system.

    Attributes:
        layout: Where everything is.
        counters: What this process has done.

    Raises:
        OSError: The folder cannot be made, or belongs to another user.
    """

    def __init__(
        self,
        root: Path,
        max_bytes: int = 0,
        *,
        clock: Clock = time.monotonic,
        allocate: Allocate = allocate_on_disk,
        boot_id: str | None = None,
    ) -> None:
        self.layout: Layout = open_layout(root, boot_id)
        self.counters = CacheCounters()
        self._clock = clock
        self._max_bytes = max_bytes
        self._room = Room(self.layout, max_bytes, self.counters)
        self._means = Means(self.layout, self._room, Downloads(), self.counters, allocate)
        self._lock = Lock()
        # Descriptors that keep a tree, for each time that this process got it.
        self._pins: defaultdict[Path, list[int]] = defaultdict(list)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release everything."""
        self.close()

    def ensure(
        self, files: ModelFiles, open_source: OpenSource, progress: OnProgress | None = None
    ) -> Path:
        """Return a local directory of files, which stays until it is released.

        Downloads what the node does not have; whoever wants the same meanwhile waits for it.

        Args:
            files: What shall be in it. Their agents only count as part of its name.
            open_source: Opens where to read from; not called when nothing has to be read.
            progress: Called with bytes there and bytes of all, at most once a second.

        Raises:
            FileChangedError: A file is no longer what ``files`` say: list again.
            InvalidArgumentError: A file's path leads out of the model's directory.
            ResourceExhaustedError: There is no room in the cache or on its disk.
            UnavailableError: A file cannot be read, or has not the digest that was told.
            OSError: The folder cannot be written.
        """
        require_safe_paths(files)
        key = files.key()

        def fill(directory: Path) -> None:
            told = Progress(files.size_bytes, progress, self._clock)
            Filling(self._means, files, directory, told).run(open_source)

        return self._tree(key, fill, len(files.files))

    def derive(self, key: str, make: Callable[[Path], None], size_bytes: int) -> Path:
        """Return a directory made on this node, once, which stays until it is released.

        Args:
            key: Digest of what it is made from, and how: lower-case hexadecimal digits.
            make: Fills an empty directory; its error is the caller's.
            size_bytes: What it will take, as far as is known.

        Raises:
            ResourceExhaustedError: There is no room in the cache.
            OSError: The folder cannot be written.
        """

        def make_with_room(directory: Path) -> None:
            with locked(self.layout.lock):
                self._room.make(size_bytes, f"what is made as '{key}'")
            make(directory)

        return self._tree(key, make_with_room, 1)

    def find(self, files: ModelFiles) -> Path | None:
        """Return the directory of files as `ensure` does, if it is there; else None."""
        return self._pin(files.key(), len(files.files))

    def prefetch(
        self, files: ModelFiles, open_source: OpenSource, fraction: float, stop: Event
    ) -> None:
        """Have a local directory of files that nobody needs yet; nothing leaves for it.

        It leaves before all that was ever used. Whoever wants it meanwhile waits for it.

        Args:
            files: As for `ensure`.
            open_source: The same.
            fraction: Part of what the cache may hold up to which there is room.
            stop: Ends it early; what was read stays for the next.

        Raises:
            NoFreeRoomError: There is no such room.
            StoppedError: ``stop`` was set.
            FileChangedError: As of `ensure`; so are the others.
            InvalidArgumentError: See there.
            UnavailableError: See there.
            OSError: See there.
        """
        require_safe_paths(files)
        key = files.key()
        room = FreeRoom(self.layout, self._max_bytes, self.counters, fraction)
        counters = PrefetchCounters(self.counters)
        means = replace(self._means, room=room, counters=counters, is_prefetch=True)

        def fill(directory: Path) -> None:
            told = Progress(files.size_bytes, None, self._clock)
            Filling(means, files, directory, told, stop).run(open_source)

        with locked_while_working(self.layout.tree_lock(key), stop):
            if not self.has(key):
                self._make(key, fill, note_never_used)

    def has(self, key: str) -> bool:
        """Whether there is a directory of files that have a key."""
        return (self.layout.trees / key).is_dir()

    def free_bytes(self, fraction: float) -> int:
        """Return what prefetched files may still take; see `Room.free_bytes`."""
        with locked(self.layout.lock):
            return self._room.free_bytes(fraction)

    def release(self, directory: Path) -> None:
        """Let go of a directory, once for each time that it was returned.

        Raises:
            KeyError: This process does not hold it.
        """
        with self._lock:
            if not self._pins[directory]:
                raise KeyError(f"'{directory}' is not held by this process")
            self._release_one(directory)

    def statistics(self) -> CacheStatistics:
        """Return what this process has done."""
        return self.counters.statistics()

    def close(self) -> None:
        """Release everything, as the end of the process does; only `find` works afterwards."""
        self._means.downloads.close()
        with self._lock:
            # Others may release meanwhile, once each.
            for directory, held in self._pins.items():
                while held:
                    self._release_one(directory)

    def _release_one(self, directory: Path) -> None:
        # The time of its last use is that of its end.
        note_use(directory)
        let_go(self._pins[directory].pop())

    def _tree(self, key: str, make: Callable[[Path], None], file_count: int) -> Path:
        found = self._pin(key, file_count)
        if found is not None:
            return found
        started_s = self._clock()
        try:
            with locked_while_working(self.layout.tree_lock(key), Event()):
                # Another may have made it meanwhile.
                return self._pin(key, file_count) or self._make(key, make, self._hold)
        finally:
            self.counters.count(seconds=self._clock() - started_s)

    def _make(self, key: str, make: Callable[[Path], None], note: Callable[[Path], object]) -> Path:
        making = self.layout.making / key
        self._discard(making)
        making.mkdir()
        try:
            make(making)
            with locked(self.layout.lock):
                tree = making.rename(self.layout.trees / key)
                note(tree)
                return tree
        except BaseException:
            self._discard(making)
            raise

    def _discard(self, making: Path) -> None:
        with locked(self.layout.lock):
            if making.exists():
                self.layout.discard(making)

    def _pin(self, key: str, file_count: int) -> Path | None:
        tree = self.layout.trees / key
        with locked(self.layout.lock):
            if not tree.is_dir():
                return None
            self._hold(tree)
        self.counters.count(hits=file_count)
        return tree

    def _hold(self, tree: Path) -> Path:
        """Keep a tree; the node's lock is held."""
        descriptor = open_shared(tree)
        note_use(tree)
        with self._lock:
            self._pins[tree].append(descriptor)
        return tree
