# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Headers and metadata that an operator lets through to models as request parameters.

Triton: server/src/http_server.cc, grpc/grpc_utils.cc, common.cc @e1db8a6
"""

import re
from collections.abc import Iterable
from typing import Final

from backends.api.errors import InvalidArgumentError

_RESERVED: Final = frozenset(
    (
        "sequence_id",
        "sequence_start",
        "sequence_end",
        "priority",
        "timeout",
        "headers",
        "binary_data_output",
    )
)
_RESERVED_PREFIX: Final = "triton_"


# Never forwarded where an access policy makes callers of them.
CREDENTIALS: Final = frozenset(
    (b"authorization", b"proxy-authorization", b"cookie", b"x-api-key", b"api-key")
)


def forwarded_headers(
    pattern: re.Pattern[bytes],
    metadata: Iterable[tuple[bytes, bytes]],
    hidden: frozenset[bytes] = frozenset(),
) -> dict[str, str]:
    """Return the metadata whose names the pattern matches anywhere.

    Args:
        pattern: Of names.
        metadata: Names and values.
        hidden: Names in lower case that are never forwarded.

    Raises:
        InvalidArgumentError: A matching name is one of Triton's own parameters.
    """
    forwarded = {}
    for raw_name, value in metadata:
        if not pattern.search(raw_name) or raw_name.lower() in hidden:
            continue
        name = raw_name.decode("utf-8", "replace")
        if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIX):
            raise InvalidArgumentError(
                f"Header '{name}' is reserved for Triton usage and cannot be forwarded."
            )
        forwarded[name] = value.decode("utf-8", "replace")
    return forwarded
