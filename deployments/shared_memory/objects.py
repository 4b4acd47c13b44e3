# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reading and writing clients' shared memory: by copies, never by mappings.

An object belongs to its client, who may shrink it at any time. Touching a mapping of what is gone
then is a SIGBUS, which ends the process with everybody's requests; so is writing to one when
``/dev/shm`` is full. A read or write at the descriptor ends early instead, or says why it cannot.
"""

import os
import threading
from collections.abc import Collection
from typing import Final

import numpy as np

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.request import EMPTY, Extent
from deployments.shared_memory.cuda import CudaMaps, is_cuda
from deployments.shared_memory.system import key_of, open_source

_OPEN_LIMIT: Final = 256


class _Object:
    """An open object; closed once nobody keeps it and nobody uses it."""

    __slots__ = ("descriptor", "is_kept", "user_count")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.is_kept = True
        self.user_count = 0


class RegionMemory:
    """This process's access to clients' objects, the latest used ones kept open.

    Methods may be called from any thread.

    Args:
        cuda: Its mappings of GPUs' memory; without them, new ones.

    Attributes:
        cuda: This process's mappings of GPUs' memory.
    """

    __slots__ = ("_lock", "_objects", "cuda")

    def __init__(self, cuda: CudaMaps | None = None) -> None:
        self.cuda = cuda or CudaMaps()
        # Of the books only; nothing is read or written under it.
        self._lock = threading.Lock()
        # The latest used one last.
        self._objects: dict[str, _Object] = {}

    @property
    def open_count(self) -> int:
        """Objects kept open."""
        return len(self._objects)

    def check(self, extent: Extent) -> None:
        """Check that an extent lies within its object as it is now.

        Raises:
            InternalError: The object is gone.
            InvalidArgumentError: It has become too small.
        """
        used = self._begin(extent.source)
        try:
            _check(extent, used)
        finally:
            self._end(used)

    def read(self, extent: Extent) -> memoryview:
        """Return a copy of the bytes of an extent.

        Args:
            extent: Source of a region, offset in its object and size.

        Raises:
            InternalError: The object is gone, or cannot be read.
            InvalidArgumentError: It has become too small.
        """
        if is_cuda(extent.source):
            return self.cuda.read(extent)
        used = self._begin(extent.source)
        try:
            _check(extent, used)
            if not extent.size_bytes:
                return EMPTY
            target = np.empty(extent.size_bytes, np.uint8).data
            _transfer(extent, used, target, is_read=True)
            return target
        finally:
            self._end(used)

    def write(self, extent: Extent, data: memoryview) -> None:
        """Write bytes to an extent of their size.

        Raises:
            InternalError: The object is gone, or cannot be written: there is no room.
            InvalidArgumentError: It has become too small.
        """
        if is_cuda(extent.source):
            self.cuda.write(extent, data)
            return
        used = self._begin(extent.source)
        try:
            _check(extent, used)
            _transfer(extent, used, data, is_read=False)
        finally:
            self._end(used)

    def forget_others(self, sources: Collection[str]) -> None:
        """Close other objects; those in use when that is over."""
        with self._lock:
            for source in [source for source in self._objects if source not in sources]:
                self._drop(source)
        self.cuda.forget_others(sources)

    def _begin(self, source: str) -> _Object:
        with self._lock:
            used = self._objects.pop(source, None)
            if used is None:
                used = _Object(open_source(source))
            self._objects[source] = used
            used.user_count += 1
            if len(self._objects) > _OPEN_LIMIT:
                self._drop(next(iter(self._objects)))
            return used

    def _end(self, used: _Object) -> None:
        with self._lock:
            used.user_count -= 1
            _close_unused(used)

    def _drop(self, source: str) -> None:
        dropped = self._objects.pop(source)
        dropped.is_kept = False
        _close_unused(dropped)


def _close_unused(used: _Object) -> None:
    if not (used.is_kept or used.user_count):
        os.close(used.descriptor)


def _check(extent: Extent, used: _Object) -> None:
    size = os.fstat(used.descriptor).st_size
    if extent.offset < 0 or extent.size_bytes < 0 or extent.offset + extent.size_bytes > size:
        raise _too_small(extent, size)


def _transfer(extent: Extent, used: _Object, data: memoryview, *, is_read: bool) -> None:
    """Read or write all bytes, though the system may do so in pieces.

    A write behind the end of an object that was shrunk since its size was looked at makes the
    object longer again, never longer than it was.
    """
    begin, done = extent.offset, 0
    while done < extent.size_bytes:
        try:
            if is_read:
                count = os.preadv(used.descriptor, [data[done:]], begin + done)
            else:
                count = os.pwritev(used.descriptor, [data[done:]], begin + done)
        except OSError as error:
            raise InternalError(
                f"Unable to {'read' if is_read else 'write'} shared memory region with key "
                f"'{key_of(extent.source)}': bytes {begin} to {begin + extent.size_bytes}: "
                f"{error.strerror}"
            ) from None
        if not count:
            raise _too_small(extent, begin + done)
        done += count


def _too_small(extent: Extent, size: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Invalid offset + byte size for shared memory region with key '{key_of(extent.source)}': "
        f"bytes {extent.offset} to {extent.offset + extent.size_bytes} of an object that has "
        f"{size}; register it again with its present size"
    )
