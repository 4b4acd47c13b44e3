# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Object stores that cost a client next to nothing: one file to read, and long listings.

They listen on loopback, in a process of their own, and speak the little of S3's, Google's and
Azure's protocols that Manta asks of a store: what they send comes from the kernel's page cache or
was made before. Nobody's signature is looked at.

Usage: bench_store_server.py FILE MODELS FILES; prints its port.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

BUCKET: Final = "bench"
ROOT: Final = "models/"
FILE_KEY: Final = "models/m/1/model.bin"
_CONFIG: Final = b'backend: "identity" max_batch_size: 8'
_ETAG: Final = "0123456789abcdef0123456789abcdef"
_DATE: Final = "2026-11-23T00:00:00.000Z"
_RFC_DATE: Final = "Mon, 23 Nov 2026 00:00:00 GMT"
_HTTP_DATE: Final = {"Last-Modified": _RFC_DATE, "ETag": f'"{_ETAG}"'}


@dataclass(frozen=True)
class StandIn:
    """A running server.

    Attributes:
        port: On 127.0.0.1.
    """

    port: int

    def counts(self) -> dict[str, int]:
        """Return how many requests came, and how many bytes of content went."""
        with urlopen(f"http://127.0.0.1:{self.port}/counts") as answer:
            counts: dict[str, int] = json.load(answer)
        return counts


