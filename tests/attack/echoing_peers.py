# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Peers of a server that refuse it, and repeat in their refusal what it has shown to them."""

import socketserver
import threading
from typing import Final

from tests.support.loopback_server import LoopbackServer, QuietHandler

_MOST_BYTES: Final = 1 << 16


class _Http(QuietHandler):
    """As an object store, a hub or a registry."""

    def respond(self) -> None:
        self.rfile.read(min(int(self.headers.get("Content-Length", 0)), _MOST_BYTES))
        self.server.shown.add(f"{self.path} {self.headers.get('Authorization', '')}")  # type: ignore[attr-defined]
        shown = f"{self.path}\n{self.headers}".replace("<", "(").replace("&", "+")
        body = (
            "<?xml version='1.0'?><Error><Code>AccessDenied</Code>"
            f"<Message>not for you: {shown}</Message></Error>"
        ).encode()
        said = "not for you: " + self.headers.get("Authorization", "")
        self.answer(403, body, {"Content-Type": "application/xml", "X-Error-Message": said})


class _Redis(socketserver.StreamRequestHandler):
    """As a Redis that does not know a command, which repeats its arguments."""

    def handle(self) -> None:
        while line := self.rfile.readline():
            words = []
            for _ in range(int(line[1:])):
                self.rfile.readline()
                words.append(self.rfile.readline().strip().decode("utf-8", "replace"))
            self.server.shown.add(" ".join(words))  # type: ignore[attr-defined]
            shown = " ".join(f"'{word}'" for word in words[1:])
            answer = f"-ERR unknown command `{words[0]}`, with args beginning with: {shown}\r\n"
            self.wfile.write(answer.encode())


class _Threaded(socketserver.ThreadingTCPServer):
    daemon_threads = True


class Shown:
    """What peers were shown, each from a thread of its own."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._more = threading.Condition()

    def add(self, text: str) -> None:
        """Take a text."""
        with self._more:
            self._texts.append(text)
            self._more.notify_all()

    def has(self, part: str, timeout_s: float) -> bool:
        """Whether a part is in a text that was added or is within the time."""
        with self._more:
            return self._more.wait_for(
                lambda: any(part in text for text in self._texts), timeout=timeout_s
            )


class EchoingPeers:
    """Both of them, on ports of loopback.

    Attributes:
        http: host:port.
        redis: Port.
        shown: What both were shown.
    """

    def __init__(self) -> None:
        self._servers = (
            LoopbackServer(_Http),
            _Threaded(("127.0.0.1", 0), _Redis),
        )
        self.shown = Shown()
        for server in self._servers:
            server.shown = self.shown  # type: ignore[union-attr]
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.http = self._servers[0].address
        self.redis = int(self._servers[1].server_address[1])

    def close(self) -> None:
        """End both."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
