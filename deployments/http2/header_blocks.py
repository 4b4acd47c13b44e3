# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Header blocks: decoding with a cache of whole blocks, and encoding without state.

A gRPC client repeats its headers: once HPACK's dynamic table holds them, the blocks of all calls
of a method are the same few bytes. A block that does not touch the table means the same as long
as the table is unchanged, so decoding it again is one dictionary look-up (1 us instead of 30).
"""

import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from hpack import Decoder
from hpack.exceptions import HPACKError, OversizedHeaderListError
from hpack.table import HeaderTable

from deployments.http2.errors import ConnectionViolation, ErrorCode
from deployments.http2.limits import Http2Limits

# hpack logs every header, keys included, at DEBUG.
logging.getLogger("hpack").setLevel(logging.INFO)

Head = TypeVar("Head")
HeaderList = list[tuple[bytes, bytes]]

# What an entry counts beyond its octets (RFC 9113 section 6.5.2).
ENTRY_OVERHEAD_BYTES: Final = 32
# Over the announced list size by this factor the block is not even decoded to its end.
_DECODE_FACTOR: Final = 4
# hpack copies the rest of the block for each literal; this keeps the worst block at 5 ms.
_BLOCK_FACTOR: Final = 2
# Larger blocks are not worth the memory they could hold.
_MAX_CACHED_BLOCK_BYTES: Final = 1024
_MAX_CACHED_LIST_BYTES: Final = 4096

_SEVEN_BITS: Final = 0x7F


class _CountingTable(HeaderTable):
    """A dynamic table that counts its changes."""

    changes = 0

    def add(self, name: bytes, value: bytes) -> None:
        self.changes += 1
        super().add(name, value)

    @property
    def maxsize(self) -> int:
        return self._maxsize

    @maxsize.setter
    def maxsize(self, newmax: int) -> None:
        self.changes += 1
        HeaderTable.maxsize.fset(self, newmax)  # type: ignore[attr-defined]


def list_bytes(headers: HeaderList) -> int:
    """Return the size of a header list as SETTINGS_MAX_HEADER_LIST_SIZE counts it."""
    return sum(len(name) + len(value) + ENTRY_OVERHEAD_BYTES for name, value in headers)


class BlockDecoder(Generic[Head]):
    """The receiving half of HPACK on one connection.

    Args:
        limits: Bounds of lists and of the cache.
        parse: Turns a decoded list into what the layer above wants; its results are cached too, so
            they have to be immutable. May raise `MalformedRequestError`.
    """

    __slots__ = ("_cache", "_changes", "_decoder", "_limits", "_parse", "_table", "max_block_bytes")

    def __init__(self, limits: Http2Limits, parse: Callable[[HeaderList], Head]) -> None:
        self._limits = limits
        self._parse = parse
        self._table = _CountingTable()
        self._decoder = Decoder(_DECODE_FACTOR * limits.max_header_list_bytes)
        self._decoder.header_table = self._table
        self._cache: dict[bytes, Head] = {}
        self._changes = 0
        self.max_block_bytes = _BLOCK_FACTOR * limits.max_header_list_bytes

    def decode(self, block: bytes) -> Head:
        """Return the parsed headers of a complete block.

        Raises:
            ConnectionViolation: The block is no HPACK or far over the limit: the table is lost.
            MalformedRequestError: From ``parse``; the connection can go on.
        """
        head = self._cache.get(block)
        return self._decode(block) if head is None else head

    def _decode(self, block: bytes) -> Head:
        before = self._table.changes
        try:
            headers: HeaderList = list(self._decoder.decode(block, raw=True))
        except OversizedHeaderListError:
            raise ConnectionViolation(
                ErrorCode.ENHANCE_YOUR_CALM,
                f"header list over {_DECODE_FACTOR} times the limit of"
                f" {self._limits.max_header_list_bytes} bytes",
            ) from None
        except HPACKError as error:
            # Its text quotes the block, which may hold a key that must not get into a log.
            raise ConnectionViolation(
                ErrorCode.COMPRESSION_ERROR, f"invalid header block: {type(error).__name__}"
            ) from None
        changes = self._table.changes
        if changes != self._changes:
            self._cache.clear()
            self._changes = changes
        head = self._parse(headers)
        if (
            changes == before
            and len(block) <= _MAX_CACHED_BLOCK_BYTES
            and list_bytes(headers) <= _MAX_CACHED_LIST_BYTES
        ):
            if len(self._cache) >= self._limits.max_cached_blocks:
                self._cache.clear()
            self._cache[block] = head
        return head


def encode_block(headers: HeaderList, *, status: int | None = None) -> bytes:
    """Encode a block of literals that no table remembers, so it can be reused everywhere.

    Args:
        headers: Names in lower case.
        status: The ``:status``, for a block that starts a response.
    """
    parts = [b""]
    if status == 200:  # noqa: PLR2004 - index 8 of the static table
        parts.append(b"\x88")
    elif status is not None:
        parts.append(b"\x08" + _string(str(status).encode()))
    parts += [b"\x00" + _string(name) + _string(value) for name, value in headers]
    return b"".join(parts)


def _string(text: bytes) -> bytes:
    size = len(text)
    if size < _SEVEN_BITS:
        return bytes((size,)) + text
    prefix = bytearray((_SEVEN_BITS,))
    size -= _SEVEN_BITS
    while size > _SEVEN_BITS:
        prefix.append(size & _SEVEN_BITS | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + text
