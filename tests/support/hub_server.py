# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face Hub on loopback: commits of repositories, trees in pages, files by range.

Large files are sent by another host, as the Hub has it, to which no credentials may go.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.loopback_server import LoopbackServer, QuietHandler

PAGE = 3
LARGE_BYTES = 1000


@dataclass(eq=False)
class HubServer(LoopbackServer):
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
        super().__init__(_Handler)
        self._other = LoopbackServer(_OtherHandler, self)

    @property
    def other_url(self) -> str:
        return f"http://localhost:{self._other.server_port}"

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
        self._other.__enter__()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._other.__exit__()


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


class _PartHandler(QuietHandler):
    protocol_version = "HTTP/1.1"

    def send_part(self, body: bytes, has_ranges: bool) -> None:
        given = self.headers.get("Range")
        if not given or not has_ranges:
            self.answer(200, body)
            return
        begin, _, last = given.removeprefix("bytes=").partition("-")
        part = body[int(begin) : int(last) + 1]
        self.answer(206, part, {"Content-Range": f"bytes {begin}-{last}/{len(body)}"})


class _OtherHandler(_PartHandler):
    here: HubServer

    def respond(self) -> None:
        hub, at = self.here, urlsplit(self.path)
        hub.requests.append(f"*{self.path}")
        if self.headers.get("Authorization"):
            hub.leaked.append(self.path)
        if at.query != "signed=%27%2B":
            self.answer(403, b"the signature does not match")
            return
        commit, _, path = unquote(at.path).strip("/").partition("/")
        body = hub.sent.get(path) or hub.trees[commit][path]
        self.send_part(body, not hub.is_without_ranges)


class _Handler(_PartHandler):
    here: HubServer

    def respond(self) -> None:
        hub, at = self.here, urlsplit(self.path)
        hub.requests.append(self.path)
        parts = [unquote(part) for part in at.path.strip("/").split("/")]
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self.answer(401, b"", {"X-Error-Message": "Invalid username or password."})
        elif parts[:2] == ["api", "models"]:
            self._api("/".join(parts[2:4]), parts[4], parts[5], parse_qs(at.query))
        else:
            self._resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    def _api(
        self, repository: str, method: str, revision: str, query: dict[str, list[str]]
    ) -> None:
        commit = self.here.revisions.get((repository, revision))
        if commit is None:
            self.answer(404, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "none"})
        elif method == "revision":
            self.answer(200, json.dumps({"id": repository, "sha": commit}).encode())
        else:
            files = self.here.trees[commit]
            rows = [_row(path, files[path]) for path in sorted(files, reverse=True)]
            rows += [{"type": "directory", "path": "folder", "oid": "0", "size": 0}]
            begin = int(query.get("cursor", ["0"])[0])
            more = {}
            if begin + PAGE < len(rows):
                rest = f"recursive=true&cursor={begin + PAGE}"
                address = f"https://hub.invalid{urlsplit(self.path).path}?{rest}"
                more = {"Link": f'<{address}>; rel="next"'}
            self.answer(200, json.dumps(rows[begin : begin + PAGE]).encode(), more)

    def _resolve(self, repository: str, revision: str, path: str) -> None:
        commit = self.here.revisions.get((repository, revision), "")
        body = self.here.trees.get(commit, {}).get(path)
        if body is None:
            self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        elif len(body) > LARGE_BYTES:
            digest = hashlib.sha256(body).hexdigest()
            place = {
                "Location": f"{self.here.other_url}/{commit}/{path}?signed=%27%2B",
                "X-Linked-Etag": digest,
            }
            self.answer(302, b"", place)
        else:
            self.send_part(body, True)
