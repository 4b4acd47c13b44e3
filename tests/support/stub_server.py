# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N815 - methods have the names that the standard library calls
"""An HTTP server of the standard library that answers what a test wants, and keeps requests."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


@dataclass
class Stub:
    """What it answers, and what it was asked.

    Attributes:
        url: Where it is.
        answers: Status and body by method and path; 404 for others.
        asked: Method, path, headers with names in lower case, and body.
        headers: Of every answer.
    """

    url: str = ""
    answers: dict[tuple[str, str], tuple[int, bytes]] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def stub_server(tls: ssl.SSLContext | None = None, unix: str = "") -> Iterator[Stub]:
    """Run one on a port, or on a Unix socket."""
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fields = {name.lower(): value for name, value in self.headers.items()}
            stub.asked.append((self.command, self.path, fields, body))
            status, text = stub.answers.get((self.command, self.path), (404, b"Not Found"))
            self.send_response(status)
            for name, value in {**stub.headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def address_string(self) -> str:
            return "client"

        def log_message(self, *_: Any) -> None:
            """Nowhere."""

    class Server(HTTPServer):
        address_family: int = socket.AF_UNIX if unix else socket.AF_INET

        def server_bind(self) -> None:
            # Not HTTPServer's, which looks the host up.
            self.socket.bind(self.server_address)
            self.server_address = self.socket.getsockname()

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that breaks a handshake off is what a test is about."""

    place: Any = unix or ("127.0.0.1", 0)
    with Server(place, Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        port = "" if unix else server.server_address[1]
        stub.url = f"unix:{unix}" if unix else f"{'https' if tls else 'http'}://localhost:{port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()
