# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""S3 and what speaks like it, through s3fs's client.

Credentials: key and secret, else a profile, else boto's chain (files, web identity, instance);
where that has none, requests are not signed, as public buckets want it.

Triton: core/src/filesystem/implementations/s3.h S3FileSystem @05295b7
"""

import asyncio
from pathlib import Path
from typing import Any, Final

from fsspec.asyn import sync

from cluster.repository.stores.contracts import StoredFile
from cluster.repository.stores.credentials import Credential
from cluster.repository.stores.errors import TruncatedError, missing_library
from cluster.repository.stores.fsspec_store import ObjectClient, Page
from cluster.repository.stores.location import Location

_CONFIG: Final = {
    # The store's own policy retries.
    "retries": {"total_max_attempts": 1},
    "connect_timeout": 10,
    "read_timeout": 30,
    "max_pool_connections": 64,
    "s3": {"addressing_style": "path"},
    # Stores other than AWS's often know no other checksums than MD5.
    "request_checksum_calculation": "when_required",
    "response_checksum_validation": "when_required",
}
_PART_BYTES: Final = 16 << 20
_PARTS_AT_A_TIME: Final = 4
_MAX_PARTS: Final = 10_000


def open_s3(location: Location, credential: Credential) -> ObjectClient:
    """Open a bucket.

    Raises:
        UnsupportedError: s3fs is not installed.
    """
    try:
        from s3fs import S3FileSystem  # noqa: PLC0415 - only where a location needs it
    except ImportError:
        raise missing_library(location, "s3fs", "s3") from None
    is_keyed = bool(credential.get("key_id") and credential.get("secret_key"))
    client = {"region_name": credential.get("region"), "verify": credential.ca_bundle}
    options: dict[str, Any] = {
        "endpoint_url": location.endpoint or credential.get("endpoint") or None,
        "client_kwargs": {key: value for key, value in client.items() if value},
        "config_kwargs": _CONFIG,
        "anon": credential.get("anonymous").lower() in {"true", "1"},
        "skip_instance_cache": True,
    }
    if is_keyed:
        options |= {"key": credential.get("key_id"), "secret": credential.get("secret_key")}
        options |= {"token": credential.get("session_token") or None}
    elif credential.get("profile"):
        options |= {"profile": credential.get("profile")}
    filesystem = S3FileSystem(**options)
    sync(filesystem.loop, filesystem.set_session)
    if (
        not (is_keyed or options["anon"])
        and sync(filesystem.loop, filesystem.session.get_credentials) is None
    ):
        filesystem = S3FileSystem(**(options | {"anon": True}))
        sync(filesystem.loop, filesystem.set_session)
    return _S3Client(filesystem, location.bucket)


class _S3Client:
    def __init__(self, filesystem: Any, bucket: str) -> None:
        self._filesystem = filesystem
        self._s3 = filesystem._s3  # noqa: SLF001 - its own calls retry and translate
        self._bucket = bucket

    def list_page(self, prefix: str, token: str) -> Page:
        given = {"ContinuationToken": token} if token else {}
        answer = self._do(self._s3.list_objects_v2, Prefix=prefix, **given)
        files = (
            StoredFile(each["Key"], each["Size"], _etag(each))
            for each in answer.get("Contents", ())
        )
        return Page(tuple(files), answer.get("NextContinuationToken", ""))

    def look(self, key: str) -> StoredFile | None:
        answer = self._do(self._s3.head_object, Key=key)
        return StoredFile(key, answer["ContentLength"], _etag(answer))

    def read(self, key: str, offset_bytes: int, length_bytes: int | None, stamp: str) -> bytes:
        return bytes(
            sync(self._filesystem.loop, self._read, key, offset_bytes, length_bytes, stamp)
        )

    async def _read(self, key: str, offset: int, length: int | None, stamp: str) -> bytes:
        given: dict[str, str] = {"IfMatch": f'"{stamp}"'} if stamp else {}
        if offset or length is not None:
            last = "" if length is None else str(offset + length - 1)
            given["Range"] = f"bytes={offset}-{last}"
        answer = await self._s3.get_object(Bucket=self._bucket, Key=key, **given)
        async with answer["Body"] as body:
            content: bytes = await body.read()
        if len(content) != answer["ContentLength"]:
            raise TruncatedError(f"{len(content)} of {answer['ContentLength']} bytes came")
        return content

    def write(self, key: str, content: bytes | Path, *, if_absent: bool) -> None:
        given = {"IfNoneMatch": "*"} if if_absent else {}
        if isinstance(content, Path) and content.stat().st_size > _PART_BYTES:
            sync(
                self._filesystem.loop,
                self._write_parts,
                key,
                content,
                content.stat().st_size,
                given,
            )
            return
        body = content.read_bytes() if isinstance(content, Path) else content
        self._do(self._s3.put_object, Key=key, Body=body, **given)

    async def _write_parts(self, key: str, path: Path, size: int, given: dict[str, str]) -> None:
        place = {"Bucket": self._bucket, "Key": key}
        upload = await self._s3.create_multipart_upload(**place)
        place["UploadId"] = upload["UploadId"]
        part_bytes = max(_PART_BYTES, -(-size // _MAX_PARTS))
        gate = asyncio.Semaphore(_PARTS_AT_A_TIME)

        async def put(index: int) -> dict[str, Any]:
            async with gate:
                body = await asyncio.to_thread(_part, path, index * part_bytes, part_bytes)
                answer = await self._s3.upload_part(**place, PartNumber=index + 1, Body=body)
                return {"PartNumber": index + 1, "ETag": answer["ETag"]}

        try:
            parts = await asyncio.gather(*map(put, range(-(-size // part_bytes))))
            await self._s3.complete_multipart_upload(
                **place, MultipartUpload={"Parts": parts}, **given
            )
        except BaseException:
            await self._s3.abort_multipart_upload(**place)
            raise

    def remove(self, key: str) -> None:
        self._do(self._s3.delete_object, Key=key)

    def close(self) -> None:
        sync(self._filesystem.loop, self._s3.close)

    def _do(self, method: Any, **given: Any) -> Any:
        return sync(self._filesystem.loop, method, Bucket=self._bucket, **given)


def _etag(answer: Any) -> str:
    return str(answer["ETag"]).strip('"')


def _part(path: Path, offset_bytes: int, length_bytes: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset_bytes)
        return file.read(length_bytes)
