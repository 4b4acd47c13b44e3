# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The artifacts of one model version of MLflow: in a store, or behind its server.

The server of MLflow sends files from their first byte to their last only. So a large one is kept in
a temporary file until all its parts have been read.

MLflow: mlflow/mlflow mlflow/server/handlers.py _list_artifacts_mlflow_artifacts,
_download_artifact; mlflow/store/artifact/mlflow_artifacts_repo.py resolve_uri
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock
from typing import BinaryIO, Final, Protocol
from urllib.parse import quote
from weakref import finalize

from backends.api.errors import InternalError
from cluster.repository.stores.contracts import Store, StoredFile
from cluster.repository.stores.errors import StatusError, TruncatedError, require_length
from cluster.repository.stores.http_session import HttpSession, part_of
from deployments.model_files.contracts import FileChangedError

API: Final = "/api/2.0/mlflow-artifacts/artifacts"
_MAX_DIRECTORIES: Final = 1_000


class Artifacts(Protocol):
    """Files of one version. Used from several threads; raises what `failure_of` knows."""

    def find(self) -> Iterator[StoredFile]:
        """List all of them, with their paths in the artifact."""

    def read(self, file: StoredFile, begin: int, end: int, *, is_pinned: bool) -> bytes:
        """Read a part.

        Args:
            file: As it was listed.
            begin: First byte.
            end: The one after the last, within the file.
            is_pinned: Whether it must still have its stamp.
        """


class StoreArtifacts:
    """Implements `Artifacts` over a store of Manta's."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self) -> Iterator[StoredFile]:
        """See `Artifacts`."""
        return self._store.find()

    def read(self, file: StoredFile, begin: int, end: int, *, is_pinned: bool) -> bytes:
        """See `Artifacts`."""
        try:
            return self._store.read(file.path, begin, end - begin, file.stamp if is_pinned else "")
        except FileChangedError as error:
            raise StatusError(412, str(error)) from None


@dataclass(slots=True, weakref_slot=True)
class _Spool:
    """A file that came as a whole, until all of it was read."""

    lock: Lock = field(default_factory=Lock)
    content: BinaryIO | None = None
    left_bytes: int = 0


class ProxyArtifacts:
    """Implements `Artifacts` over the artifact proxy of a tracking server.

    A registered version does not change, so stamps are made of what names it and of sizes.

    Args:
        session: Connections to the server.
        url: The server's, up to and with `API`.
        path: The artifact's directory.
        identity: What is another one for another registered version.
    """

    def __init__(self, session: HttpSession, url: str, path: str, identity: str) -> None:
        self._session = session
        self._url = url
        self._path = path.strip("/")
        self._identity = identity
        self._lock = Lock()
        self._spools: dict[str, _Spool] = {}
        self._has_parts = False

    def find(self) -> Iterator[StoredFile]:
        """See `Artifacts`; one request for each directory.

        Raises:
            InternalError: There are too many directories.
        """
        waiting, count = [""], 0
        while waiting:
            folder = waiting.pop()
            count += 1
            if count > _MAX_DIRECTORIES:
                raise InternalError(
                    f"artifact '{self._path}' has more than {_MAX_DIRECTORIES} directories; a "
                    "model has fewer"
                )
            path = f"{self._path}/{folder}".rstrip("/")
            answer = self._session.get(f"{self._url}?path={quote(path, safe='')}").json()
            for row in answer.get("files", ()):
                name = f"{folder}{str(row['path']).rpartition('/')[2]}"
                if row.get("is_dir"):
                    waiting.append(f"{name}/")
                else:
                    size = int(row.get("file_size") or 0)
                    yield StoredFile(name, size, self._stamp(name, size))

    def read(self, file: StoredFile, begin: int, end: int, *, is_pinned: bool) -> bytes:
        """See `Artifacts`."""
        url = f"{self._url}/{quote(f'{self._path}/{file.path}')}"
        is_whole = end - begin == file.size_bytes
        if is_whole or self._has_parts:
            part = None if is_whole else (begin, end)
            return part_of(self._session.get(url, part=part), begin, end)
        with self._lock:
            spool = self._spools.setdefault(file.path, _Spool())
        with spool.lock:
            if spool.content is None:
                body = self._fetch(spool, url, file, begin, end)
                if body is not None:
                    return body
            return self._take(spool, file, begin, end)

    def _fetch(
        self, spool: _Spool, url: str, file: StoredFile, begin: int, end: int
    ) -> bytes | None:
        """Bring the file into its spool; a part of it instead, where the server knows parts."""
        content = tempfile.TemporaryFile(prefix="manta-artifact-")  # noqa: SIM115 - kept open
        try:
            answer = self._session.save(url, content, part=(begin, end))
            if answer.body:
                self._has_parts = True
                content.close()
                return part_of(answer, begin, end)
            require_length(content.tell(), file.size_bytes)
        except BaseException:
            content.close()
            raise
        spool.content, spool.left_bytes = content, file.size_bytes
        finalize(spool, content.close)
        return None

    def _take(self, spool: _Spool, file: StoredFile, begin: int, end: int) -> bytes:
        content = spool.content
        if content is None:
            raise TruncatedError(f"{file.path} is no longer there")
        content.seek(begin)
        body = content.read(end - begin)
        spool.left_bytes -= len(body)
        if spool.left_bytes <= 0:
            spool.content = None
            content.close()
        return body

    def _stamp(self, path: str, size_bytes: int) -> str:
        text = f"{self._identity}\0{path}\0{size_bytes}"
        return blake2b(text.encode(), digest_size=16).hexdigest()
