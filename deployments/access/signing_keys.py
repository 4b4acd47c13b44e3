# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The public keys of an issuer: a JWK set (RFC 7517), read. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from backends.api.errors import InvalidArgumentError

SET_LIMIT_BYTES: Final = 1 << 20
_MOST_KEYS: Final = 100
_LEAST_RSA_BITS: Final = 2048
_MOST_RSA_BITS: Final = 8192
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# Algorithms by type and curve of a key; symmetric keys have none.
_ALGORITHMS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
# What is taken of a key: nothing private, no certificates, no addresses.
_PUBLIC_MEMBERS: Final = ("kty", "crv", "n", "e", "x", "y")


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """Public keys.

    Attributes:
        digest: Of what they were read from.
        keys: By key id, then by algorithm; keys without an id have an empty one.
    """

    digest: bytes = b""
    keys: Mapping[str, Mapping[str, jwt.PyJWK]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key for a signature.

        Args:
            kid: As the token says; None where it says nothing, which is enough if there is only one
                key for the algorithm.
            algorithm: As the token says, and the policy allows.
        """
        if kid is not None:
            return self.keys.get(kid, {}).get(algorithm)
        fitting = [keys[algorithm] for keys in self.keys.values() if algorithm in keys]
        return fitting[0] if len(fitting) == 1 else None


def read_signing_keys(content: bytes, place: str) -> SigningKeys:
    """Return the keys of a JWK set; those that check no signatures are left out.

    Args:
        content: JSON.
        place: Where it is from, for errors.

    Raises:
        InvalidArgumentError: It is no JWK set, or has no key for signatures.
    """
    if len(content) > SET_LIMIT_BYTES:
        raise InvalidArgumentError(
            f"JWK set of {place} has {len(content)} bytes, expected at most {SET_LIMIT_BYTES}"
        )
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        raise InvalidArgumentError(f"JWK set of {place} is not JSON") from None
    rows = read.get("keys") if isinstance(read, dict) else None
    if not isinstance(rows, list) or len(rows) > _MOST_KEYS:
        raise InvalidArgumentError(
            f"JWK set of {place} is wrong: expected an object with a list 'keys' of at most "
            f"{_MOST_KEYS} keys"
        )
    keys: dict[str, dict[str, jwt.PyJWK]] = {}
    for row in rows:
        kid, by_algorithm = _key(row)
        if by_algorithm:
            keys.setdefault(kid, {}).update(by_algorithm)
    if not keys:
        raise InvalidArgumentError(
            f"JWK set of {place} has no key that checks signatures: expected RSA keys of "
            f"{_LEAST_RSA_BITS} bits or more, or keys of P-256, P-384, P-521 or Ed25519"
        )
    return SigningKeys(hashlib.sha256(content).digest(), keys)


def _key(row: object) -> tuple[str, dict[str, jwt.PyJWK]]:
    if not isinstance(row, dict) or row.get("use", "sig") != "sig":
        return "", {}
    operations = row.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return "", {}
    kid, curve = row.get("kid", ""), row.get("crv", "")
    algorithms = _ALGORITHMS.get((str(row.get("kty")), str(curve)), ())
    if "alg" in row:
        algorithms = tuple(each for each in algorithms if each == row["alg"])
    public = {name: row[name] for name in _PUBLIC_MEMBERS if name in row}
    made = {algorithm: key for algorithm in algorithms if (key := _public_key(public, algorithm))}
    return (kid, made) if isinstance(kid, str) else ("", {})


def _public_key(public: dict[str, Any], algorithm: str) -> jwt.PyJWK | None:
    try:
        key = jwt.PyJWK(public, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
        return None
    if isinstance(key.key, RSAPublicKey) and not (
        _LEAST_RSA_BITS <= key.key.key_size <= _MOST_RSA_BITS
    ):
        return None
    return key
