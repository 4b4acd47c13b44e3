# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Digests of files in stores, which are read in parts."""

from hashlib import new
from typing import Final

from cluster.repository.stores.contracts import Store, StoredFile
from deployments.model_files.contracts import ModelFile

_PART_BYTES: Final = 8 << 20


def digest_of(store: Store, file: StoredFile | ModelFile, algorithm: str = "sha256") -> str:
    """Return the hex digest of a file as it was listed.

    Raises:
        FileChangedError: It has another stamp by now, or is gone.
        UnavailableError: It cannot be read.
    """
    digest = new(algorithm, usedforsecurity=False)
    for offset in range(0, file.size_bytes, _PART_BYTES):
        length = min(_PART_BYTES, file.size_bytes - offset)
        digest.update(store.read(file.path, offset, length, file.stamp))
    return digest.hexdigest()
