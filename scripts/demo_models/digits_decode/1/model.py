# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""PNG bytes of an 8 x 8 grey image -> its 64 pixels as the digits model was trained on them."""

import struct
import zlib

import numpy as np
import triton_python_backend_utils as pb_utils

NONE, SUB, UP, AVERAGE = range(4)
SIDE = 8
WHITE = 255
# What scikit-learn's digits call white.
SCALE = 16


def pixels_of(png):
    """Return the pixels of an 8-bit grey PNG, UINT8[height, width]."""
    if png[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("the bytes are no PNG")
    offset, head, packed = 8, None, b""
    while offset + 8 <= len(png):
        (size,) = struct.unpack(">I", png[offset : offset + 4])
        kind, body = png[offset + 4 : offset + 8], png[offset + 8 : offset + 8 + size]
        if kind == b"IHDR":
            head = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            packed += body
        offset += size + 12
    if head is None or head[2:] != (8, 0, 0, 0, 0) or head[:2] != (SIDE, SIDE):
        raise ValueError(f"expected an 8-bit grey PNG of {SIDE} x {SIDE} pixels without interlace")
    width, height = head[:2]
    unpacked = zlib.decompressobj().decompress(packed, height * (width + 1))
    rows = np.frombuffer(unpacked, np.uint8).reshape(height, width + 1)
    above = np.zeros(width, np.uint8)
    pixels = []
    for row in rows:
        above = _unfiltered(row[0], row[1:], above)
        pixels.append(above)
    return np.stack(pixels)


def _unfiltered(kind, row, above):
    """Undo a row's filter (PNG specification, section 9); a pixel is one byte."""
    if kind == NONE:
        return row
    if kind == UP:
        return row + above
    result = np.zeros_like(row)
    left = corner = 0
    for place, value in enumerate(row.tolist()):
        up = int(above[place])
        if kind == SUB:
            guess = left
        elif kind == AVERAGE:
            guess = (left + up) // 2
        else:
            estimate = left + up - corner
            guess = min((left, up, corner), key=lambda near: abs(estimate - near))
        result[place] = left = (value + guess) % 256
        corner = up
    return result


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        blobs = pb_utils.get_input_tensor_by_name(request, "PNG").as_numpy()
        try:
            images = [pixels_of(blob).reshape(-1) for blob in blobs.reshape(-1)]
        except (ValueError, zlib.error) as error:
            refusal = pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse([], refusal)
        scaled = np.stack(images).astype(np.float32) * (SCALE / WHITE)
        return pb_utils.InferenceResponse([pb_utils.Tensor("X", scaled)])
