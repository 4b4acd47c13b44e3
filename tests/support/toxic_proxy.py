# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy in front of a store that does what networks and stores do on bad days."""

import http.client
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar, Self
from urllib.parse import urlsplit

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


class ToxicProxy:
    """The proxy; requests are counted.

    Args:
        upstream: URL of the store.

    Attributes:
        choose: What to do with requests from now on.
        seen: Requests that came.
        sent_bytes: Bytes of bodies that went to clients.
    """

    def __init__(self, upstream: str) -> None:
        self.choose: Choose = lambda seen: None
        self.seen: list[Seen] = []
        self.sent_bytes = 0
        self._upstream = urlsplit(upstream).netloc
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

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


def _handler_of(proxy: ToxicProxy) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"proxy": proxy})


class _Handler(BaseHTTPRequestHandler):
    proxy: ToxicProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout: ClassVar[float | None] = _LINGER_S

    def _pass_on(self) -> None:
        seen = Seen(self.command, self.path, self.headers.get("Authorization", ""))
        self.proxy.seen.append(seen)
        toxic = self.proxy.choose(seen) or Toxic()
        body = self._body()
        if toxic.before is not None:
            toxic.before()
        if toxic.status:
            answer = (toxic.status, list(toxic.headers.items()), toxic.body)
        else:
            answer = self.proxy.ask(self.command, self.path, dict(self.headers.items()), body)
        if toxic.after is not None:
            toxic.after()
        if toxic.latency_s:
            time.sleep(toxic.latency_s)
        self._answer(*answer, toxic.cut_after_bytes)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        del self.headers["Transfer-Encoding"]
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(
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
        self.proxy.sent_bytes += len(sent)
        self.wfile.write(sent)
        self.wfile.flush()
        if cut is not None:
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _pass_on  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""
