# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which APIs need a secret header.

Triton: server/src/restricted_features.h @e1db8a6
"""

import hmac
from collections.abc import Iterable
from typing import Final

# Of the metadata's key, before what --grpc-restricted-protocol names.
RESTRICTED_PREFIX: Final = "triton-grpc-protocol-"

# As the options give them: APIs, header and value.
Restrictions = Iterable[tuple[tuple[str, ...], str, str]]


class RestrictedRoutes:
    """Which header an API asks for.

    Args:
        restrictions: As the options give them.
    """

    __slots__ = ("_needs",)

    def __init__(self, restrictions: Restrictions) -> None:
        self._needs = {api: (header, value) for apis, header, value in restrictions for api in apis}

    def __bool__(self) -> bool:
        return bool(self._needs)

    def missing(self, category: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return the header a request lacks, or nothing when it may pass."""
        need = self._needs.get(category)
        if need is None:
            return ""
        name, value = need
        wanted, given = name.lower().encode(), value.encode()
        is_shown = any(
            key.lower() == wanted and hmac.compare_digest(text, given) for key, text in headers
        )
        return "" if is_shown else name
