# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Other protocols of fsspec, by what all of them have.

Their listing comes as a whole, and a file that changes is noticed by looking before and after.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import fsspec

from cluster.repository.stores.contracts import StoredFile
from cluster.repository.stores.credentials import Credential
from cluster.repository.stores.errors import StatusError, missing_library
from cluster.repository.stores.fsspec_store import ObjectClient, Page
from cluster.repository.stores.location import Location

_DIGESTS: Final = ("ETag", "etag", "checksum", "generation")
_TIMES: Final = ("mtime", "modified", "last_modified", "LastModified", "updated", "created")


def open_other(location: Location, credential: Credential) -> ObjectClient:
    """Open a directory by its URL; what its protocol is given comes from the credential file.

    Raises:
        UnsupportedError: A library is not installed.
    """
    try:
        filesystem, root = fsspec.core.url_to_fs(
            location.url, **credential.values, skip_instance_cache=True
        )
    except ImportError as error:
        raise missing_library(location, error.name or str(error), "") from None
    return _OtherClient(filesystem, root.rstrip("/"))


class _OtherClient:
    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root

    def list_page(self, prefix: str, token: str) -> Page:
        # Some have a cache of listings, which never hears of changes.
        self._filesystem.invalidate_cache()
        top = f"{self._root}/{prefix}".rstrip("/")
        found = self._filesystem.find(top, detail=True)
        begin = len(self._root) + 1
        files = [_stored(path[begin:], info) for path, info in found.items()]
        return Page(tuple(sorted(files, key=lambda file: file.path)))

    def look(self, key: str) -> StoredFile | None:
        self._filesystem.invalidate_cache()
        info = self._filesystem.info(f"{self._root}/{key}")
        return None if info["type"] == "directory" else _stored(key, info)

    def read(self, key: str, offset_bytes: int, length_bytes: int | None, stamp: str) -> bytes:
        end = None if length_bytes is None else offset_bytes + length_bytes
        self._require(key, stamp)
        content = self._filesystem.cat_file(f"{self._root}/{key}", start=offset_bytes, end=end)
        self._require(key, stamp)
        return bytes(content)

    def _require(self, key: str, stamp: str) -> None:
        found = self.look(key) if stamp else None
        if stamp and (found is None or found.stamp != stamp):
            raise StatusError(412)

    def write(self, key: str, content: bytes | Path, *, if_absent: bool) -> None:
        path = f"{self._root}/{key}"
        if if_absent and self._filesystem.exists(path):
            raise StatusError(412)
        parent, _, name = path.rpartition("/")
        made = f"{parent}/.{name}.{uuid4().hex}"
        self._filesystem.makedirs(parent, exist_ok=True)
        if isinstance(content, Path):
            self._filesystem.put_file(str(content), made)
        else:
            self._filesystem.pipe_file(made, content)
        self._filesystem.mv(made, path)

    def remove(self, key: str) -> None:
        self._filesystem.rm_file(f"{self._root}/{key}")

    def close(self) -> None:
        """Nothing is known to be open."""


def _stored(path: str, info: Mapping[str, Any]) -> StoredFile:
    size = int(info.get("size") or 0)
    stamp = next((str(info[key]).strip('"') for key in _DIGESTS if info.get(key)), "")
    if not stamp:
        changed = next((info[key] for key in _TIMES if info.get(key)), "")
        # Listings may tell it in seconds what a look tells as a date.
        seconds = changed.timestamp() if isinstance(changed, datetime) else changed
        stamp = f"{seconds}:{size}"
    return StoredFile(path, size, stamp)
