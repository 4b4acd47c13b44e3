# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Compression of request and response bodies: gzip and deflate (a zlib stream).

Triton: server/src/data_compressor.h, server/src/http_server.cc @e1db8a6
"""

import re
import zlib
from collections.abc import Iterable
from typing import Final

from backends.api.errors import InvalidArgumentError, UnsupportedError

# zlib's window bits; 16 more mean a gzip stream, 32 more that zlib finds out which it is.
_WINDOW_BITS: Final = {b"gzip": 31, b"deflate": 15}
_ANY_WINDOW_BITS: Final = 47
_IDENTITY: Final = b"identity"
_NUMBER = re.compile(rb"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

# The fastest level: the ingress's loop waits, and clients that ask for compression by habit are
# mostly on the same network.
_LEVEL: Final = 1


# What becomes no larger than this is done on the event loop: a thread would cost more.
SMALL_BYTES: Final = 1 << 18
# The most that deflate makes of one byte.
_LARGEST_RATIO: Final = 1032


def decompress_small(encoding: bytes, body: memoryview, max_bytes: int) -> memoryview | None:
    """Undo a request's Content-Encoding, or return None: body or result exceed `SMALL_BYTES`.

    Raises:
        TritonError: As `decompress`.
    """
    if encoding not in _WINDOW_BITS or max_bytes <= SMALL_BYTES:
        return decompress(encoding, body, max_bytes)
    if body.nbytes > SMALL_BYTES:
        return None
    try:
        return decompress(encoding, body, SMALL_BYTES)
    except _TooLargeError:
        return None


def largest_result(body_bytes: int, max_bytes: int) -> int:
    """Return the most bytes that a compressed body can become."""
    return min(body_bytes * _LARGEST_RATIO, max_bytes)


class _TooLargeError(InvalidArgumentError):
    """The result exceeds the limit."""


def decompress(encoding: bytes, body: memoryview, max_bytes: int) -> memoryview:
    """Undo a request's Content-Encoding.

    Args:
        encoding: The header's value; empty when there is none.
        body: The body as received.
        max_bytes: Most bytes it may grow to.

    Raises:
        UnsupportedError: The encoding is neither gzip, deflate nor identity.
        InvalidArgumentError: The body is empty, damaged or grows too large.
    """
    if not encoding or encoding == _IDENTITY:
        return body
    if encoding not in _WINDOW_BITS:
        raise UnsupportedError("Unsupported compression type")
    if not body.nbytes:
        raise InvalidArgumentError("nothing to be decompressed")
    stream = zlib.decompressobj(_ANY_WINDOW_BITS)
    try:
        plain = stream.decompress(body, max_bytes + 1)
    except zlib.error:
        raise _inconsistent() from None
    if len(plain) > max_bytes:
        raise _TooLargeError(
            f"Decompressed data size exceeds the maximum allowed value of {max_bytes} bytes. Use "
            f"--http-max-input-size to increase the limit."
        )
    if not stream.eof:
        raise _inconsistent()
    return memoryview(plain)


def _inconsistent() -> InvalidArgumentError:
    return InvalidArgumentError("encountered inconsistent stream state during decompression")


def choose(accept_encoding: bytes) -> bytes:
    """Return the encoding a response shall have: ``gzip``, ``deflate`` or empty for none.

    The highest q-value wins, and of equal ones the first. As in Triton, names are compared as they
    are, with what stands before ``;q=``, and ``*`` means nothing.
    """
    best, best_quality = b"", 0.0
    for item in accept_encoding.split(b","):
        name, _, quality_text = item.lstrip(b" ").partition(b";q=")
        if name != _IDENTITY and name not in _WINDOW_BITS:
            continue
        quality = _leading_number(quality_text) if quality_text or name != item.lstrip(b" ") else 1
        if quality > best_quality:
            best, best_quality = name, quality
    return b"" if best == _IDENTITY else best


def _leading_number(text: bytes) -> float:
    """Return the number a text begins with; 0 without one."""
    found = _NUMBER.match(text)
    return float(found[0]) if found else 0.0


def compress(encoding: bytes, parts: Iterable[bytes | memoryview]) -> list[bytes]:
    """Return the parts as one compressed stream of ``gzip`` or ``deflate``."""
    stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS[encoding])
    compressed = [stream.compress(part) for part in parts]
    compressed.append(stream.flush())
    return [part for part in compressed if part]
