# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An HTTP server that answers what a test wants, and keeps requests."""

import ssl
from typing import Any

from tests.support.loopback_server import LoopbackServer, QuietHandler


class Stub(LoopbackServer):
    """Listens on a port, or on a Unix socket.

    Attributes:
        answers: Status and body by method and path; 404 for others.
        asked: Method, path, headers with names in lower case, and body.
        headers: Of every answer.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, unix: str = "") -> None:
        super().__init__(_Handler, place=unix or ("127.0.0.1", 0))
        self._tls, self._unix = tls, unix
        self.answers: dict[tuple[str, str], tuple[int, bytes]] = {}
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.headers: dict[str, str] = {}
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    @property
    def url(self) -> str:
        """Where it is."""
        if self._unix:
            return f"unix:{self._unix}"
        return f"{'https' if self._tls else 'http'}://localhost:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks a handshake off is what a test is about."""


class _Handler(QuietHandler):
    here: Stub

    def respond(self) -> None:
        fields = {name.lower(): value for name, value in self.headers.items()}
        self.here.asked.append((self.command, self.path, fields, self.body()))
        asked = (self.command, self.path)
        status, text = self.here.answers.get(asked, (404, b"Not Found"))
        self.answer(status, text, self.here.headers)
