# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made on the spot: an authority, a server, a client, and a stranger."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PASS_PHRASE = b"secret"


class Certificates:
    """Paths of PEM files in a folder.

    Attributes:
        folder: The folder.
        root: The authority's certificate; it has signed server's and client's.
        server: Certificate of localhost and 127.0.0.1, and its key.
        client: Those of a client.
        stranger: Those of a client that another authority has signed.
        expired: Those of a client that are good no more.
        encrypted_key: The server's key with a pass phrase.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root.pem"
        self.encrypted_key = folder / "encrypted.key"
        self.server, self.client, self.stranger, self.expired = (
            (folder / f"{name}.pem", folder / f"{name}.key")
            for name in ("server", "client", "stranger", "expired")
        )

    def flags(self, protocol: str, *, mutual: bool = False) -> list[str]:
        """Flags that make a server use them."""
        certificate, key = self.server
        return [
            f"--{protocol}-use-ssl=true",
            f"--{protocol}-server-cert={certificate}",
            f"--{protocol}-server-key={key}",
            *([f"--{protocol}-use-ssl-mutual=true"] if mutual else []),
            *([f"--{protocol}-root-cert={self.root}"] if mutual else []),
        ]


def make_certificates(folder: Path) -> Certificates:
    """Write all files into a folder."""
    made = Certificates(folder)
    root_key, other_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _sign("test root", root_key, "test root", root_key, is_authority=True)
    _write(made.root, root)
    for name, signer, signer_key in (
        ("server", "test root", root_key),
        ("client", "test root", root_key),
        ("expired", "test root", root_key),
        ("stranger", "other root", other_key),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder / f"{name}.pem", _sign(name, key, signer, signer_key))
        _write_key(folder / f"{name}.key", key, serialization.NoEncryption())
        if name == "server":
            encryption = serialization.BestAvailableEncryption(PASS_PHRASE)
            _write_key(made.encrypted_key, key, encryption)
    return made


def _sign(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signer: str,
    signer_key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    ends_in = datetime.timedelta(hours=-1 if name == "expired" else 24)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder(
            _name(signer), _name(name), key.public_key(), x509.random_serial_number()
        )
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + ends_in)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .sign(signer_key, hashes.SHA256())
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_key(
    path: Path,
    key: ec.EllipticCurvePrivateKey,
    encryption: serialization.KeySerializationEncryption,
) -> None:
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
