# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Connections to what a server says of its addresses, Unix sockets among them."""

import http.client
import socket

_UNIX = "unix:"


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket that is a file."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def connection_to(address: str, timeout_s: float = 30.0) -> http.client.HTTPConnection:
    """Return a connection to ``host:port`` or ``unix:/path``; it connects when it is used."""
    if address.startswith(_UNIX):
        return UnixConnection(address.removeprefix(_UNIX), timeout_s)
    return http.client.HTTPConnection(address, timeout=timeout_s)


def grpc_target(address: str) -> str:
    """Return how gRPC's clients are told of ``host:port`` or ``unix:@name``."""
    return address.replace(f"{_UNIX}@", "unix-abstract:")
