# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP servers on loopback that tests write in a few lines."""

import socket
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread
from typing import Any, Self


class QuietHandler(BaseHTTPRequestHandler):
    """Handles requests of all methods alike, without a word on stderr.

    Attributes:
        here: The server, or what it was given in place of itself.
    """

    here: Any

    def respond(self) -> None:
        """Respond to a request; by `answer`, as a rule."""
        raise NotImplementedError

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = (  # noqa: N815 - http.server's
        lambda self: self.respond()
    )

    def body(self) -> bytes:
        """Read the body of a request that tells its length."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send an answer; that to HEAD has no body."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class LoopbackServer(ThreadingHTTPServer):
    """Serves from a thread of its own while a block runs."""

    def __init__(
        self,
        handler: type[QuietHandler],
        here: object = None,
        place: str | tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self.address_family = socket.AF_UNIX if isinstance(place, str) else socket.AF_INET
        bound: Any = place
        super().__init__(bound, type("_Of", (handler,), {"here": here or self}))

    def server_bind(self) -> None:
        """Bind; unlike HTTPServer's this looks no host up."""
        TCPServer.server_bind(self)
        if self.address_family == socket.AF_INET:
            self.server_port = self.server_address[1]

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
