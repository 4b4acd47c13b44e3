# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy in front of a store that does what networks and stores do on bad days."""

import http.client
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from tests.support.loopback_server import LoopbackServer, QuietHandler

_OWN_HEADERS = {"connection", "transfer-encoding", "keep-alive"}
_LINGER_S = 30


@dataclass(frozen=True)
class Toxic:
    """What happens to a request.

    Attributes:
        status: Answer with this status in the store's place; 0 for the store's own answer.
        body: Body of that answer.
        headers: Headers of that answer.
        latency_s: Wait before the answer.
        cut_after_bytes: Cut the connection after so many bytes of the body.
        before: Called before the store is asked.
        after: Called when the store has answered, before the client has the answer.
    """

    status: int = 0
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    latency_s: float = 0.0
    cut_after_bytes: int | None = None
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None


@dataclass(frozen=True)
class Seen:
    """A request that came."""

    method: str
    path: str
    authorization: str = ""


# Chooses what happens to a request; None for nothing.
Choose = Callable[[Seen], Toxic | None]


class ToxicProxy(LoopbackServer):
    """The proxy; requests are counted.

    Args:
        upstream: URL of the store.

    Attributes:
        choose: What to do with requests from now on.
        seen: Requests that came.
        sent_bytes: Bytes of bodies that went to clients.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(_Handler)
        self.choose: Choose = lambda seen: None
        self.seen: list[Seen] = []
        self.sent_bytes = 0
        self._upstream = urlsplit(upstream).netloc

    def heal(self) -> None:
        """Let everything through, and forget what came."""
        self.choose = lambda seen: None
        self.seen.clear()
        self.sent_bytes = 0

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Ask the store itself."""
        connection = http.client.HTTPConnection(self._upstream, timeout=_LINGER_S)
        with closing(connection):
            connection.request(method, path, body, headers)
            said = connection.getresponse()
            kept = [(k, v) for k, v in said.getheaders() if k.lower() not in _OWN_HEADERS]
            return said.status, kept, said.read()


def first(count: int, toxic: Toxic) -> Choose:
    """Let something happen to the first requests."""
    left = [count]

    def choose(seen: Seen) -> Toxic | None:
        left[0] -= 1
        return toxic if left[0] >= 0 else None

    return choose


def always(toxic: Toxic) -> Choose:
    """Let something happen to each request."""
    return lambda seen: toxic


def each_third(toxic: Toxic) -> Choose:
    """Let something happen to each third request."""
    count = [0]

    def choose(seen: Seen) -> Toxic | None:
        count[0] += 1
        return toxic if count[0] % 3 == 1 else None

    return choose


class _Handler(QuietHandler):
    here: ToxicProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout: ClassVar[float | None] = _LINGER_S

    def respond(self) -> None:
        seen = Seen(self.command, self.path, self.headers.get("Authorization", ""))
        self.here.seen.append(seen)
        toxic = self.here.choose(seen) or Toxic()
        body = self.body()
        if toxic.before is not None:
            toxic.before()
        if toxic.status:
            answer = (toxic.status, list(toxic.headers.items()), toxic.body)
        else:
            answer = self.here.ask(self.command, self.path, dict(self.headers.items()), body)
        if toxic.after is not None:
            toxic.after()
        if toxic.latency_s:
            time.sleep(toxic.latency_s)
        self._pass_back(*answer, toxic.cut_after_bytes)

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return super().body()
        del self.headers["Transfer-Encoding"]
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _pass_back(
        self, status: int, headers: list[tuple[str, str]], body: bytes, cut: int | None
    ) -> None:
        self.send_response_only(status)
        for key, value in headers:
            if key.lower() != "content-length":
                self.send_header(key, value)
        length = {k.lower(): v for k, v in headers}.get("content-length", "")
        is_head = self.command == "HEAD"
        self.send_header("Content-Length", length if is_head and length else str(len(body)))
        self.end_headers()
        sent = body if cut is None else body[:cut]
        self.here.sent_bytes += len(sent)
        self.wfile.write(sent)
        self.wfile.flush()
        if cut is not None:
            self.close_connection = True
