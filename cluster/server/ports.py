# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reserves the ports of the ingress before its replicas exist.

All replicas of a node listen on the same ports with SO_REUSEPORT, so an ephemeral port must be
chosen once, and a port that some other program listens on must be refused rather than shared.
"""

import socket
from typing import Self


class PortInUseError(Exception):
    """A port cannot be had; the message names it and its flag."""


class PortReservation:
    """Holds ports, bound but not listening, until the replicas listen on them."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def reserve(self, flag: str, host: str, port: int) -> int:
        """Reserve a port and return its number; 0 picks a free one.

        Raises:
            PortInUseError: Something else has the port, or the address is not this host's.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if port:
            # Without SO_REUSEPORT this fails also when the other listener would share the port.
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._bind(probe, flag, host, port)
        held = socket.socket(family)
        self._sockets.append(held)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._bind(held, flag, host, port)
        number: int = held.getsockname()[1]
        return number

    def close(self) -> None:
        """Give the ports up."""
        for each in self._sockets:
            each.close()
        self._sockets.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _bind(target: socket.socket, flag: str, host: str, port: int) -> None:
        try:
            target.bind((host, port))
        except OSError as error:
            raise PortInUseError(
                f"{flag}: cannot listen on {host}:{port}: {error.strerror}; stop what listens "
                f"there or give another port (0 picks a free one)"
            ) from error
