# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The file system of a repository's location."""

from backends.api.errors import UnsupportedError
from cluster.repository.filesystem import FileSystem
from cluster.repository.stores.local import LocalFileSystem
from cluster.repository.stores.location import absolute, parse_location


def open_filesystem(location: str) -> tuple[FileSystem, str]:
    """Return the file system of a repository location, and the path in it.

    Raises:
        UnsupportedError: No file system is known for the location's scheme.
    """
    at = parse_location(location)
    if not at.is_local:
        raise UnsupportedError(f"model repository '{at}': not a local directory")
    return LocalFileSystem(), absolute(at).path