@contextmanager
def stand_in(file: Path, models: int = 0, files: int = 0) -> Iterator[StandIn]:
    """Run a server in a process of its own.

    Args:
        file: What every object holds.
        models: How many models a listing of the bucket has.
        files: How many files each of them has.
    """
    command = [sys.executable, __file__, str(file), str(models), str(files)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield StandIn(int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()


class Listing:
    """Keys of models that are in listings only; their pages are made once.

    Args:
        models: How many.
        files: Of each.
    """

    def __init__(self, models: int, files: int) -> None:
        self._files = files
        self.count = models * files
        self.s3 = cache(self._s3)
        self.google = cache(self._google)
        self.azure = cache(self._azure)

    def range_of(self, prefix: str) -> tuple[int, int]:
        """Return where the keys begin and end that begin with a prefix: all, or one model's."""
        if prefix in {"", ROOT}:
            return 0, self.count
        number = prefix.removeprefix(f"{ROOT}model_").rstrip("/")
        begin = int(number) * self._files if number.isdigit() else self.count
        return begin, min(begin + self._files, self.count)

    def _keys(self, begin: int, end: int) -> Iterator[tuple[str, str]]:
        """Yield names and the digests of what they stand for."""
        for index in range(begin, end):
            model, file = divmod(index, self._files)
            # Digits sort before letters.
            name = "config.pbtxt" if file == self._files - 1 else f"1/file_{file:05d}.bin"
            yield f"{ROOT}model_{model:05d}/{name}", f"{index:032x}"

    def _s3(self, begin: int, end: int, token: str) -> bytes:
        contents = "".join(
            f"<Contents><Key>{key}</Key><LastModified>{_DATE}</LastModified>"
            f"<ETag>&quot;{digest}&quot;</ETag><Size>4096</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
            for key, digest in self._keys(begin, end)
        )
        following = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix>models/</Prefix><MaxKeys>1000</MaxKeys>"
            f"<EncodingType>url</EncodingType>"
            f"<IsTruncated>{str(bool(token)).lower()}</IsTruncated>{contents}{following}"
            "</ListBucketResult>"
        ).encode()

    def _google(self, begin: int, end: int, token: str) -> bytes:
        items = [
            {
                "name": key,
                "size": "4096",
                "generation": digest,
                "md5Hash": "AAAAAAAAAAAAAAAAAAAAAA==",
            }
            for key, digest in self._keys(begin, end)
        ]
        return json.dumps({"items": items, "nextPageToken": token}).encode()

    def _azure(self, begin: int, end: int, token: str) -> bytes:
        blobs = "".join(
            f"<Blob><Name>{key}</Name><Properties><Creation-Time>{_RFC_DATE}</Creation-Time>"
            f"<Last-Modified>{_RFC_DATE}</Last-Modified><Etag>0x{digest[-15:]}</Etag>"
            "<Content-Length>4096</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type><Content-Encoding />"
            "<Content-Language /><Content-CRC64 />"
            "<Content-MD5>AAAAAAAAAAAAAAAAAAAAAA==</Content-MD5>"
            "<Cache-Control /><Content-Disposition /><BlobType>BlockBlob</BlobType>"
            "<AccessTier>Hot</AccessTier><AccessTierInferred>true</AccessTierInferred>"
            "<LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState>"
            "<ServerEncrypted>true</ServerEncrypted></Properties><OrMetadata /></Blob>"
            for key, digest in self._keys(begin, end)
        )
        return (
            '<?xml version="1.0" encoding="utf-8"?><EnumerationResults '
            f'ServiceEndpoint="http://127.0.0.1/" ContainerName="{BUCKET}">'
            f"<Prefix>models/</Prefix><MaxResults>5000</MaxResults><Blobs>{blobs}</Blobs>"
            f"<NextMarker>{token}</NextMarker></EnumerationResults>"
        ).encode()


@dataclass(frozen=True)
class _Dialect:
    """How a store is asked for a listing.

    Attributes:
        page: Method of `Listing` that makes a page.
        token: Name of the token of a page.
        page_keys: How many keys a page has.
        kind: Content type of a page.
    """

    page: str
    token: str
    page_keys: int
    kind: str


# By what only such a request has in its query.
_DIALECTS: Final = {
    "list-type": _Dialect("s3", "continuation-token", 1000, "application/xml"),
    "maxResults": _Dialect("google", "pageToken", 1000, "application/json"),
    "comp": _Dialect("azure", "marker", 5000, "application/xml"),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body of a small answer would else wait for each other.
    disable_nagle_algorithm = True
    wbufsize = -1
    server: "_Server"

    def do_GET(self) -> None:
        at = urlsplit(self.path)
        if at.path == "/counts":
            counts = json.dumps(self.server.counts).encode()
            return self._answer(counts, "application/json", is_counted=False)
        asked = {key: values[0] for key, values in parse_qs(at.query).items()}
        for name, dialect in _DIALECTS.items():
            if name in asked:
                return self._send_page(dialect, asked)
        if at.path.endswith(".pbtxt"):
            return self._answer(_CONFIG, "text/plain")
        return self._send_file()

    def _send_page(self, dialect: _Dialect, asked: dict[str, str]) -> None:
        listing = self.server.listing
        begin, last = listing.range_of(asked.get("prefix", ""))
        begin = int(asked.get(dialect.token, begin))
        end = min(begin + dialect.page_keys, last)
        make: Callable[[int, int, str], bytes] = getattr(listing, dialect.page)
        self._answer(make(begin, end, str(end) if end < last else ""), dialect.kind)

    def do_HEAD(self) -> None:
        self.server.count(0)
        self._head(200, self.server.size_bytes, _HTTP_DATE)

    def _send_file(self) -> None:
        size_bytes = self.server.size_bytes
        begin, end = 0, size_bytes
        asked = self.headers.get("Range") or self.headers.get("x-ms-range")
        headers = dict(_HTTP_DATE)
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin, end = int(first), min(int(last or size_bytes - 1) + 1, size_bytes)
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size_bytes}"
        self.server.count(end - begin)
        self._head(206 if asked else 200, end - begin, headers)
        while begin < end:
            begin += os.sendfile(
                self.connection.fileno(), self.server.descriptor, begin, end - begin
            )

    def _answer(self, content: bytes, kind: str, *, is_counted: bool = True) -> None:
        if is_counted:
            self.server.count(len(content))
        self._head(200, len(content), {"Content-Type": kind, **_HTTP_DATE})
        self.wfile.write(content)

    def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = socket.SOMAXCONN

    def __init__(self, file: str, listing: Listing) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.descriptor = os.open(file, os.O_RDONLY)
        self.size_bytes = os.fstat(self.descriptor).st_size
        self.listing = listing
        self.counts = {"requests": 0, "bytes": 0}
        self._lock = Lock()

    def count(self, size_bytes: int) -> None:
        with self._lock:
            self.counts["requests"] += 1
            self.counts["bytes"] += size_bytes

    def handle_error(self, *_: Any) -> None:
        """Say nothing: clients go when they have what they want."""


def main() -> None:
    file, models, files = sys.argv[1:]
    server = _Server(file, Listing(int(models), int(files)))
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
