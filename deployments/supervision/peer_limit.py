# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counts the connections of each peer's address, so that one client cannot have them all."""

from typing import Generic, TypeVar

Connection = TypeVar("Connection")


class PeerLimit(Generic[Connection]):
    """Bounds the open connections of an address.

    Args:
        count: The most; 0 for any number, and then nothing is counted.
    """

    __slots__ = ("_counts", "_hosts", "limit")

    def __init__(self, count: int) -> None:
        self.limit = count
        self._hosts: dict[Connection, str] = {}
        self._counts: dict[str, int] = {}

    def opened(self, connection: Connection, host: str) -> bool:
        """Count a connection; False, and it is not counted, when its peer has too many.

        Args:
            connection: The connection.
            host: Its peer's address; empty where there is none, as behind a Unix socket.
        """
        if not (self.limit and host):
            return True
        count = self._counts.get(host, 0)
        if count >= self.limit:
            return False
        self._counts[host] = count + 1
        self._hosts[connection] = host
        return True

    def closed(self, connection: Connection) -> None:
        """Forget a connection, if it was counted."""
        host = self._hosts.pop(connection, None)
        if host is None:
            return
        count = self._counts[host] - 1
        if count:
            self._counts[host] = count
        else:
            del self._counts[host]


def host_of(peername: object) -> str:
    """Return the address of what a socket calls its peer; empty where it has none."""
    return str(peername[0]) if isinstance(peername, tuple) and peername else ""
