# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""gRPC's message framing over DATA frames: five bytes of flag and length, then the message.

A large message is received into memory that the service provides, if it has some. Otherwise its
parts are kept as they arrive and joined once, when the last is there: memory follows what was
received, never the length a client announced. A part is a view on the read it came in, unless that
is a buffer which the next read overwrites, or the part is so small a part of it that keeping the
read would cost more than a copy. Of a message that is refused before it is complete nothing is
kept, and nothing else is lost: its length says where the next one begins.
"""

from collections.abc import Callable
from typing import Final

from deployments.grpc.rpc.inflation import INLINE_BYTES, Inflation, MessageError, check_size
from deployments.grpc.rpc.status import INTERNAL
from deployments.http2.limits import Http2Limits

PREFIX_BYTES: Final = 5
# Messages from this size on are received into the service's memory.
LARGE_MESSAGE_BYTES: Final = 64 << 10
# What is kept of a message that is refused, for whoever says whose it was.
FIRST_BYTES: Final = 1024
_COMPRESSED: Final = 1
# A view may keep a read of up to this many times its size alive.
_PIN_FACTOR: Final = 4
_MIN_VIEW_BYTES: Final = 4096


class MessageAssembler:
    """Cuts one call's body into messages.

    Args:
        limits: Bounds of message sizes.
        encoding: The request's grpc-encoding, a key of `DECOMPRESSORS`, or None.
        allocate: Returns memory for a message, given its size and its first part, or None.
    """

    __slots__ = (
        "_allocate",
        "_compressed",
        "_encoding",
        "_is_skipped",
        "_limits",
        "_need",
        "_parts",
        "_prefix",
        "_target",
        "held_bytes",
    )

    def __init__(
        self,
        limits: Http2Limits,
        encoding: bytes | None,
        allocate: Callable[[int, memoryview], memoryview | None] | None = None,
    ) -> None:
        self._limits = limits
        self._encoding = encoding
        self._allocate = allocate
        self._target: memoryview | None = None
        self._prefix = b""
        self._compressed = False
        self._is_skipped = False
        # Bytes the current message still lacks; None while its prefix is incomplete.
        self._need: int | None = None
        self._parts: list[bytes | bytearray | memoryview] = []
        self.held_bytes = 0

    @property
    def is_partial(self) -> bool:
        """Whether the body ends within a message so far."""
        return self._need is not None or bool(self._prefix)

    def feed(self, data: bytes | memoryview) -> list[bytes | memoryview | Inflation]:
        """Take a part of the body and return the messages it completes.

        A compressed message that is large is returned before it is decompressed.

        Args:
            data: The part. A view of anything but bytes may change after the call.

        Raises:
            MessageError: A message is too large or cannot be decompressed.
        """
        messages: list[bytes | memoryview | Inflation] = []
        position = 0
        size = len(data)
        while position < size:
            need = self._need
            if need is None:
                position = self._take_prefix(data, position)
                need = self._need
                if need is None:
                    break
            end = min(size, position + need)
            if end > position:
                if not self._is_skipped:
                    self._keep(data, position, end)
                need -= end - position
                self._need = need
                position = end
            if need == 0:
                if self._is_skipped:
                    self._is_skipped = False
                    self._need = None
                else:
                    messages.append(self._message())
        return messages

    def room(self, size: int) -> memoryview | None:
        """Return where to receive the next bytes of the body, or None when that does not matter.

        Args:
            size: How many there can be.
        """
        target, need = self._target, self._need
        if target is None or need is None:
            return None
        return target[self.held_bytes : self.held_bytes + min(size, need)]

    def skip(self) -> bytes:
        """Drop the incomplete message, with what still comes of it; returns its first bytes."""
        first = b""
        if self._target is not None:
            first = bytes(self._target[: min(self.held_bytes, FIRST_BYTES)])
        elif not self._compressed:
            for part in self._parts:
                first += part[: FIRST_BYTES - len(first)]
                if len(first) == FIRST_BYTES:
                    break
        self._is_skipped = True
        self._target = None
        self._parts.clear()
        self.held_bytes = 0
        return first

    def _take_prefix(self, data: bytes | memoryview, position: int) -> int:
        end = position + PREFIX_BYTES - len(self._prefix)
        self._prefix += bytes(data[position:end])
        if len(self._prefix) == PREFIX_BYTES:
            self._need = int.from_bytes(self._prefix[1:], "big")
            self._compressed = bool(self._prefix[0] & _COMPRESSED)
            self._prefix = b""
            check_size(self._need, self._limits.max_receive_message_bytes)
            if self._compressed and self._encoding is None:
                raise MessageError(INTERNAL, "Compression bit set but no encoding configured")
        return end

    def _keep(self, data: bytes | memoryview, start: int, end: int) -> None:
        part = memoryview(data)[start:end]
        size = end - start
        held = self.held_bytes
        self.held_bytes = held + size
        if not held:
            self._target = self._memory(part)
        read = part.obj
        target = self._target
        if target is not None:
            # What was received into `room` is in its place.
            if read is not target.obj:
                target[held : held + size] = part
            return
        is_kept = isinstance(read, bytes) and size * _PIN_FACTOR >= len(read)
        if size >= _MIN_VIEW_BYTES and is_kept:
            self._parts.append(part)
        elif self._parts and isinstance(self._parts[-1], bytearray):
            self._parts[-1] += part
        else:
            self._parts.append(bytearray(part))

    def _memory(self, first: memoryview) -> memoryview | None:
        need = self._need or 0
        if need < LARGE_MESSAGE_BYTES or self._compressed or self._allocate is None:
            return None
        return self._allocate(need, first)

    def _message(self) -> bytes | memoryview | Inflation:
        target, self._target = self._target, None
        self._need = None
        self.held_bytes = 0
        if target is not None:
            return target
        message = b"".join(self._parts)
        self._parts.clear()
        if self._compressed and self._encoding is not None:
            inflation = Inflation(message, self._encoding, self._limits)
            inflation.step(INLINE_BYTES)
            return inflation if inflation.message is None else inflation.message
        return message
