# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face Hub on loopback: commits of repositories, trees in pages, files by range.

Large files are sent by another host, as the Hub has it, to which no credentials may go.
"""

import hashlib
import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

PAGE = 3
LARGE_BYTES = 1000


@dataclass
class HubServer:
    """The Hub.

    Attributes:
        token: What requests need; empty for none.
        leaked: Paths that the other host was asked for with credentials.
        requests: Paths that came, and those that the other host saw, with a star before them.
        revisions: Commit by repository and revision.
        trees: Files by commit.
        sent: Contents that the other host sends in place of those that were pushed.
        is_without_ranges: Whether the other host sends whole files only.
    """

    token: str = ""
    requests: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    revisions: dict[tuple[str, str], str] = field(default_factory=dict)
    trees: dict[str, dict[str, bytes]] = field(default_factory=dict)
    sent: dict[str, bytes] = field(default_factory=dict)
    is_without_ranges: bool = False

    def __post_init__(self) -> None:
        self._servers = [
            ThreadingHTTPServer(("127.0.0.1", 0), type("_Of", (_Handler,), {"hub": self}))
            for _ in range(2)
        ]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._servers[0].server_address[1]}"

    @property
    def other_url(self) -> str:
        return f"http://localhost:{self._servers[1].server_address[1]}"

    @property
    def environ(self) -> dict[str, str]:
        return {"HF_ENDPOINT": self.url} | ({"HF_TOKEN": self.token} if self.token else {})

    def push(self, repository: str, files: dict[str, bytes], revision: str = "main") -> str:
        content = json.dumps([(path, body.hex()) for path, body in sorted(files.items())])
        commit = hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()
        self.revisions[repository, revision] = self.revisions[repository, commit] = commit
        self.trees[commit] = dict(files)
        return commit

    def __enter__(self) -> Self:
        for server in self._servers:
            Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()


def _row(path: str, body: bytes) -> dict[str, object]:
    blob = b"blob %d\0%s" % (len(body), body)
    row: dict[str, object] = {
        "type": "file",
        "path": path,
        "size": len(body),
        "oid": hashlib.sha1(blob, usedforsecurity=False).hexdigest(),
    }
    if len(body) > LARGE_BYTES:
        digest = hashlib.sha256(body).hexdigest()
        row["lfs"] = {"oid": digest, "size": len(body), "pointerSize": 134}
    return row


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: HubServer

    def do_GET(self) -> None:
        at = urlsplit(self.path)
        is_other = self.server is self.hub._servers[1]
        self.hub.requests.append(("*" if is_other else "") + self.path)
        parts = [unquote(part) for part in at.path.strip("/").split("/")]
        if is_other:
            if self.headers.get("Authorization"):
                self.hub.leaked.append(self.path)
            if at.query != "signed=%27%2B":
                self._send(403, b"the signature does not match")
                return
            path = "/".join(parts[1:])
            body = self.hub.sent.get(path) or self.hub.trees[parts[0]][path]
            self._send_part(body, not self.hub.is_without_ranges)
            return
        if self.hub.token and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            self._send(401, b"", {"X-Error-Message": "Invalid username or password."})
            return
        if parts[:2] == ["api", "models"]:
            self._api("/".join(parts[2:4]), parts[4], parts[5], parse_qs(at.query))
            return
        self._resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    def _api(
        self, repository: str, method: str, revision: str, query: dict[str, list[str]]
    ) -> None:
        commit = self.hub.revisions.get((repository, revision))
        if commit is None:
            self._send(404, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "none"})
        elif method == "revision":
            self._send(200, json.dumps({"id": repository, "sha": commit}).encode())
        else:
            files = self.hub.trees[commit]
            rows = [_row(path, files[path]) for path in sorted(files, reverse=True)]
            rows += [{"type": "directory", "path": "folder", "oid": "0", "size": 0}]
            begin = int(query.get("cursor", ["0"])[0])
            more = {}
            if begin + PAGE < len(rows):
                rest = f"recursive=true&cursor={begin + PAGE}"
                address = f"https://hub.invalid{urlsplit(self.path).path}?{rest}"
                more = {"Link": f'<{address}>; rel="next"'}
            self._send(200, json.dumps(rows[begin : begin + PAGE]).encode(), more)

    def _resolve(self, repository: str, revision: str, path: str) -> None:
        commit = self.hub.revisions.get((repository, revision), "")
        body = self.hub.trees.get(commit, {}).get(path)
        if body is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        elif len(body) > LARGE_BYTES:
            digest = hashlib.sha256(body).hexdigest()
            place = {
                "Location": f"{self.hub.other_url}/{commit}/{path}?signed=%27%2B",
                "X-Linked-Etag": digest,
            }
            self._send(302, b"", place)
        else:
            self._send_part(body, True)

    def _send_part(self, body: bytes, has_ranges: bool) -> None:
        given = self.headers.get("Range")
        if not given or not has_ranges:
            self._send(200, body)
            return
        begin, _, last = given.removeprefix("bytes=").partition("-")
        part = body[int(begin) : int(last) + 1]
        self._send(206, part, {"Content-Range": f"bytes {begin}-{last}/{len(body)}"})

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
