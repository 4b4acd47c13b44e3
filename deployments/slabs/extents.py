# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Large tensors on their way: out of the message into slabs or the tail, and back.

A lane's own extents have a slab id that is not 0, which tells them from extents that name a
client's shared-memory region; a region may be called "slab" or "tail".
"""

from typing import Final

from backends.api.request import Extent, Tensor
from deployments.slabs.pool import (
    ALIGNMENT_BYTES,
    Slab,
    SlabBlock,
    SlabPool,
    SlabReader,
    SlabUnavailableError,
)

IN_TAIL: Final = -1
_PADDING: Final = bytes(ALIGNMENT_BYTES)

SlabKey = tuple[int, int]


class Detached:
    """The tensors of one message after the large ones have left it.

    Attributes:
        tensors: What goes into the message; only tensors with large data are new objects.
        tail: Buffers that make up the tail, in order.
        tail_bytes: Their total size.
        new_slabs: Slabs that the peer must be told of before the message.
        keys: Slab extents that the peer holds from now on.
    """

    __slots__ = ("keys", "new_slabs", "tail", "tail_bytes", "tensors")

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.tail: list[memoryview | bytes] = []
        self.tail_bytes = 0
        self.new_slabs: list[Slab] = []
        self.keys: list[SlabKey] = []


class ExtentSender:
    """Places large tensors for one lane and keeps account of what its peer holds.

    Attributes:
        uses_slabs: Whether the peer maps this process's slabs; else everything goes in tails.
        threshold_bytes: Tensors of at least this size leave the message.
    """

    __slots__ = ("_announced", "_held", "_pool", "threshold_bytes", "uses_slabs")

    def __init__(self, pool: SlabPool, threshold_bytes: int) -> None:
        self._pool = pool
        self.threshold_bytes = threshold_bytes
        self.uses_slabs = False
        self._announced: set[int] = set()
        # A peer may be sent the same extent several times before it releases any of them.
        self._held: dict[SlabKey, list[SlabBlock]] = {}

    @property
    def held_count(self) -> int:
        """Slab extents the peer has not released."""
        return sum(map(len, self._held.values()))

    def detach(self, tensors: list[Tensor]) -> Detached:
        """Place the large ones among ``tensors``, which stay as they are.

        Raises:
            ValueError: A tensor's data is not contiguous bytes.
        """
        detached = Detached()
        for tensor in tensors:
            data = tensor.data
            if data.nbytes < self.threshold_bytes:
                detached.tensors.append(tensor)
                continue
            if not data.contiguous or data.itemsize != 1:
                raise ValueError(f"the data of tensor '{tensor.name}' is not contiguous bytes")
            extent = self._to_slab(data, detached) if self.uses_slabs else None
            if extent is None:
                extent = _to_tail(data, detached)
            detached.tensors.append(
                Tensor(tensor.name, tensor.datatype, tensor.shape, extent=extent)
            )
        return detached

    def _to_slab(self, data: memoryview, detached: Detached) -> Extent | None:
        found = self._pool.locate(data)
        if found is None:
            copy = self._pool.allocate(data.nbytes)
            if copy is None:
                return None
            copy[:] = data.cast("B")
            found = self._pool.locate(copy)
        if found is None:
            return None
        block, offset = found
        slab = block.slab
        self._pool.retain(block)
        key = (slab.id, offset)
        self._held.setdefault(key, []).append(block)
        detached.keys.append(key)
        if slab.id not in self._announced:
            self._announced.add(slab.id)
            detached.new_slabs.append(slab)
        return Extent("slab", offset, data.nbytes, slab.id)

    def undo(self, detached: Detached) -> None:
        """Take back what a message that was not sent would have made the peer hold."""
        for key in detached.keys:
            self.released(key)
        self._announced.difference_update(slab.id for slab in detached.new_slabs)

    def released(self, key: SlabKey) -> None:
        """Book a release by the peer.

        Raises:
            ValueError: The peer does not hold that extent.
        """
        blocks = self._held.get(key)
        if blocks is None:
            raise ValueError(f"release of {key[1]} in slab {key[0]}, which is not held")
        self._pool.let_go(blocks.pop())
        if not blocks:
            del self._held[key]

    def retired(self, slab_id: int) -> bool:
        """Forget a slab that the pool has retired; True when the peer knew it."""
        if slab_id not in self._announced:
            return False
        self._announced.remove(slab_id)
        return True

    def close(self) -> None:
        """Take back everything: the peer is gone."""
        for blocks in self._held.values():
            for block in blocks:
                self._pool.let_go(block)
        self._held.clear()


def _to_tail(data: memoryview, detached: Detached) -> Extent:
    pad = -detached.tail_bytes % ALIGNMENT_BYTES
    if pad:
        detached.tail.append(_PADDING[:pad])
    offset = detached.tail_bytes + pad
    detached.tail.append(data)
    detached.tail_bytes = offset + data.nbytes
    return Extent("tail", offset, data.nbytes, IN_TAIL)


def attach(tensors: list[Tensor], tail: memoryview, slabs: SlabReader) -> None:
    """Give received tensors the data that their extents stand for, as views.

    Raises:
        ValueError: An extent is not one that `ExtentSender` would have made.
        SlabUnavailableError: A slab could not be mapped; all slab extents are released.
    """
    used_bytes = 0
    unavailable: SlabUnavailableError | None = None
    for tensor in tensors:
        extent = tensor.extent
        if extent is None or extent.slab_id == 0:
            continue
        if extent.source == "slab":
            try:
                tensor.data = slabs.view(extent.slab_id, extent.offset, extent.size_bytes)
            except SlabUnavailableError as error:
                unavailable = error
        else:
            # Tails are packed in order, so extents can neither overlap nor leave bytes unread.
            start = used_bytes + -used_bytes % ALIGNMENT_BYTES
            used_bytes = start + extent.size_bytes
            is_packed = extent.offset == start and extent.size_bytes > 0
            if extent.source != "tail" or not is_packed or used_bytes > len(tail):
                raise ValueError(f"extent {extent} with a tail of {len(tail)} bytes")
            tensor.data = tail[start:used_bytes]
        tensor.extent = None
    if used_bytes != len(tail):
        raise ValueError(f"a tail of {len(tail)} bytes of which {used_bytes} are used")
    if unavailable is not None:
        raise unavailable
