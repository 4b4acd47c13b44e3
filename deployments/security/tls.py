# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""TLS of the HTTP, gRPC and metrics ports: files named by flags, what a listener makes of them.

Only paths travel through Ray: each ingress reads the files on its own node, so that no private key
gets into Ray's tables, its dashboard or a log.

Triton: server/src/grpc/grpc_server.cc Server::Server @e1db8a6, which neither checks the files nor
serves HTTP over TLS.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backends.api.errors import InvalidArgumentError

# What HTTP/2 allows under TLS 1.2 (RFC 9113 section 9.2.2); TLS 1.3 has no others.
_TLS12_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
# A peer that does not answer our close_notify does not hold the connection longer.
_SHUTDOWN_TIMEOUT_S: Final = 5.0
_MISMATCH: Final = "KEY_VALUES_MISMATCH"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files.

    Attributes:
        protocol: ``grpc``, ``http`` or ``metrics``, the first word of the flags.
        certificate: The server's certificate, followed by those between it and the root.
        key: Its private key, without a pass phrase.
        root: Certificates that clients' ones are checked against; needed where clients show any.
        is_mutual: Whether clients must show a certificate.
        is_optional: Whether clients that need not are asked for one; one that is shown is checked.
    """

    protocol: str
    certificate: str
    key: str
    root: str = ""
    is_mutual: bool = False
    is_optional: bool = False

    def context(self, alpn: str) -> ssl.SSLContext:
        """Read the files into the context of a listener: TLS 1.2 or 1.3.

        Args:
            alpn: The protocol that is offered.

        Raises:
            InvalidArgumentError: A file cannot be read, holds something else or does not fit the
                others; the message names flag and file.
        """
        self._read()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_ciphers(_TLS12_CIPHERS)
        context.set_alpn_protocols([alpn])
        self._load_pair(context)
        if self.is_mutual or self.is_optional:
            context.load_verify_locations(self.root)
            context.verify_mode = ssl.CERT_REQUIRED if self.is_mutual else ssl.CERT_OPTIONAL
        return context

    def pems(self) -> tuple[bytes, bytes, bytes | None]:
        """Return the contents of certificate, key and, for mutual TLS, root.

        Raises:
            InvalidArgumentError: As `context`.
        """
        certificate, key, root = self._read()
        self._load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        return certificate, key, root if self.is_mutual else None

    def listen_options(self, alpn: str, handshake_timeout_s: float) -> dict[str, Any]:
        """Return the arguments that make an event loop's ``create_server`` listen with TLS.

        Raises:
            InvalidArgumentError: As `context`.
        """
        return {
            "ssl": self.context(alpn),
            "ssl_handshake_timeout": handshake_timeout_s,
            "ssl_shutdown_timeout": _SHUTDOWN_TIMEOUT_S,
        }

    def _read(self) -> tuple[bytes, bytes, bytes]:
        certificate = self._certificates("server-cert", self.certificate)
        key = self._bytes("server-key", self.key)
        needs_root = self.is_mutual or self.is_optional or bool(self.root)
        root = self._certificates("root-cert", self.root) if needs_root else b""
        return certificate, key, root

    def _bytes(self, flag: str, path: str) -> bytes:
        if not path:
            raise InvalidArgumentError(f"--{self.protocol}-{flag} is needed for TLS, got none")
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise self._refusal(flag, path, f"cannot be read: {error.strerror}") from None

    def _certificates(self, flag: str, path: str) -> bytes:
        content = self._bytes(flag, path)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        except ssl.SSLError:
            raise self._refusal(flag, path, "holds no certificate in PEM format") from None
        return content

    def _load_pair(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self.certificate, self.key, password=_refuse_password)
        except _EncryptedKeyError:
            raise self._refusal(
                "server-key", self.key, "is encrypted, expected a key without a pass phrase"
            ) from None
        except ssl.SSLError as error:
            if error.reason == _MISMATCH:
                raise self._refusal(
                    "server-key",
                    self.key,
                    f"does not belong to the certificate in '{self.certificate}'"
                    f" (--{self.protocol}-server-cert)",
                ) from None
            if str(error.reason).startswith(("EE_KEY", "CA_MD")):
                raise self._refusal(
                    "server-cert", self.certificate, f"is too weak for TLS: {error.reason}"
                ) from None
            raise self._refusal(
                "server-key", self.key, "holds no private key in PEM format"
            ) from None

    def _refusal(self, flag: str, path: str, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"--{self.protocol}-{flag}: file '{path}' {what}")


class _EncryptedKeyError(Exception):
    """OpenSSL asks for a pass phrase."""


def _refuse_password() -> str:
    raise _EncryptedKeyError
