# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What each store answers on bad days, and what has to hold of a node's cache on all of them."""

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.support.object_stores import Emulator
from tests.support.toxic_proxy import Choose, Seen, Toxic

_XML: Final = {"Content-Type": "application/xml"}
# By kind of store: what it says to credentials that have expired.
EXPIRED: Final[Mapping[str, Toxic]] = {
    "s3": Toxic(
        400,
        b"<Error><Code>ExpiredToken</Code><Message>It has expired.</Message></Error>",
        _XML,
    ),
    "gs": Toxic(401, b'{"error": {"code": 401, "message": "Invalid Credentials"}}'),
    "as": Toxic(403, b"", {"x-ms-error-code": "AuthenticationFailed"}),
}
# What it says when the bucket or container has been removed.
GONE: Final[Mapping[str, Toxic]] = {
    "s3": Toxic(
        404,
        b"<Error><Code>NoSuchBucket</Code><Message>It does not exist.</Message></Error>",
        _XML,
    ),
    "gs": Toxic(404, b'{"error": {"code": 404, "message": "The bucket does not exist."}}'),
    "as": Toxic(404, b"", {"x-ms-error-code": "ContainerNotFound"}),
}
# Begin of Triton's text for credentials that are refused.
REFUSED: Final[Mapping[str, str]] = {
    "s3": "Unable to create S3 filesystem client. Check account credentials.",
    "gs": "Unable to create GCS client. Check account credentials.",
    "as": "Unable to create Azure filesystem client. Check account credentials.",
}
# Days on which each third request goes wrong.
BAD_DAYS: Final[Mapping[str, Toxic]] = {
    "throttled": Toxic(503, b"SlowDown", {"Retry-After": "0"}),
    "failing": Toxic(500, b"InternalError"),
    "cut in mid-body": Toxic(cut_after_bytes=1000),
}


class CredentialFile:
    """A file of credentials that the store takes or refuses.

    Google's emulator takes none and refuses none: its proxy does, by what the file says now.
    """

    def __init__(self, emulator: Emulator, path: Path) -> None:
        self._emulator = emulator
        self._path = path
        self.is_valid = True
        self.write(is_valid=True)

    @property
    def environ(self) -> Mapping[str, str]:
        return {"TRITON_CLOUD_CREDENTIAL_PATH": str(self._path)}

    def write(self, *, is_valid: bool) -> None:
        """Write credentials of either sort, as whoever renews them does: in one step."""
        entry: object = {"gs://elsewhere": f"/{is_valid}.json"}
        if self._emulator.kind == "s3":
            key = "valid" if is_valid else "expired"
            entry = {"": {"key_id": key, "secret_key": "very-secret", "region": "us-east-1"}}
        elif self._emulator.kind == "as":
            given = self._emulator.environ["AZURE_STORAGE_CONNECTION_STRING"]
            wrong = given.replace("AccountKey=", "AccountKey=AAAA")
            entry = {"": {"connection_string": given if is_valid else wrong}}
        written = self._path.with_suffix(".new")
        written.write_text(json.dumps({self._emulator.kind: entry}))
        written.replace(self._path)
        self.is_valid = is_valid

    @property
    def refuse(self) -> Choose:
        """What the proxy answers in the store's place. Azurite knows its keys itself."""

        def choose(seen: Seen) -> Toxic | None:
            is_refused = {
                "s3": "Credential=expired/" in seen.authorization,
                "gs": not self.is_valid,
                "as": False,
            }[self._emulator.kind]
            return EXPIRED[self._emulator.kind] if is_refused else None

        return choose


def is_part_of(seen: Seen, path: str) -> bool:
    """Whether a request is for a part of a file; Google's emulator is asked for its stamp, too."""
    is_about = seen.method == "GET" and Path(path).name in seen.path
    return is_about and ("/storage/v1/" not in seen.path or seen.path.startswith("/download/"))


def require_whole(cache: Path) -> None:
    """Check that all that a node's cache shows is whole: contents, and what models are made of."""
    contents = set()
    for blob in (cache / "blobs").iterdir():
        assert sha256(blob.read_bytes()).hexdigest() == blob.name
        contents.add(blob.stat().st_ino)
    for folder, _, names in os.walk(cache / "trees"):
        assert {Path(folder, name).stat().st_ino for name in names} <= contents
