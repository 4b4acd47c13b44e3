# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A store over a client of its cloud: retries, errors, and credentials that change."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Protocol, TypeVar, runtime_checkable

from backends.api.errors import NotFoundError, TritonError
from cluster.repository.stores.contracts import PIECE_BYTES, StoredFile
from cluster.repository.stores.credentials import Credential, Credentials
from cluster.repository.stores.errors import Kind, error_of, failure_of
from cluster.repository.stores.location import Location
from cluster.repository.stores.retry import DEFAULT_POLICY, RetryPolicy
from deployments.model_files.contracts import FileChangedError, Write

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a listing.

    Attributes:
        files: Them, by key, sorted.
        token: Names the next page; empty after the last.
    """

    files: tuple[StoredFile, ...]
    token: str = ""


class ObjectClient(Protocol):
    """Single requests to one bucket, by key; raises what its library raises. All calls block."""

    def list_page(self, prefix: str, token: str) -> Page:
        """List keys that begin with a prefix: the first page, or the one a token names."""

    def look(self, key: str) -> StoredFile | None:
        """Return what is said of a key; None, or an error of kind MISSING, when there is none."""

    def read(self, key: str, offset_bytes: int, length_bytes: int | None, stamp: str) -> bytes:
        """Read; an error of kind CHANGED when a stamp is given and the object has another."""

    def write(self, key: str, content: bytes | Path, *, if_absent: bool) -> None:
        """Write; an error of kind CHANGED when ``if_absent`` and there is one."""

    def remove(self, key: str) -> None:
        """Remove; nothing, or an error of kind MISSING, when there is none."""

    def close(self) -> None:
        """Close its connections."""


@runtime_checkable
class StreamingClient(Protocol):
    """An `ObjectClient` that need not hold in memory what it reads."""

    def stream(
        self, key: str, offset_bytes: int, length_bytes: int, stamp: str, write: Write
    ) -> None:
        """Read as `ObjectClient.read`; what comes is written in order."""


class _NotWrittenError(BaseException):
    """What was read cannot be written: no error of the store's, which no attempt mends."""


