# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Mutual proof that both ends of a lane know the cluster secret. Pure: bytes in, bytes out.

::

    client  HELLO      magic, version, client nonce
    server  CHALLENGE  magic, version, server nonce, HMAC(secret, server label, both nonces)
    client  PROOF      HMAC(secret, client label, both nonces)

Both nonces are fresh, so nothing can be replayed; the labels differ, so nothing can be reflected.
Every message has a fixed size and nothing else is read before the proof, so a stranger costs 72
bytes and one HMAC. The secret protects who may connect, not what is read on the wire: that is TLS.
"""

import hmac
from typing import Final

VERSION: Final = 3
NONCE_BYTES: Final = 32
MIN_SECRET_BYTES: Final = 16

_MAGIC: Final = b"MANTA" + VERSION.to_bytes(3, "big")
_MAC_BYTES: Final = 32
_SERVER_LABEL: Final = b"manta lane server"
_CLIENT_LABEL: Final = b"manta lane client"


class HandshakeError(Exception):
    """The peer does not know the secret, or does not speak this protocol."""


def _mac(secret: bytes, label: bytes, client_nonce: bytes, server_nonce: bytes) -> bytes:
    return hmac.digest(secret, _MAGIC + label + client_nonce + server_nonce, "sha256")


def _require_magic(received: bytes) -> None:
    if received != _MAGIC:
        raise HandshakeError(
            f"peer opened with {received!r}, expected {_MAGIC!r}: not a lane of this version"
        )


class Handshake:
    """What both roles share: collecting messages of fixed size.

    Attributes:
        is_done: Whether the peer has proved itself.
        rest: Bytes that arrived behind the handshake; frames, once it is done.
    """

    __slots__ = ("_nonce", "_secret", "is_done", "rest")

    def __init__(self, secret: bytes, nonce: bytes) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ValueError(
                f"the lane secret has {len(secret)} bytes, expected at least {MIN_SECRET_BYTES}"
            )
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"the nonce has {len(nonce)} bytes, expected {NONCE_BYTES}")
        self._secret = secret
        self._nonce = nonce
        self.is_done = False
        self.rest = b""

    def open(self) -> bytes:
        """Return the bytes to send before anything was received."""
        raise NotImplementedError

    def feed(self, data: bytes) -> bytes:
        """Take received bytes and return the bytes to send.

        Raises:
            HandshakeError: The peer failed; the connection must be dropped without an answer.
        """
        raise NotImplementedError

    def _take(self, size_bytes: int) -> bytes | None:
        if len(self.rest) < size_bytes:
            return None
        taken, self.rest = self.rest[:size_bytes], self.rest[size_bytes:]
        return taken


class ClientHandshake(Handshake):
    """The connecting side."""

    __slots__ = ()

    def open(self) -> bytes:
        """Return HELLO."""
        return _MAGIC + self._nonce

    def feed(self, data: bytes) -> bytes:
        """Take CHALLENGE and return PROOF; done from then on."""
        self.rest += data
        message = self._take(len(_MAGIC) + NONCE_BYTES + _MAC_BYTES)
        if message is None:
            return b""
        _require_magic(message[: len(_MAGIC)])
        server_nonce = message[len(_MAGIC) : -_MAC_BYTES]
        expected = _mac(self._secret, _SERVER_LABEL, self._nonce, server_nonce)
        if not hmac.compare_digest(expected, message[-_MAC_BYTES:]):
            raise HandshakeError("the server does not know this cluster's lane secret")
        self.is_done = True
        return _mac(self._secret, _CLIENT_LABEL, self._nonce, server_nonce)


class ServerHandshake(Handshake):
    """The accepting side."""

    __slots__ = ("_client_nonce",)

    def __init__(self, secret: bytes, nonce: bytes) -> None:
        super().__init__(secret, nonce)
        self._client_nonce = b""

    def open(self) -> bytes:
        """Return nothing: the client speaks first."""
        return b""

    def feed(self, data: bytes) -> bytes:
        """Take HELLO and return CHALLENGE, then take PROOF and be done."""
        self.rest += data
        if not self._client_nonce:
            hello = self._take(len(_MAGIC) + NONCE_BYTES)
            if hello is None:
                return b""
            _require_magic(hello[: len(_MAGIC)])
            self._client_nonce = hello[len(_MAGIC) :]
            if self.rest:
                raise HandshakeError("the client sent a proof before it was challenged")
            mac = _mac(self._secret, _SERVER_LABEL, self._client_nonce, self._nonce)
            return _MAGIC + self._nonce + mac
        proof = self._take(_MAC_BYTES)
        if proof is None:
            return b""
        expected = _mac(self._secret, _CLIENT_LABEL, self._client_nonce, self._nonce)
        if not hmac.compare_digest(expected, proof):
            raise HandshakeError("the client does not know this cluster's lane secret")
        self.is_done = True
        return b""
