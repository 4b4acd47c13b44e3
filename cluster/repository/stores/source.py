# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A model's location in a store as what a node downloads from."""

from cluster.repository.stores.contracts import Store
from cluster.repository.stores.opening import open_store
from deployments.model_files.contracts import ModelFile, Write


class StoreSource:
    """Implements `FileSource` and `StreamingSource` of `deployments.model_files.contracts`.

    Args:
        store: The model's directory.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, file: ModelFile, offset_bytes: int, length_bytes: int) -> bytes:
        """See `FileSource.read`."""
        return self._store.read(file.path, offset_bytes, length_bytes, file.stamp)

    def stream(self, file: ModelFile, offset_bytes: int, length_bytes: int, write: Write) -> int:
        """See `StreamingSource.stream`."""
        return self._store.stream(file.path, offset_bytes, length_bytes, file.stamp, write)


def open_source(location: str) -> StoreSource:
    """Open a model's location; imports the library of its store.

    Raises:
        TritonError: The location is none, or its library is missing.
    """
    return StoreSource(open_store(location))
