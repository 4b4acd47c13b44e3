# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The frames of a lane: a fixed prefix, one message and an optional tail. Pure bytes in and out.

Prefix, little endian, 20 bytes::

    u8 kind | u8 flags | u16 of padding | u32 request id | u32 message bytes | u64 tail bytes

The message of INFER and RESPONSE is a msgpack array that msgspec reads without copying tensor
bytes; large tensors lie in the tail or in a slab, and FLAG_EXTENTS says that there are some.
"""

import struct
from typing import Final, final

from backends.api.request import EMPTY

PREFIX: Final = struct.Struct("<BBxxIIQ")
PREFIX_BYTES: Final = PREFIX.size

# Plain ints: comparing with an enum member costs an attribute look-up per frame.
SETUP: Final = 1
INFER: Final = 2
RESPONSE: Final = 3
ERROR: Final = 4
CANCEL: Final = 5
CALL: Final = 6
CALL_RESULT: Final = 7
CALL_ERROR: Final = 8
SLAB: Final = 9
SLAB_GONE: Final = 10
NO_SLABS: Final = 11
RELEASE: Final = 12
GOAWAY: Final = 13
TRACE: Final = 14
CREDIT: Final = 15
PING: Final = 16
PONG: Final = 17
# Of pools: `deployments.lane.batches` has their messages.
ADOPT: Final = 18
ADOPTED: Final = 19
BATCH: Final = 20
DONE: Final = 21
FORGET: Final = 22
BOUNCE: Final = 23
ASK: Final = 24
GRANTED: Final = 25
DECLINE: Final = 26
HOLDER: Final = 27
# Between a router and the holder of a pool's queue: `deployments.pool_queue.messages`.
TICKET: Final = 28
WITHDRAW: Final = 29
GRANT: Final = 30
LOAD: Final = 31
LEASE: Final = 32
LEASE_END: Final = 33
SEQUENCE: Final = 34
LAST_KIND: Final = SEQUENCE

FLAG_FINAL: Final = 1
FLAG_EXTENTS: Final = 2
_KNOWN_FLAGS: Final = FLAG_FINAL | FLAG_EXTENTS

# A message holds headers and small tensors, so anything near this is a mistake; gRPC's own limit
# for a whole request is 2 GiB.
MAX_MESSAGE_BYTES: Final = 64 << 20
MAX_TAIL_BYTES: Final = 8 << 30


class FrameError(Exception):
    """The peer sent bytes that no correct peer sends; the lane must close."""


@final
class Frame:
    """One frame.

    Attributes:
        kind: One of the constants above.
        flags: FLAG_FINAL | FLAG_EXTENTS.
        request_id: The request, call or slab that the frame is about.
        message: The message, a view into the received bytes.
        tail: The tail, a view too.
    """

    __slots__ = ("flags", "kind", "message", "request_id", "tail")

    def __init__(
        self, kind: int, flags: int, request_id: int, message: memoryview, tail: memoryview
    ) -> None:
        self.kind = kind
        self.flags = flags
        self.request_id = request_id
        self.message = message
        self.tail = tail


class FrameReader:
    """Cuts a stream of bytes into frames, whatever pieces it arrives in.

    Frames that lie whole in one piece are views into it. Only a frame cut by the end of a piece
    is copied, once, into buffers that grow with what arrived, never with what was announced.
    """

    __slots__ = ("_fields", "_head", "_head_bytes", "_max_message", "_max_tail", "_tail")

    def __init__(
        self,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_tail_bytes: int = MAX_TAIL_BYTES,
    ) -> None:
        self._max_message = max_message_bytes
        self._max_tail = max_tail_bytes
        self._reset()

    def _reset(self) -> None:
        self._head = bytearray()
        self._head_bytes = PREFIX_BYTES
        self._tail = bytearray()
        self._fields: tuple[int, int, int, int, int] | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next piece of the stream.

        Args:
            data: The piece; the frames keep it alive, so it must not change.

        Returns:
            The frames that are complete now, in order.

        Raises:
            FrameError: A prefix is out of bounds; the reader must not be fed again.
        """
        frames: list[Frame] = []
        view = memoryview(data)
        end = len(data)
        offset = self._accumulate(view, frames) if self._head else 0
        unpack_from, check = PREFIX.unpack_from, self._check
        while end - offset >= PREFIX_BYTES:
            kind, flags, request_id, message_bytes, tail_bytes = unpack_from(data, offset)
            check(kind, flags, message_bytes, tail_bytes)
            start = offset + PREFIX_BYTES
            stop = start + message_bytes
            after = stop + tail_bytes
            if after > end:
                break
            tail = view[stop:after] if tail_bytes else EMPTY
            frames.append(Frame(kind, flags, request_id, view[start:stop], tail))
            offset = after
        if offset < end:
            self._accumulate(view[offset:], frames)
        return frames

    def _accumulate(self, view: memoryview, frames: list[Frame]) -> int:
        """Add to the frame that is incomplete; returns how many bytes of ``view`` it took."""
        taken = 0
        if self._fields is None:
            taken = self._fill(self._head, PREFIX_BYTES, view)
            if len(self._head) < PREFIX_BYTES:
                return taken
            fields = PREFIX.unpack_from(self._head)
            kind, flags, _, message_bytes, tail_bytes = fields
            self._check(kind, flags, message_bytes, tail_bytes)
            self._fields = fields
            self._head_bytes = PREFIX_BYTES + message_bytes
        kind, flags, request_id, _, tail_bytes = self._fields
        taken += self._fill(self._head, self._head_bytes, view[taken:])
        # A buffer of its own keeps the tail as aligned as malloc makes it.
        taken += self._fill(self._tail, tail_bytes, view[taken:])
        if len(self._head) == self._head_bytes and len(self._tail) == tail_bytes:
            message = memoryview(self._head).toreadonly()[PREFIX_BYTES:]
            tail = memoryview(self._tail).toreadonly() if tail_bytes else EMPTY
            frames.append(Frame(kind, flags, request_id, message, tail))
            self._reset()
        return taken

    @staticmethod
    def _fill(buffer: bytearray, full_bytes: int, view: memoryview) -> int:
        missing = full_bytes - len(buffer)
        if not missing or not view:
            return 0
        piece = view[:missing]
        buffer += piece
        return len(piece)

    def _check(self, kind: int, flags: int, message_bytes: int, tail_bytes: int) -> None:
        if (
            not 0 < kind <= LAST_KIND
            or flags & ~_KNOWN_FLAGS
            or message_bytes > self._max_message
            or tail_bytes > self._max_tail
        ):
            raise FrameError(
                f"frame of kind {kind}, flags {flags:#x}, {message_bytes} message bytes and "
                f"{tail_bytes} tail bytes; expected kind 1..{LAST_KIND}, flags within "
                f"{_KNOWN_FLAGS:#x}, at most {self._max_message} and {self._max_tail} bytes"
            )
