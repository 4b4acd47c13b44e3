# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""gRPC statuses as header blocks."""

import math
from typing import Final

from deployments.http2.header_blocks import encode_block

OK: Final = 0
CANCELLED: Final = 1
DEADLINE_EXCEEDED: Final = 4
RESOURCE_EXHAUSTED: Final = 8
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13

# Clients take header lists of 8 KiB at least; a longer text would cost them the status itself.
_MAX_DETAILS_BYTES: Final = 6000
_PLAIN: Final = frozenset(range(0x20, 0x7F)) - {ord("%")}

_CONTENT_TYPE: Final = (b"content-type", b"application/grpc")
_ACCEPT_ENCODING: Final = (b"grpc-accept-encoding", b"identity,deflate,gzip")


def response_headers(encoding: bytes) -> bytes:
    """Return the block that begins a response whose messages may be compressed."""
    coding = (b"grpc-encoding", encoding)
    return encode_block([_CONTENT_TYPE, coding, _ACCEPT_ENCODING], status=200)


RESPONSE_HEADERS: Final = encode_block([_CONTENT_TYPE, _ACCEPT_ENCODING], status=200)
TRAILERS_OK: Final = encode_block([(b"grpc-status", b"0")])


def percent_encoded(details: str) -> bytes:
    """Encode a grpc-message: UTF-8, with everything but printable ASCII as %XX.

    Cut, between characters, where it would get too long for a client's header list.
    """
    out = bytearray()
    for character in details:
        octets = character.encode("utf-8", "replace")
        if len(octets) == 1 and octets[0] in _PLAIN:
            encoded = octets
        else:
            encoded = b"".join(b"%%%02X" % octet for octet in octets)
        if len(out) + len(encoded) > _MAX_DETAILS_BYTES:
            break
        out += encoded
    return bytes(out)


def _status(status: int, details: str, retry_s: float) -> list[tuple[bytes, bytes]]:
    headers = [(b"grpc-status", b"%d" % status)]
    if details:
        headers.append((b"grpc-message", percent_encoded(details)))
    if retry_s:
        # gRPC's retry design (A6): clients that retry wait so long.
        headers.append((b"grpc-retry-pushback-ms", b"%d" % math.ceil(retry_s * 1000)))
    return headers


def trailers(status: int, details: str, retry_s: float = 0.0) -> bytes:
    """Return the block that ends a response with messages.

    Args:
        status: Number of the gRPC status.
        details: What the client is told.
        retry_s: After how many seconds trying again is worth while; 0.0 says nothing.
    """
    if status == OK and not details:
        return TRAILERS_OK
    return encode_block(_status(status, details, retry_s))


def trailers_only(status: int, details: str, retry_s: float = 0.0) -> bytes:
    """Return the block that is a whole response; see `trailers`."""
    rows = _status(status, details, retry_s)
    return encode_block([_CONTENT_TYPE, _ACCEPT_ENCODING, *rows], status=200)
