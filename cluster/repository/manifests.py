# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a version of a model in a store is loaded from, with the digests its manifest tells."""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import msgpack

from backends.api.errors import InternalError
from cluster.repository.manifest import MANIFEST_FILE
from cluster.repository.remote import RemoteModel
from cluster.repository.stores.contracts import StoredFile
from deployments.model_files.contracts import FileChangedError, ModelFile, ModelFiles

_MAX_MANIFEST_BYTES: Final = 64 << 20
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class PackedFiles(Mapping[int, ModelFiles]):
    """Files by version, kept small: thousands of loaded models have a hundred files each.

    Args:
        files: Them.
    """

    def __init__(self, files: Mapping[int, ModelFiles]) -> None:
        self._packed = {
            version: zlib.compress(msgpack.encode(each), 1) for version, each in files.items()
        }

    def __getitem__(self, version: int) -> ModelFiles:
        return msgpack.decode(zlib.decompress(self._packed[version]), type=ModelFiles)

    def __iter__(self) -> Iterator[int]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


def version_files(model: RemoteModel, location: str, version: int) -> ModelFiles:
    """Name the files of a version: those of its directory, and those that all versions share.

    Raises:
        FileChangedError: The manifest is not the one that was listed, or tells of other files.
        InternalError: The manifest cannot be read.
    """
    own = f"{version}/"
    digests = _read_manifest(model, location, own)
    return ModelFiles(
        location,
        tuple(
            ModelFile(path, file.size_bytes, file.stamp, digests.get(path) or file.sha256)
            for path, file in sorted(model.files.items())
            if not path.endswith("/") and (path.startswith(own) or not _is_of_a_version(path))
        ),
    )


def _is_of_a_version(path: str) -> bool:
    top, slash, _ = path.partition("/")
    return bool(slash) and top.isascii() and top.isdigit()


def _read_manifest(model: RemoteModel, location: str, own: str) -> dict[str, str]:
    """Return digests by path; none without a manifest."""
    place = f"{location}/{own}{MANIFEST_FILE}"
    if f"{own}{MANIFEST_FILE}" not in model.files:
        return {}
    try:
        rows = json.loads(model.read_bytes(place, _MAX_MANIFEST_BYTES))["files"]
        told = {
            f"{own}{path}": (row["sha256"], row.get("size_bytes", row.get("size")))
            for path, row in rows.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InternalError(
            f"failed to read {place}: expected "
            '{"files": {"<path>": {"sha256": "<hex>", "size_bytes": <bytes>}}}'
        ) from None
    for path, (sha256, size) in told.items():
        _check(place, path, model.files, sha256, size)
    return {path: sha256 for path, (sha256, _) in told.items()}


def _check(place: str, path: str, files: Mapping[str, StoredFile], sha256: Any, size: Any) -> None:
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise InternalError(f"{place}: '{path}' needs a sha256 of 64 digits in lower-case hex")
    file = files.get(path)
    if file is None:
        raise FileChangedError(f"{place} names '{path}', which is not there")
    if size is not None and size != file.size_bytes:
        raise FileChangedError(
            f"{place} says that '{path}' has {size} bytes; it has {file.size_bytes}"
        )
