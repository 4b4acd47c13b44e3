# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who is at the other end of a connection, as the connection itself shows it."""

import asyncio
import socket
import struct
from typing import Final

from deployments.access.contracts import Peer

# struct ucred of <sys/socket.h>: process, user, group.
_CREDENTIALS: Final = struct.Struct("3i")


def peer_of(transport: asyncio.BaseTransport, protocol: str) -> Peer:
    """Return the peer of a connection that is complete, its TLS handshake included.

    Args:
        transport: The connection.
        protocol: The port, as `Peer` has it.
    """
    certificate = b""
    encrypted = transport.get_extra_info("ssl_object")
    if encrypted is not None:
        # Verified: the context asks for a certificate only to check it.
        certificate = encrypted.getpeercert(binary_form=True) or b""
    uid, gid = _unix_user(transport.get_extra_info("socket"))
    return Peer(protocol, certificate, uid, gid, encrypted is not None)


def is_nameless(peer: Peer) -> bool:
    """Whether the connection by itself says nothing of who the peer is."""
    return not peer.certificate and peer.uid < 0


def _unix_user(sock: socket.socket | None) -> tuple[int, int]:
    if sock is None or sock.family != socket.AF_UNIX:
        return -1, -1
    packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, gid = _CREDENTIALS.unpack(packed)
    return uid, gid
