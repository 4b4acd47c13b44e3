# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Shared memory for large tensors between processes of one node.

Theory of operation. A `SlabPool` belongs to the process that writes. It maps memfds (*slabs*) and
cuts each into blocks of one power-of-two size. `allocate` hands a block out as a memoryview whose
exporter (``view.obj``) is a numpy array made for this one hand-over: the array dies with the last
view, wherever that is, and its weak reference tells the pool. A lane that sends a block's bytes by
reference retains the block until the peer's RELEASE. A block is free when the local views and all
lanes have let go of it.

Readers open a slab through ``/proc/<pid>/fd/<fd>`` and map it read-only. A memfd has no name in any
file system, so a crash leaks nothing: the kernel frees the pages with the last mapping. It is
sealed against shrinking, so a reader cannot be killed with SIGBUS.

Weak-reference callbacks run on whatever thread drops the last view, even inside the pool's own
lock when the garbage collector strikes there. Hence they only append to a deque; whoever next
holds the lock does the book-keeping.
"""

import logging
import mmap
import os
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from mypy_extensions import mypyc_attr

from deployments.slabs.memfds import map_memfd, sealed_memfd

logger = logging.getLogger(__name__)

ALIGNMENT_BYTES: Final = 64
MIN_BLOCK_BYTES: Final = 64 << 10
# Blocks up to this size share slabs. Each slab costs two descriptors here and one in each reader,
# so a full default pool needs at most 128 of them.
SLAB_BYTES: Final = 16 << 20
DEFAULT_POOL_BYTES: Final = 1 << 30

ByteArray = npt.NDArray[np.uint8]


class Slab:
    """One mapped memfd and its blocks.

    Attributes:
        id: Number of the slab in its pool, from 1, never used again.
        fd: The memfd.
        size_bytes: Its size.
    """

    __slots__ = ("address", "block_bytes", "fd", "id", "mapping", "size_bytes", "used_blocks")
    __deletable__ = ("mapping",)

    def __init__(self, slab_id: int, size_bytes: int, block_bytes: int) -> None:
        self.id = slab_id
        self.size_bytes = size_bytes
        self.block_bytes = block_bytes
        self.fd = sealed_memfd(size_bytes)
        try:
            self.mapping = mmap.mmap(self.fd, size_bytes)
        except OSError:
            os.close(self.fd)
            raise
        self.address = _address_of(self.mapping)
        self.used_blocks = 0


class SlabBlock:
    """A block in use.

    Attributes:
        slab: Where it lies.
        start: First byte of the block in the slab.
        references: One for the local views, one for each time a lane retained it.
    """

    __slots__ = ("references", "slab", "start")

    def __init__(self, slab: Slab, start: int) -> None:
        self.slab = slab
        self.start = start
        self.references = 1


@mypyc_attr(native_class=False)
class _BlockRef(weakref.ref[ByteArray]):
    __slots__ = ("block", "key")

    block: SlabBlock
    key: int


class SlabPool:
    """The slabs this process writes. Thread-safe.

    Args:
        max_bytes: Bound on the bytes of all slabs.
        slab_bytes: Size of the slabs that small blocks share.
    """

    def __init__(
        self, max_bytes: int = DEFAULT_POOL_BYTES, *, slab_bytes: int = SLAB_BYTES
    ) -> None:
        self.max_bytes = max_bytes
        self._slab_bytes = slab_bytes
        self._lock = threading.Lock()
        self._let_go: deque[SlabBlock] = deque()
        # Keyed by the id of the exporter, which is in use as long as the entry lives.
        self._exporters: dict[int, _BlockRef] = {}
        self._free: dict[int, list[tuple[Slab, int]]] = {}
        self._slabs: dict[int, Slab] = {}
        self._mapped_bytes = 0
        self._next_id = 1
        self._watchers: list[Callable[[int], None]] = []
        self._is_closed = False
        self.probe_token = secrets.token_bytes(32)
        self._probe_fd = -1

    def allocate(self, size_bytes: int, align_at: int = 0) -> memoryview | None:
        """Return writable memory that lanes send by reference, or None when the pool is full.

        Args:
            size_bytes: Length of the memory.
            align_at: The byte that shall lie on a 64-byte boundary (where a body's tensors start).

        Returns:
            A view of format ``B``. Its bytes are not cleared. Slices of it, and anything else that
            keeps its exporter alive, keep the block.
        """
        pad = -align_at % ALIGNMENT_BYTES
        block_bytes = max(MIN_BLOCK_BYTES, 1 << (size_bytes + pad - 1).bit_length())
        if size_bytes <= 0 or block_bytes > self.max_bytes:
            return None
        with self._lock:
            self._settle()
            free = self._free.setdefault(block_bytes, [])
            if not free and (self._is_closed or not self._grow(block_bytes)):
                return None
            # The block freed last is the one whose pages are warm.
            slab, start = free.pop()
            slab.used_blocks += 1
        block = SlabBlock(slab, start)
        exporter: ByteArray = np.frombuffer(slab.mapping, np.uint8, size_bytes, start + pad)
        ref = _BlockRef(exporter, self._view_died)
        ref.block, ref.key = block, id(exporter)
        self._exporters[ref.key] = ref
        return exporter.data

    def locate(self, data: memoryview) -> tuple[SlabBlock, int] | None:
        """Return the block that ``data`` is a view of and its offset in the slab, if any."""
        exporter: object = data.obj
        ref = self._exporters.get(id(exporter))
        if ref is None or ref() is not exporter:
            return None
        slab = ref.block.slab
        offset = _address_of(data) - slab.address
        return ref.block, offset

    def retain(self, block: SlabBlock) -> None:
        """Keep a block that is in use until the matching `let_go`."""
        with self._lock:
            block.references += 1

    def let_go(self, block: SlabBlock) -> None:
        """Give one reference back. Safe on any thread and in any callback."""
        self._let_go.append(block)

    def watch(self, retired: Callable[[int], None]) -> None:
        """Have ``retired(slab_id)`` called when a slab is unmapped, on any thread."""
        with self._lock:
            self._watchers.append(retired)

    def unwatch(self, retired: Callable[[int], None]) -> None:
        """Undo `watch`."""
        with self._lock:
            self._watchers.remove(retired)

    @property
    def probe_fd(self) -> int:
        """A memfd that holds ``probe_token``: who can read it can read the slabs."""
        with self._lock:
            if self._probe_fd < 0 and not self._is_closed:
                self._probe_fd = sealed_memfd(len(self.probe_token))
                os.pwrite(self._probe_fd, self.probe_token, 0)
            return self._probe_fd

    @property
    def used_blocks(self) -> int:
        """Blocks that somebody holds."""
        with self._lock:
            self._settle()
            return sum(slab.used_blocks for slab in self._slabs.values())

    @property
    def mapped_bytes(self) -> int:
        """Bytes of all slabs, at most ``max_bytes``."""
        return self._mapped_bytes

    def close(self) -> None:
        """Close the slabs; views already handed out stay valid."""
        with self._lock:
            self._is_closed = True
            for slab in list(self._slabs.values()):
                self._retire(slab)
            if self._probe_fd >= 0:
                os.close(self._probe_fd)
                self._probe_fd = -1

    def _view_died(self, ref: weakref.ref[ByteArray]) -> None:
        block_ref = cast("_BlockRef", ref)
        self._exporters.pop(block_ref.key, None)
        self._let_go.append(block_ref.block)

    def _settle(self) -> None:
        """Book what was let go since the last time; the lock is held."""
        while self._let_go:
            block = self._let_go.popleft()
            block.references -= 1
            slab = block.slab
            if block.references == 0 and slab.id in self._slabs:
                slab.used_blocks -= 1
                self._free[slab.block_bytes].append((slab, block.start))

    def _grow(self, block_bytes: int) -> bool:
        size_bytes = max(block_bytes, min(self._slab_bytes, self.max_bytes))
        self._make_room(size_bytes)
        if self._mapped_bytes + size_bytes > self.max_bytes:
            return False
        try:
            slab = Slab(self._next_id, size_bytes, block_bytes)
        except OSError as error:
            logger.warning("no slab of %d bytes: %s", size_bytes, error)
            return False
        self._next_id += 1
        self._mapped_bytes += size_bytes
        self._slabs[slab.id] = slab
        starts = range(0, size_bytes - block_bytes + 1, block_bytes)
        self._free[block_bytes].extend((slab, start) for start in reversed(starts))
        return True

    def _make_room(self, size_bytes: int) -> None:
        """Retire idle slabs of other block sizes, so that a change of traffic cannot starve."""
        for slab in list(self._slabs.values()):
            if self._mapped_bytes + size_bytes <= self.max_bytes:
                return
            if slab.used_blocks == 0:
                self._retire(slab)

    def _retire(self, slab: Slab) -> None:
        free = self._free[slab.block_bytes]
        free[:] = [entry for entry in free if entry[0] is not slab]
        del self._slabs[slab.id]
        self._mapped_bytes -= slab.size_bytes
        os.close(slab.fd)
        # The pages live on with the views, which hold the mapping themselves.
        del slab.mapping
        for retired in self._watchers:
            retired(slab.id)


def _address_of(data: memoryview | mmap.mmap) -> int:
    address: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return address


class SlabUnavailableError(Exception):
    """A slab the peer announced could not be mapped here."""


@mypyc_attr(native_class=False)
class _ViewRef(weakref.ref[ByteArray]):
    __slots__ = ("extent", "key")

    extent: tuple[int, int]
    key: int


class SlabReader:
    """The peer's slabs as one lane sees them, and what of them is to be released.

    Args:
        wake: Called on any thread when `take_released` has something new.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._mappings: dict[int, mmap.mmap | None] = {}
        self._views: dict[int, _ViewRef] = {}
        self._released: deque[tuple[int, int]] = deque()

    def announce(self, slab_id: int, pid: int, fd: int, size_bytes: int) -> bool:
        """Map a slab of the peer; False when that fails.

        Raises:
            ValueError: The slab was announced before.
        """
        if slab_id in self._mappings:
            raise ValueError(f"slab {slab_id} announced twice")
        mapping = None
        try:
            mapping = map_memfd(pid, fd, size_bytes)
        except (OSError, ValueError) as error:
            logger.warning("slab %d of process %d cannot be mapped: %s", slab_id, pid, error)
        self._mappings[slab_id] = mapping
        return mapping is not None

    def forget(self, slab_id: int) -> None:
        """Drop the mapping of a slab the peer has retired; views of it stay valid."""
        self._mappings.pop(slab_id, None)

    def view(self, slab_id: int, offset: int, size_bytes: int) -> memoryview:
        """Return the bytes of an extent; when the last view of them dies they are released.

        Raises:
            ValueError: The extent does not lie in an announced slab.
            SlabUnavailableError: The slab could not be mapped; the extent is released at once.
        """
        if slab_id not in self._mappings:
            raise ValueError(f"extent in slab {slab_id}, which was not announced")
        mapping = self._mappings[slab_id]
        if mapping is None:
            self._released.append((slab_id, offset))
            self._wake()
            raise SlabUnavailableError(f"slab {slab_id} is not mapped")
        if offset < 0 or size_bytes <= 0 or offset + size_bytes > len(mapping):
            raise ValueError(
                f"extent of {size_bytes} bytes at {offset} in slab {slab_id} of "
                f"{len(mapping)} bytes"
            )
        exporter: ByteArray = np.frombuffer(mapping, np.uint8, size_bytes, offset)
        ref = _ViewRef(exporter, self._view_died)
        ref.extent, ref.key = (slab_id, offset), id(exporter)
        self._views[ref.key] = ref
        return exporter.data

    def take_released(self) -> list[tuple[int, int]]:
        """Return (slab id, offset) of the extents whose views have died since the last call."""
        released: list[tuple[int, int]] = []
        while self._released:
            released.append(self._released.popleft())
        return released

    def close(self) -> None:
        """Drop all mappings and stop reporting; views stay valid."""
        self._mappings.clear()
        self._views.clear()

    def _view_died(self, ref: weakref.ref[ByteArray]) -> None:
        view_ref = cast("_ViewRef", ref)
        self._views.pop(view_ref.key, None)
        self._released.append(view_ref.extent)
        self._wake()


def can_read_probe(pid: int, fd: int, token: bytes) -> bool:
    """Whether the slabs of a process on the other end of a lane can be mapped here.

    The token tells a process of that number in another pid namespace from the peer.
    """
    try:
        mapping = map_memfd(pid, fd, len(token))
    except (OSError, ValueError):
        return False
    with mapping:
        return secrets.compare_digest(mapping[: len(token)], token)