class FsspecStore:
    """Implements `cluster.repository.stores.contracts.Store`.

    Args:
        location: Where.
        open_client: Opens the client of its cloud.
        credentials: What to open it with.
        policy: How often what failed is tried again.
        clock: Seconds that never go back.
        sleep: Waits so many seconds.
        rand: Gives numbers in [0, 1).
    """

    def __init__(
        self,
        location: Location,
        open_client: Callable[[Location, Credential], ObjectClient],
        credentials: Credentials,
        policy: RetryPolicy = DEFAULT_POLICY,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self.location = str(location)
        self._at = location
        self._open_client = open_client
        self._credentials = credentials
        self._policy = policy
        self._clock, self._sleep, self._rand = clock, sleep, rand
        self._lock = Lock()
        self._client: ObjectClient | None = None
        self._former: ObjectClient | None = None
        self._credential = Credential("none")
        self._file_stamp = 0

    def __repr__(self) -> str:
        return f"FsspecStore({self.location!r})"

    def find(self, path: str = "") -> Iterator[StoredFile]:
        """See `Store`."""
        self._follow_credentials()
        prefix = self._key(path.rstrip("/"))
        prefix = f"{prefix}/" if prefix else ""
        cut = len(self._key(""))
        cut += 1 if cut else 0
        token, is_empty = "", True
        while True:
            page = self._page(prefix, token, path)
            for file in page.files:
                # Consoles write a key for the location itself.
                if len(file.path) > cut:
                    # Quicker than `replace`, a million times a poll.
                    yield StoredFile(
                        file.path[cut:], file.size_bytes, file.stamp, file.md5, file.sha256
                    )
                is_empty = False
            token = page.token
            if not token:
                break
        if is_empty and not path and (prefix or not self._at.bucket):
            raise NotFoundError(f"directory or file does not exist at {self.location}")

    def look(self, path: str) -> StoredFile | None:
        """See `Store`."""
        try:
            found = self._call(path, lambda client: client.look(self._key(path)))
        except NotFoundError:
            return None
        return None if found is None else replace(found, path=path)

    def read(
        self, path: str, offset_bytes: int = 0, length_bytes: int | None = None, stamp: str = ""
    ) -> bytes:
        """See `Store`."""
        if length_bytes == 0:
            return b""
        key = self._key(path)
        return self._read(
            path, stamp, lambda client: client.read(key, offset_bytes, length_bytes, stamp)
        )

    def stream(
        self, path: str, offset_bytes: int, length_bytes: int, stamp: str, write: Write
    ) -> int:
        """See `Store`."""
        key = self._key(path)
        at, end = offset_bytes, offset_bytes + length_bytes

        def count(content: bytes, begin: int) -> None:
            nonlocal at
            try:
                write(content, begin)
            except Exception as error:
                raise _NotWrittenError from error
            at = begin + len(content)

        def request(client: ObjectClient) -> None:
            # Another attempt goes on where the last one was cut off.
            if isinstance(client, StreamingClient):
                client.stream(key, at, end - at, stamp, count)
            else:
                count(client.read(key, at, min(end - at, PIECE_BYTES), stamp), at)

        try:
            self._read(path, stamp, request)
        except _NotWrittenError as error:
            raise error.__cause__ or error from None
        return at - offset_bytes

    def _read(self, path: str, stamp: str, request: Callable[[ObjectClient], _T]) -> _T:
        try:
            return self._call(path, request)
        except NotFoundError:
            if stamp:
                raise FileChangedError(f"{self._at.below(path)} is gone") from None
            raise

    def write(self, path: str, content: bytes | Path, *, if_absent: bool = False) -> bool:
        """See `Store`."""
        key = self._key(path)
        if if_absent and self.look(path) is not None:
            return False
        try:
            self._call(path, lambda client: client.write(key, content, if_absent=if_absent))
        except FileChangedError:
            return False
        return True

    def remove(self, path: str) -> None:
        """See `Store`."""
        try:
            self._call(path, lambda client: client.remove(self._key(path)))
        except NotFoundError:
            return

    def close(self) -> None:
        """Close all connections; a later call opens them again."""
        with self._lock:
            clients, self._client, self._former = (self._client, self._former), None, None
        for client in clients:
            if client is not None:
                client.close()

    def _page(self, prefix: str, token: str, path: str) -> Page:
        return self._call(path, lambda client: client.list_page(prefix, token), is_listing=True)

    def _key(self, path: str) -> str:
        # Other protocols name the root themselves.
        root = self._at.path if self._at.bucket else ""
        return f"{root}/{path}" if root and path else root or path

    def _call(
        self, path: str, request: Callable[[ObjectClient], _T], *, is_listing: bool = False
    ) -> _T:
        """Make a request until it succeeds or is not worth another attempt.

        Raises:
            FileChangedError: It ended with CHANGED.
            NotFoundError: With MISSING or NO_BUCKET.
            UnavailableError: With anything else.
        """
        begin_s, attempt, is_reopened = self._clock(), 0, False
        while True:
            attempt += 1
            client = self._opened()
            try:
                return request(client)
            except TritonError:
                raise
            except Exception as error:
                failure = failure_of(error)
            if is_listing and failure.kind is Kind.MISSING:
                failure = replace(failure, kind=Kind.NO_BUCKET)
            if failure.kind is Kind.RANGE:
                return b""  # type: ignore[return-value]  # only reads have a range
            if failure.kind is Kind.CHANGED:
                raise FileChangedError(f"{self._at.below(path)} is not the one that was listed")
            if failure.kind is Kind.DENIED and not is_reopened:
                is_reopened = True
                self._reopen(client)
                continue
            wait_s = self._policy.wait_s(attempt, self._clock() - begin_s, failure, self._rand)
            if wait_s is None:
                raise error_of(failure, self._at, path, self._credential.source)
            self._sleep(wait_s)

    def _opened(self) -> ObjectClient:
        with self._lock:
            if self._client is None:
                self._file_stamp = self._credentials.stamp()
                self._credential = self._credentials.of(self._at)
                self._client = self._open_safely()
            return self._client

    def _open_safely(self) -> ObjectClient:
        try:
            return self._open_client(self._at, self._credential)
        except TritonError:
            raise
        except Exception as error:
            failure = failure_of(error)
            raise error_of(failure, self._at, "", self._credential.source) from None

    def _follow_credentials(self) -> None:
        client = self._client
        if client is not None and self._credentials.stamp() != self._file_stamp:
            self._reopen(client)

    def _reopen(self, refused: ObjectClient) -> None:
        """Have the next request read the credentials again, unless another thread has."""
        with self._lock:
            if self._client is not refused:
                return
            # Other threads may be in the midst of requests with it.
            closing, self._former, self._client = self._former, refused, None
        if closing is not None:
            closing.close()
