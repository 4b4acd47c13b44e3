# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Doubles for access policies: an issuer of tokens, certificates with names, policies in files."""

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from deployments.access.contracts import Headers, Peer
from deployments.access.guard import PolicyGuard, make_guard
from deployments.access.keys import hash_made, make_key

ISSUER = "https://issuer.example"
AUDIENCE = "manta"
NOW_S = 1_800_000_000.0
HTTP = Peer("http")


class Clock:
    """A wall clock that is set."""

    def __init__(self, now_s: float = NOW_S) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


class TokenIssuer:
    """Signs tokens with a key on P-256."""

    def __init__(self, kid: str = "one") -> None:
        self.kid = kid
        self.key = ec.generate_private_key(ec.SECP256R1())

    def jwk(self) -> dict[str, Any]:
        """The public key."""
        row = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {**row, "kid": self.kid, "use": "sig", "alg": "ES256"}

    def jwks(self, *others: "TokenIssuer") -> bytes:
        """The set of this public key and others."""
        return json.dumps({"keys": [each.jwk() for each in (self, *others)]}).encode()

    def public_pem(self) -> bytes:
        return self.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def token(self, header: Mapping[str, Any] | None = None, **claims: Any) -> bytes:
        """A token that is good for a minute from `NOW_S`; claims that are None are left out."""
        given = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "alice",
            "exp": NOW_S + 60,
            "iat": NOW_S - 1,
            **claims,
        }
        payload = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(
            payload, self.key, "ES256", headers={"kid": self.kid, **(header or {})}
        ).encode()


def bearer(token: bytes) -> Headers:
    return [(b"authorization", b"Bearer " + token)]


def made_key(name: str) -> str:
    """A random key, the same for the same name."""
    return make_key(name.encode().ljust(32, b"."))


def key_entry(name: str, **more: Any) -> dict[str, Any]:
    """An entry for `made_key`."""
    return {"subject": name, "hash": hash_made(made_key(name)), **more}


def write_policy(folder: Path, policy: Mapping[str, Any]) -> Path:
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump(dict(policy)))
    return file


def guard_of(folder: Path, policy: Mapping[str, Any], clock: Clock | None = None) -> PolicyGuard:
    return make_guard(str(write_policy(folder, policy)), clock or Clock(), has_audit=False)


def certificate(
    *names: x509.GeneralName, ends_s: float = NOW_S + 60, name: str = "client"
) -> bytes:
    """A certificate with alternative names, DER; a day old, and good until `ends_s`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    ends = datetime.datetime.fromtimestamp(ends_s, datetime.UTC)
    builder = x509.CertificateBuilder(
        subject, subject, key.public_key(), x509.random_serial_number()
    )
    builder = builder.not_valid_before(ends - datetime.timedelta(days=1)).not_valid_after(ends)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
