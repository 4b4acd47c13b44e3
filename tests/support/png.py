# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes small grey PNGs, so that tests need no imaging library."""

import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def _nearest(estimate: int, values: tuple[int, ...]) -> int:
    return min(values, key=lambda near: abs(estimate - near))


def png_of(pixels: npt.NDArray[np.uint8], filters: Sequence[int]) -> bytes:
    """Encode UINT8[n, n] with the given filter for each row."""
    side = len(pixels)
    rows, above = b"", np.zeros(side, np.int64)
    for kind, row in zip(filters, pixels.astype(np.int64), strict=True):
        left, corner = np.r_[0, row[:-1]], np.r_[0, above[:-1]]
        paeth = []
        for a, b, c in zip(left, above, corner, strict=True):
            paeth.append(_nearest(int(a + b - c), (int(a), int(b), int(c))))
        guesses = (0 * row, left, above, (left + above) // 2, np.array(paeth))
        rows += bytes([kind]) + ((row - guesses[kind]) % 256).astype(np.uint8).tobytes()
        above = row

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        chunk(*each) for each in ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    )
