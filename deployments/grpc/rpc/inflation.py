# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Decompression of one request message in pieces.

A few kilobytes can expand to hundreds of megabytes. Whoever drives an `Inflation` decides where
each piece is made: what is small at once, everything else on a thread, so that other connections
go on meanwhile. A step touches nothing but its `Inflation`.
"""

import zlib
from typing import Final

from deployments.grpc.rpc.status import INTERNAL, RESOURCE_EXHAUSTED
from deployments.http2.limits import Http2Limits

# grpc-encoding -> zlib's window bits: gRPC's deflate has zlib's header.
DECOMPRESSORS: Final = {b"deflate": 15, b"gzip": 31}
# What is made at once: half a millisecond.
INLINE_BYTES: Final = 256 << 10
# What is made at a time on a thread.
PIECE_BYTES: Final = 4 << 20

# Input per call of zlib, which copies what it leaves of it.
_INPUT_BYTES: Final = 64 << 10


class MessageError(Exception):
    """A request's message cannot be taken: the call ends with a status.

    Args:
        status: The gRPC status.
        details: Its text.
    """

    def __init__(self, status: int, details: str) -> None:
        super().__init__(status, details)
        self.status = status
        self.details = details


def check_size(size: int, max_bytes: int) -> None:
    """Check the announced size of a message.

    Raises:
        MessageError: It is over the limit; the text is grpcio's.
    """
    if size > max_bytes:
        raise MessageError(
            RESOURCE_EXHAUSTED, f"SERVER: Received message larger than max ({size} vs. {max_bytes})"
        )


class Inflation:
    """A compressed message and what has been made of it.

    Args:
        message: The compressed message.
        encoding: A key of `DECOMPRESSORS`.
        limits: Bounds of size and ratio.

    Attributes:
        message: The decompressed message; None until `step` has made its last piece.
        held_bytes: Size of the compressed message and of what has been made.
    """

    __slots__ = ("_limits", "_parts", "_position", "_size", "_stream", "_view", "message")

    def __init__(self, message: bytes, encoding: bytes, limits: Http2Limits) -> None:
        self._view = memoryview(message)
        self._stream = zlib.decompressobj(DECOMPRESSORS[encoding])
        self._limits = limits
        self._position = 0
        self._parts: list[bytes] = []
        self._size = 0
        self.message: bytes | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes of memory, about."""
        return len(self._view) + self._size

    @property
    def first(self) -> bytes:
        """The first piece that was made; empty while there is none."""
        return self._parts[0] if self._parts else b""

    def step(self, max_bytes: int) -> None:
        """Make a piece of at most ``max_bytes``, or the rest.

        Raises:
            MessageError: It is no such stream, is cut short, or grows over a limit.
        """
        limits = self._limits
        most = min(limits.max_receive_message_bytes, limits.max_decompressed_message_bytes)
        end = min(self._size + max_bytes, most + 1)
        stream = self._stream
        while self._size < end and not stream.eof:
            chunk = self._view[self._position : self._position + _INPUT_BYTES]
            try:
                part = stream.decompress(chunk, end - self._size)
            except zlib.error:
                raise MessageError(INTERNAL, "Decompression failed due to zlib error") from None
            self._position += len(chunk) - len(stream.unconsumed_tail)
            if not part and not chunk:
                raise _unfinished()
            self._parts.append(part)
            self._size += len(part)
        check_size(self._size, most)
        self._check_ratio()
        if stream.eof:
            if stream.unused_data or self._position < len(self._view):
                raise _unfinished()
            self.message = b"".join(self._parts)
            self._parts.clear()

    def _check_ratio(self) -> None:
        limits = self._limits
        if self._size <= limits.free_decompressed_bytes:
            return
        most = limits.max_decompression_ratio * len(self._view)
        if self._size > most:
            raise MessageError(
                RESOURCE_EXHAUSTED,
                f"Compressed message of {len(self._view)} bytes grows to over"
                f" {limits.max_decompression_ratio} times its size, which only messages of up to"
                f" {limits.free_decompressed_bytes} bytes may; send it without compression",
            )


def _unfinished() -> MessageError:
    return MessageError(INTERNAL, "Decompression failed: incomplete or trailing data")
