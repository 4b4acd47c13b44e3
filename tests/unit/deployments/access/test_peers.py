# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a connection shows of its peer."""

import asyncio
import os
import socket

from deployments.access.contracts import Peer
from deployments.access.peers import is_nameless, peer_of


async def peer_at(server_side: socket.socket) -> Peer:
    transport, _ = await asyncio.get_running_loop().create_connection(
        asyncio.Protocol, sock=server_side
    )
    try:
        return peer_of(transport, "http")
    finally:
        transport.close()


async def test_a_user_of_this_machine_is_known_at_a_unix_socket() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with theirs:
        peer = await peer_at(ours)
    assert peer == Peer("http", b"", os.getuid(), os.getgid(), False)
    assert not is_nameless(peer)


async def test_a_connection_over_tcp_without_tls_has_no_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
        with client:
            peer = await peer_at(accepted)
    assert peer == Peer("http", b"", -1, -1, False)
    assert is_nameless(peer)


def test_who_shows_a_certificate_or_is_root_has_a_name() -> None:
    assert not is_nameless(Peer("http", b"der"))
    assert not is_nameless(Peer("http", uid=0, gid=0))


class Encrypted(asyncio.Transport):
    """A transport whose TLS handshake has shown a certificate, or none."""

    def __init__(self, certificate: bytes | None) -> None:
        super().__init__({"ssl_object": self})
        self._certificate = certificate

    def getpeercert(self, *, binary_form: bool) -> bytes | None:
        assert binary_form
        return self._certificate


def test_a_certificate_is_what_the_handshake_has_shown() -> None:
    assert peer_of(Encrypted(b"der"), "grpc") == Peer("grpc", b"der", -1, -1, True)
    assert peer_of(Encrypted(None), "grpc") == Peer("grpc", b"", -1, -1, True)
