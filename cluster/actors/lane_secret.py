# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The key of the lanes in the cluster's store, for processes that Ray starts.

It is in no argument of an actor: those Ray keeps, and shows to whoever reads its tables.
"""

from typing import Final

from backends.api.errors import UnavailableError
from cluster.actors.file_registry import Rows

LANE_SECRET_KEY: Final = b"controller/secret"


def kept_lane_secret(rows: Rows | None = None) -> bytes:
    """Return the key; blocks.

    Raises:
        UnavailableError: The store does not have it: the server that made it has ended.
    """
    secret = (rows or Rows()).get(LANE_SECRET_KEY)
    if secret is None:
        raise UnavailableError(
            "the key of the lanes is not in the cluster's store any more: the server that this "
            "process belongs to has ended; start it again"
        )
    return secret
