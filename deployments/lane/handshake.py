# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Mutual proof that both ends of a lane know the cluster secret. Pure: bytes in, bytes out.

::

    client  HELLO      magic, oldest and newest version it speaks, client nonce
    server  CHALLENGE  magic, the version that is spoken twice, server nonce,
                       HMAC(secret, both beginnings, server label, both nonces)
    client  PROOF      HMAC(secret, both beginnings, client label, both nonces)

The newest version that both speak is spoken. The proofs cover what was offered and what was chosen,
so nobody between the two can have them speak an older one. The handshake itself is the same in all
versions: they are about what comes behind it.

Both nonces are fresh, so nothing can be replayed; the labels differ, so nothing can be reflected.
Every message has a fixed size and nothing else is read before the proof, so a stranger costs 72
bytes and one HMAC. The secret protects who may connect, not what is read on the wire: that is TLS.
"""

import hmac
from typing import Final

from deployments.contracts.protocols import PROTOCOLS, Versions

NONCE_BYTES: Final = 32
MIN_SECRET_BYTES: Final = 16

_MAGIC: Final = b"MANTA\0"
_BEGINNING_BYTES: Final = len(_MAGIC) + 2
_MAC_BYTES: Final = 32
_SERVER_LABEL: Final = b"manta lane server"
_CLIENT_LABEL: Final = b"manta lane client"


class HandshakeError(Exception):
    """The peer does not know the secret, or does not speak this protocol."""


# A new version is what a peer of an older one would take for a fault: a kind of frame that it does
# not know, or another meaning of one that it knows. A field at the end of a message, with a
# default, needs none.
SPOKEN: Final = PROTOCOLS["lanes"]


def _beginning(versions: Versions) -> bytes:
    return _MAGIC + bytes((versions.oldest, versions.newest))


def _read_beginning(received: bytes) -> Versions:
    if not received.startswith(_MAGIC):
        raise HandshakeError(f"peer opened with {received!r}, expected {_MAGIC!r}: not a lane")
    return Versions(received[-2], received[-1])


class Handshake:
    """What both roles share: collecting messages of fixed size.

    Attributes:
        is_done: Whether the peer has proved itself.
        rest: Bytes that arrived behind the handshake; frames, once it is done.
        version: The version that is spoken; 0 until it is known.
    """

    __slots__ = ("_nonce", "_secret", "_versions", "is_done", "rest", "version")

    def __init__(self, secret: bytes, nonce: bytes, versions: Versions = SPOKEN) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ValueError(
                f"the lane secret has {len(secret)} bytes, expected at least {MIN_SECRET_BYTES}"
            )
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"the nonce has {len(nonce)} bytes, expected {NONCE_BYTES}")
        self._secret = secret
        self._nonce = nonce
        self._versions = versions
        self.is_done = False
        self.rest = b""
        self.version = 0

    def open(self) -> bytes:
        """Return the bytes to send before anything was received."""
        raise NotImplementedError

    def feed(self, data: bytes) -> bytes:
        """Take received bytes and return the bytes to send.

        Raises:
            HandshakeError: The peer failed; the connection must be dropped without an answer.
        """
        raise NotImplementedError

    def _mac(self, label: bytes, offer: bytes, nonces: bytes) -> bytes:
        chosen = _beginning(Versions(self.version, self.version))
        return hmac.digest(self._secret, offer + chosen + label + nonces, "sha256")

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
        return _beginning(self._versions) + self._nonce

    def feed(self, data: bytes) -> bytes:
        """Take CHALLENGE and return PROOF; done from then on."""
        self.rest += data
        message = self._take(_BEGINNING_BYTES + NONCE_BYTES + _MAC_BYTES)
        if message is None:
            return b""
        chosen = _read_beginning(message[:_BEGINNING_BYTES])
        if chosen.oldest != chosen.newest or not self._versions.common(chosen):
            raise HandshakeError(
                f"the server answers in versions {chosen} of the protocol, this end speaks "
                f"{self._versions}"
            )
        self.version = chosen.newest
        offer = _beginning(self._versions)
        nonces = self._nonce + message[_BEGINNING_BYTES:-_MAC_BYTES]
        expected = self._mac(_SERVER_LABEL, offer, nonces)
        if not hmac.compare_digest(expected, message[-_MAC_BYTES:]):
            raise HandshakeError("the server does not know this cluster's lane secret")
        self.is_done = True
        return self._mac(_CLIENT_LABEL, offer, nonces)


class ServerHandshake(Handshake):
    """The accepting side."""

    __slots__ = ("_hello",)

    def __init__(self, secret: bytes, nonce: bytes, versions: Versions = SPOKEN) -> None:
        super().__init__(secret, nonce, versions)
        self._hello = b""

    def open(self) -> bytes:
        """Return nothing: the client speaks first."""
        return b""

    def feed(self, data: bytes) -> bytes:
        """Take HELLO and return CHALLENGE, then take PROOF and be done."""
        self.rest += data
        if not self._hello:
            hello = self._take(_BEGINNING_BYTES + NONCE_BYTES)
            if hello is None:
                return b""
            offered = _read_beginning(hello[:_BEGINNING_BYTES])
            self.version = self._versions.common(offered)
            if not self.version:
                raise HandshakeError(
                    f"the client speaks versions {offered} of the protocol, this end "
                    f"{self._versions}; end one of the two builds"
                )
            self._hello = hello
            if self.rest:
                raise HandshakeError("the client sent a proof before it was challenged")
            chosen = _beginning(Versions(self.version, self.version))
            return chosen + self._nonce + self._proof(_SERVER_LABEL)
        proof = self._take(_MAC_BYTES)
        if proof is None:
            return b""
        if not hmac.compare_digest(self._proof(_CLIENT_LABEL), proof):
            raise HandshakeError("the client does not know this cluster's lane secret")
        self.is_done = True
        return b""

    def _proof(self, label: bytes) -> bytes:
        offer, client_nonce = self._hello[:_BEGINNING_BYTES], self._hello[_BEGINNING_BYTES:]
        return self._mac(label, offer, client_nonce + self._nonce)
