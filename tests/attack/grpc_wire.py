# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""gRPC calls as bytes, and how they ended."""

from dataclasses import dataclass
from typing import Final

import hpack

from deployments.http2 import frames

_RESET: Final = -1


@dataclass(frozen=True)
class EndedCall:
    """How a call ended: its gRPC code, -1 for a stream that was reset, and the code's text."""

    code: int
    text: str = ""


def ended_calls(received: bytes | bytearray) -> dict[int, EndedCall]:
    """Return the calls that a server's bytes end, by stream; further bytes may be missing."""
    decoder = hpack.Decoder()
    found: dict[int, EndedCall] = {}
    at = 0
    while at + frames.HEADER_BYTES <= len(received):
        word, flags, stream_id = frames.HEADER.unpack_from(received, at)
        begin = at + frames.HEADER_BYTES
        at = begin + (word >> 8)
        if at > len(received):
            break
        kind = word & 0xFF
        if kind == frames.HEADERS:
            headers = dict(decoder.decode(bytes(received[begin:at]), raw=True))
            if flags & frames.END_STREAM and stream_id not in found:
                code = int(headers.get(b"grpc-status", b"2"))
                text = headers.get(b"grpc-message", b"").decode("utf-8", "replace")
                found[stream_id] = EndedCall(code, text)
        elif kind == frames.RST_STREAM:
            found.setdefault(stream_id, EndedCall(_RESET))
        elif kind == frames.GOAWAY and int.from_bytes(received[begin + 4 : begin + 8], "big"):
            found.setdefault(0, EndedCall(_RESET))
    return found
