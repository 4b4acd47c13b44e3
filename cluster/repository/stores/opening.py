# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Opens the store of a location."""

from cluster.repository.filesystem import open_filesystem
from cluster.repository.stores.contracts import Store
from cluster.repository.stores.local import LocalStore


def open_store(location: str) -> Store:
    """Open a location's store; nothing is asked of it yet.

    Args:
        location: As the command line names it.

    Raises:
        TritonError: The location is none, or its scheme is unknown.
    """
    return LocalStore(open_filesystem(location)[1])
