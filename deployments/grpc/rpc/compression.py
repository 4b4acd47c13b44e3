# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Compression of response messages, as a client accepts it.

Which algorithm a level means depends on what the client takes, as in gRPC's core:
src/core/lib/compression/compression_internal.cc of grpc/grpc. There the effort is always zlib's
default; here it follows the level.
"""

import zlib
from collections.abc import Iterable
from typing import Final

from deployments.grpc.rpc.status import response_headers
from deployments.http2.frames import Buffer

# zlib's effort by level.
_EFFORT: Final = {"low": 1, "medium": 6, "high": 9}
LEVELS: Final = tuple(_EFFORT)
# In the order that gRPC ranks them in, with zlib's window bits: gRPC's deflate has zlib's header.
_WINDOW_BITS: Final = {b"gzip": 31, b"deflate": 15}


class MessageCoding:
    """One way to compress the messages of a response.

    Args:
        name: The grpc-encoding.
        effort: zlib's level.

    Attributes:
        response_headers: The header block a response with it begins with.
    """

    __slots__ = ("_effort", "_window_bits", "response_headers")

    def __init__(self, name: bytes, effort: int) -> None:
        self._window_bits = _WINDOW_BITS[name]
        self._effort = effort
        self.response_headers = response_headers(name)

    def encode(self, parts: Iterable[Buffer], size: int) -> list[bytes] | None:
        """Compress a message.

        Args:
            parts: Its buffers.
            size: Their total size in bytes.

        Returns:
            The compressed message's parts, or None when it is not smaller.
        """
        stream = zlib.compressobj(self._effort, zlib.DEFLATED, self._window_bits)
        coded = [stream.compress(part) for part in parts]
        coded.append(stream.flush())
        return coded if sum(map(len, coded)) < size else None


class ResponseCompression:
    """What of a server's responses is compressed, and how hard.

    Args:
        level: ``low``, ``medium`` or ``high``.
        paths: The methods whose responses are compressed.
    """

    __slots__ = ("_codings", "_level", "_paths")

    def __init__(self, level: str, paths: frozenset[bytes]) -> None:
        self._level = level
        self._paths = paths
        self._codings = {name: MessageCoding(name, _EFFORT[level]) for name in _WINDOW_BITS}

    def choose(self, path: bytes, accept_encoding: bytes) -> MessageCoding | None:
        """Return how to compress the responses of a call, or None.

        Args:
            path: Its method.
            accept_encoding: The client's grpc-accept-encoding.
        """
        if path not in self._paths:
            return None
        accepted = {name.strip() for name in accept_encoding.split(b",")}
        usable = [coding for name, coding in self._codings.items() if name in accepted]
        if not usable:
            return None
        last = len(usable) - 1
        return usable[{"low": 0, "medium": len(usable) // 2, "high": last}[self._level]]
