# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""S3 and what speaks like it, through s3fs's client.

Credentials: key and secret, else a profile, else boto's chain (files, web identity, instance);
where that has none, requests are not signed, as public buckets want it.

Triton: core/src/filesystem/implementations/s3.h S3FileSystem @05295b7
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any, Final

from fsspec.asyn import sync

from cluster.repository.stores.contracts import StoredFile
from cluster.repository.stores.credentials import Credential
from cluster.repository.stores.errors import TruncatedError, missing_library, require_length
from cluster.repository.stores.fsspec_store import ObjectClient, Page
from cluster.repository.stores.listings import read_s3
from cluster.repository.stores.location import Location
from deployments.model_files.contracts import Write

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
_OK: Final = 200
# Where the files of a page are in its answer.
_LISTED: Final = "StoredFiles"
# Read from a connection at a time. malloc takes a MiB anew from the kernel each time, which doubles
# the CPU time of a download.
_CHUNK_BYTES: Final = 256 << 10
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
        options["anon"] = True
    return _S3Client(filesystem, location.bucket, lambda: _open_reader(options))


def _open_reader(options: Mapping[str, Any]) -> Any:
    """Open boto's own client as s3fs has opened its one."""
    import botocore.session  # noqa: PLC0415 - only where a location needs it
    from botocore import UNSIGNED  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    unsigned = {"signature_version": UNSIGNED} if options["anon"] else {}
    return botocore.session.Session(profile=options.get("profile")).create_client(
        "s3",
        endpoint_url=options["endpoint_url"],
        aws_access_key_id=options.get("key"),
        aws_secret_access_key=options.get("secret"),
        aws_session_token=options.get("token"),
        config=Config(**_CONFIG, **unsigned),
        **options["client_kwargs"],
    )


class _S3Client:
    """A bucket.

    Large files are read without an event loop, which would cost more than twice the CPU time.
    """

    def __init__(self, filesystem: Any, bucket: str, open_reader: Callable[[], Any]) -> None:
        self._filesystem = filesystem
        self._s3 = filesystem._s3  # noqa: SLF001 - its own calls retry and translate
        self._bucket = bucket
        self._open_reader = open_reader
        self._reader: Any = None
        self._lock = Lock()
        # So spelt it comes before botocore's own handlers, the first of which parses the page, too.
        self._s3.meta.events.register("before-parse.*.ListObjectsV2", _read_listing)

    def list_page(self, prefix: str, token: str) -> Page:
        given = {"ContinuationToken": token} if token else {}
        answer = self._do(self._s3.list_objects_v2, Prefix=prefix, **given)
        return Page(answer.get(_LISTED, ()), answer.get("NextContinuationToken", ""))

    def look(self, key: str) -> StoredFile | None:
        answer = self._do(self._s3.head_object, Key=key)
        return StoredFile(key, answer["ContentLength"], _etag(answer))

    def read(self, key: str, offset_bytes: int, length_bytes: int | None, stamp: str) -> bytes:
        return bytes(
            sync(self._filesystem.loop, self._read, key, offset_bytes, length_bytes, stamp)
        )

    async def _read(self, key: str, offset: int, length: int | None, stamp: str) -> bytes:
        given = _part_of(offset, length, stamp)
        answer = await self._s3.get_object(Bucket=self._bucket, Key=key, **given)
        async with answer["Body"] as body:
            content: bytes = await body.read()
        require_length(len(content), answer["ContentLength"])
        return content

    def stream(
        self, key: str, offset_bytes: int, length_bytes: int, stamp: str, write: Write
    ) -> None:
        with self._lock:
            if self._reader is None:
                self._reader = self._open_reader()
        given = _part_of(offset_bytes, length_bytes, stamp)
        answer = self._reader.get_object(Bucket=self._bucket, Key=key, **given)
        with closing(answer["Body"]) as body:
            if answer["ContentLength"] != length_bytes:
                raise TruncatedError(f"{answer['ContentLength']} of {length_bytes} bytes come")
            at = offset_bytes
            # It says itself when the body ends before its time.
            while content := body.read(_CHUNK_BYTES):
                write(content, at)
                at += len(content)

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
        with self._lock:
            if self._reader is not None:
                self._reader.close()

    def _do(self, method: Any, **given: Any) -> Any:
        return sync(self._filesystem.loop, method, Bucket=self._bucket, **given)


def _read_listing(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    """Take the files out of a page, and leave botocore the rest."""
    found = read_s3(response_dict["body"]) if response_dict["status_code"] == _OK else None
    if found is not None:
        customized_response_dict[_LISTED], response_dict["body"] = found


def _etag(answer: Any) -> str:
    return str(answer["ETag"]).strip('"')


def _part_of(offset_bytes: int, length_bytes: int | None, stamp: str) -> dict[str, str]:
    given = {"IfMatch": f'"{stamp}"'} if stamp else {}
    if offset_bytes or length_bytes is not None:
        last = "" if length_bytes is None else str(offset_bytes + length_bytes - 1)
        given["Range"] = f"bytes={offset_bytes}-{last}"
    return given


def _part(path: Path, offset_bytes: int, length_bytes: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset_bytes)
        return file.read(length_bytes)
