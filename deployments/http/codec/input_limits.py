# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What ``--http-max-input-size`` refuses, in Triton's words.

Triton: server/src/http_server.cc EVBufferToJson, EVRequestToTritonRawRequest @e1db8a6
"""

from typing import Final

DEFAULT_MAX_INPUT_BYTES: Final = 1 << 26
LIMIT_HINT: Final = "Use --http-max-input-size to increase the limit."


def json_too_large(size_bytes: int, max_bytes: int) -> str:
    """Return the refusal of a JSON part over the limit."""
    return (
        f"request JSON size of {size_bytes} bytes exceeds the maximum allowed input size of "
        f"{max_bytes} bytes. {LIMIT_HINT}"
    )


def raw_too_large(size_bytes: int, max_bytes: int) -> str:
    """Return the refusal of a raw binary body over the limit."""
    return (
        f"Raw input has a byte_size ({size_bytes} bytes) that exceeds the maximum allowed value "
        f"of {max_bytes} bytes. {LIMIT_HINT}"
    )
