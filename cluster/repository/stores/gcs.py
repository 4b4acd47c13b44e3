# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Google Cloud Storage, through gcsfs's credentials and session.

Credentials: the JSON file named (a user's, a service account's, or of workload identity), else
Google's own chain, else none, as public buckets want it.

Triton: core/src/filesystem/implementations/gcs.h GCSFileSystem @05295b7
"""

import base64
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

from fsspec.asyn import sync

from cluster.repository.stores.contracts import StoredFile
from cluster.repository.stores.credentials import Credential
from cluster.repository.stores.errors import StatusError, missing_library, require_length
from cluster.repository.stores.fsspec_store import ObjectClient, Page
from cluster.repository.stores.location import Location

_FIELDS: Final = "items(name,size,generation,md5Hash),nextPageToken"
_CHUNK_BYTES: Final = 1 << 20
_BOUNDARY: Final = uuid4().hex
_SUCCESS: Final = range(200, 300)


def open_gcs(location: Location, credential: Credential) -> ObjectClient:
    """Open a bucket.

    Raises:
        UnsupportedError: gcsfs is not installed.
    """
    # Else it asks for each bucket's kind by another protocol, which emulators and proxies lack.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    try:
        import aiohttp  # noqa: PLC0415 - only where a location needs it
        from gcsfs.core import GCSFileSystem  # noqa: PLC0415
    except ImportError:
        raise missing_library(location, "gcsfs", "gcs") from None
    endpoint = credential.get("endpoint")
    if endpoint and "://" not in endpoint:
        endpoint = f"http://{endpoint}"
    session: dict[str, Any] = {
        "trust_env": True,
        "timeout": aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=30),
    }
    bundle = credential.ca_bundle
    trusted = ssl.create_default_context(cafile=bundle) if bundle else None
    filesystem = GCSFileSystem(
        # An emulator knows no credentials, and looking for some takes seconds.
        token="anon" if endpoint else credential.get("path") or None,
        endpoint_url=endpoint or None,
        session_kwargs=session,
        skip_instance_cache=True,
    )
    return _GcsClient(filesystem, location.bucket, trusted)


class _GcsClient:
    def __init__(self, filesystem: Any, bucket: str, trusted: ssl.SSLContext | None) -> None:
        self._filesystem = filesystem
        self._bucket = quote(bucket, safe="")
        self._ssl: ssl.SSLContext | bool = trusted or True
        self._host = str(filesystem.base).removesuffix("/storage/v1/")
        self._objects = f"/storage/v1/b/{self._bucket}/o"

    def list_page(self, prefix: str, token: str) -> Page:
        given = {"prefix": prefix, "pageToken": token, "fields": _FIELDS, "maxResults": "1000"}
        answer = json.loads(self._do("GET", self._objects, given)[1])
        return Page(
            tuple(map(_stored, answer.get("items", ()))), str(answer.get("nextPageToken", ""))
        )

    def look(self, key: str) -> StoredFile | None:
        return _stored(json.loads(self._do("GET", self._object(key), {})[1]))

    def read(self, key: str, offset_bytes: int, length_bytes: int | None, stamp: str) -> bytes:
        headers = {}
        end = None if length_bytes is None else offset_bytes + length_bytes
        if offset_bytes or end is not None:
            headers["Range"] = f"bytes={offset_bytes}-{'' if end is None else end - 1}"
        given = {"alt": "media", "ifGenerationMatch": stamp}
        said, content = self._do("GET", f"/download{self._object(key)}", given, headers)
        if headers and "Content-Range" not in said:
            # A server that knows no ranges has sent all of it.
            content = content[offset_bytes:end]
        if stamp and said.get("x-goog-generation", stamp) != stamp:
            raise StatusError(412)
        if stamp and "x-goog-generation" not in said:
            # Nor does it know conditions. A generation never comes back: what holds now held then.
            now = self.look(key)
            if now is None or now.stamp != stamp:
                raise StatusError(412)
        return content

    def write(self, key: str, content: bytes | Path, *, if_absent: bool) -> None:
        given = {"ifGenerationMatch": "0" if if_absent else ""}
        if isinstance(content, Path) and content.stat().st_size > _CHUNK_BYTES:
            given |= {"uploadType": "media", "name": key}
            headers = {"Content-Type": "application/octet-stream"}
        else:
            # Emulators want an empty file so.
            given["uploadType"] = "multipart"
            headers = {"Content-Type": f"multipart/related; boundary={_BOUNDARY}"}
            content = _multipart(
                key, content.read_bytes() if isinstance(content, Path) else content
            )
        self._do("POST", f"/upload{self._objects}", given, headers, content)

    def remove(self, key: str) -> None:
        self._do("DELETE", self._object(key), {})

    def close(self) -> None:
        session = self._filesystem._session  # noqa: SLF001 - it has no way to close
        if session is not None:
            sync(self._filesystem.loop, session.close)
            self._filesystem._session = None  # noqa: SLF001

    def _object(self, key: str) -> str:
        return f"{self._objects}/{quote(key, safe='')}"

    def _do(
        self,
        method: str,
        path: str,
        given: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        content: bytes | Path | None = None,
    ) -> tuple[Mapping[str, str], bytes]:
        made = dict(headers or {})
        if isinstance(content, Path):
            made["Content-Length"] = str(content.stat().st_size)
        said, body = sync(self._filesystem.loop, self._request, method, path, given, made, content)
        return said, body

    async def _request(
        self,
        method: str,
        path: str,
        given: Mapping[str, str],
        headers: dict[str, str],
        content: bytes | Path | None,
    ) -> tuple[Mapping[str, str], bytes]:
        await self._filesystem._set_session()  # noqa: SLF001 - its own requests retry
        body = _chunks(content) if isinstance(content, Path) else content and BytesIO(content)
        async with self._filesystem.session.request(
            method,
            f"{self._host}{path}",
            params=self._filesystem._get_params({k: v for k, v in given.items() if v}),  # noqa: SLF001
            headers=self._filesystem._get_headers(headers),  # noqa: SLF001
            data=body,
            ssl=self._ssl,
        ) as answer:
            said: bytes = await answer.read()
            if answer.status not in _SUCCESS:
                detail = said.decode(errors="replace")
                raise StatusError(answer.status, detail, answer.headers.get("Retry-After", ""))
            length = answer.headers.get("Content-Length")
            if length is not None and "Content-Encoding" not in answer.headers:
                require_length(len(said), int(length))
            return answer.headers, said


def _multipart(key: str, content: bytes) -> bytes:
    about = json.dumps({"name": key}).encode()
    types = (b"application/json; charset=UTF-8", b"application/octet-stream")
    border = f"--{_BOUNDARY}".encode()
    parts = (
        b"%s\r\nContent-Type: %s\r\n\r\n%s\r\n" % (border, kind, part)
        for kind, part in zip(types, (about, content), strict=True)
    )
    return b"".join(parts) + border + b"--\r\n"


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _stored(said: Mapping[str, Any]) -> StoredFile:
    md5 = base64.b64decode(said.get("md5Hash") or "").hex()
    return StoredFile(str(said["name"]), int(said["size"]), str(said["generation"]), md5)
