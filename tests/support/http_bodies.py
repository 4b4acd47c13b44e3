# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests with large and with chunked bodies."""

from tests.support.http_plane import (
    binary_request,
    request,
)

INFER = "/v2/models/simple/infer"
LIVE = request("GET", "/v2/health/live")
LARGE = 300_000


def chunked(body: bytes, chunk_bytes: int) -> bytes:
    pieces = [body[i : i + chunk_bytes] for i in range(0, len(body), chunk_bytes)]
    coded = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return request("POST", INFER, headers=("Transfer-Encoding: chunked",)) + coded + b"0\r\n\r\n"


def large_request(count: int = LARGE // 4, extra: tuple[str, ...] = ()) -> tuple[bytes, bytes]:
    tensor = bytes(range(256)) * (count * 4 // 256 + 1)
    tensor = tensor[: count * 4]
    header = {
        "inputs": [
            {
                "name": "INPUT0",
                "datatype": "FP32",
                "shape": [1, count],
                "parameters": {"binary_data_size": len(tensor)},
            }
        ],
        "parameters": {"binary_data_output": True},
    }
    return binary_request("/v2/models/id_fp32/infer", header, tensor, extra=extra), tensor
