# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files of stores in parts: a model's location as what a node downloads from, and digests."""

from collections.abc import Iterator
from hashlib import new
from typing import Final

from cluster.repository.stores.contracts import Store, StoredFile
from cluster.repository.stores.opening import open_store
from deployments.model_files.contracts import ModelFile, Write

_PART_BYTES: Final = 8 << 20


class StoreSource:
    """Implements `FileSource` and `StreamingSource` of `deployments.model_files.contracts`."""

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


def parts_of(store: Store, file: StoredFile | ModelFile) -> Iterator[bytes]:
    """Read a file as it was listed, in parts.

    Raises:
        FileChangedError: It has another stamp by now, or is gone.
        UnavailableError: It cannot be read.
    """
    for offset in range(0, file.size_bytes, _PART_BYTES):
        length = min(_PART_BYTES, file.size_bytes - offset)
        yield store.read(file.path, offset, length, file.stamp)


def digest_of(store: Store, file: StoredFile | ModelFile, algorithm: str = "sha256") -> str:
    """Return the hex digest of a file as it was listed; raises as `parts_of`."""
    digest = new(algorithm, usedforsecurity=False)
    for part in parts_of(store, file):
        digest.update(part)
    return digest.hexdigest()
