# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""TLS of the lanes between nodes without anybody's certificates: from the lane secret alone.

Every process makes the same Ed25519 key from the secret, and from that the same certificate to the
byte: nothing in it is drawn or read from a clock. It is what a process shows and all that it
trusts, so names, addresses and authorities do not matter (docs/decisions/0016). Neither key nor
certificate is ever in a file that another process could open.
"""

import datetime
import os
import ssl
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import NameOID

_LABEL: Final = b"manta lane tls 1"
_SEED_BYTES: Final = 32
_NAME: Final = "manta lanes"
_SERIAL: Final = 1
# The secret ends with the cluster, and so does whoever trusts this.
_FROM: Final = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_UNTIL: Final = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


def derived_context(protocol: int, secret: bytes) -> ssl.SSLContext:
    """Make the context of one side; both ask for the other's certificate.

    Args:
        protocol: ``ssl.PROTOCOL_TLS_SERVER`` or ``ssl.PROTOCOL_TLS_CLIENT``.
        secret: The cluster's lane secret.
    """
    context = ssl.SSLContext(protocol)
    # Only Manta's own processes speak here.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        # Lanes last; nobody resumes one.
        context.num_tickets = 0
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = _certificate_and_key(secret)
    _load(context, certificate + key)
    context.load_verify_locations(cadata=certificate.decode())
    return context


def _certificate_and_key(secret: bytes) -> tuple[bytes, bytes]:
    """Return both as PEM."""
    seed = HKDF(hashes.SHA256(), _SEED_BYTES, salt=None, info=_LABEL).derive(secret)
    key = Ed25519PrivateKey.from_private_bytes(seed)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(_SERIAL)
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        # It vouches for itself and for no other.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, None)
    )
    encoding = serialization.Encoding.PEM
    return certificate.public_bytes(encoding), key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Have a context take certificate and key; Python reads them from files only."""
    fd = os.memfd_create("manta-lane-tls", os.MFD_CLOEXEC)
    with open(fd, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{fd}")
