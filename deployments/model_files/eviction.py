# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What leaves a full cache first. Pure: names, inodes and times in, names out.

A tree and the blobs it is made of share inodes, and the bytes of an inode are free once nothing has
it any more. So a blob can leave only after the last tree that links it. Whoever is used last leaves
last; what is kept, because somebody uses or makes it, never leaves, and neither does what it links.
"""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Content:
    """A tree, a blob or a download in a cache.

    Attributes:
        path: Where it is.
        used_ns: When it was used last.
        inodes: Of its files.
        is_kept: Whether somebody uses or makes it.
        is_tree: Whether it is a directory, which may share inodes with blobs.
    """

    path: Path
    used_ns: int
    inodes: frozenset[int]
    is_kept: bool = False
    is_tree: bool = False


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a cache holds.

    Attributes:
        all: Each of it.
        size_bytes_by_inode: Of all files.
    """

    all: Sequence[Content]
    size_bytes_by_inode: Mapping[int, int]

    @property
    def size_bytes(self) -> int:
        """Sum of all, each inode once."""
        return sum(self.size_bytes_by_inode.values())

    @property
    def kept_bytes(self) -> int:
        """Bytes that cannot be freed."""
        kept = {inode for content in self.all if content.is_kept for inode in content.inodes}
        return sum(self.size_bytes_by_inode[inode] for inode in kept)


@dataclass(frozen=True, slots=True)
class Eviction:
    """What is to be removed, in this order.

    Attributes:
        paths: Trees before the blobs that only they linked.
        freed_bytes: What that frees.
    """

    paths: tuple[Path, ...]
    freed_bytes: int


NOTHING: Final = Eviction((), 0)


def evict(contents: Contents, wanted_bytes: int) -> Eviction:
    """Choose what to remove so that as many bytes become free, or all that can where it is less."""
    if wanted_bytes <= 0:
        return NOTHING
    return _Choice(contents).until(wanted_bytes)


class _Choice:
    def __init__(self, contents: Contents) -> None:
        self._sizes = contents.size_bytes_by_inode
        self._holders = Counter(inode for content in contents.all for inode in content.inodes)
        self._leaves = {
            inode: content
            for content in contents.all
            if not content.is_tree and not content.is_kept
            for inode in content.inodes
        }
        self._heap: list[tuple[int, str, Content]] = []
        for content in contents.all:
            if not content.is_kept and (content.is_tree or self._is_free(content)):
                self._push(content)

    def until(self, wanted_bytes: int) -> Eviction:
        freed_bytes, paths = 0, []
        while self._heap and freed_bytes < wanted_bytes:
            content = heapq.heappop(self._heap)[-1]
            paths.append(content.path)
            for inode in content.inodes:
                freed_bytes += self._let_go(inode)
        return Eviction(tuple(paths), freed_bytes)

    def _let_go(self, inode: int) -> int:
        self._holders[inode] -= 1
        leaf = self._leaves.get(inode)
        if self._holders[inode] == 1 and leaf is not None:
            self._push(leaf)
        return 0 if self._holders[inode] else self._sizes[inode]

    def _is_free(self, leaf: Content) -> bool:
        return all(self._holders[inode] == 1 for inode in leaf.inodes)

    def _push(self, content: Content) -> None:
        heapq.heappush(self._heap, (content.used_ns, str(content.path), content))
