# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A policy with keys and tokens, the credentials it takes, and those that attackers make up."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from deployments.access.keys import hash_made, make_key

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "manta"
_KID: Final = "good"
_KEY_BITS: Final = 2048
_HOUR_S: Final = 3600


@dataclass(frozen=True)
class Signed:
    """What a policy of an attack takes.

    Attributes:
        policy: The policy file.
        token: A good token.
        key: A good API key.
        late_key: One that has expired.
        revoked_key: One that was revoked.
        private_key: The issuer's.
    """

    policy: Path
    token: str
    key: str
    late_key: str
    revoked_key: str
    private_key: rsa.RSAPrivateKey

    @property
    def public_pem(self) -> bytes:
        """What everybody may know of the issuer's key."""
        return self.private_key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )


def write_policy(
    folder: Path,
    roles: Sequence[str] = ("metadata", "health"),
    models: Sequence[str] = ("add_sub",),
    **sections: Any,
) -> Signed:
    """Write a policy that lets one subject ask for all metadata, or what else is said."""
    private = rsa.generate_private_key(public_exponent=65_537, key_size=_KEY_BITS)
    jwk = json.loads(RSAAlgorithm.to_jwk(private.public_key()))
    row = {**jwk, "kid": _KID, "alg": "RS256", "use": "sig"}
    (folder / "jwks.json").write_text(json.dumps({"keys": [row]}))
    keys = [make_key(name.encode().ljust(32, b"-")) for name in ("good", "late", "revoked")]
    stored: list[dict[str, Any]] = [{"subject": "who", "hash": hash_made(key)} for key in keys]
    stored[1]["expires"] = "2020-01-01T00:00:00Z"
    stored[2]["revoked"] = True
    issuer = {
        "issuer": ISSUER,
        "audience": [AUDIENCE],
        "algorithms": ["RS256"],
        "jwks_file": str(folder / "jwks.json"),
    }
    policy = {
        "authentication": {"api_keys": {"keys": stored}, "jwt": [issuer]},
        "grants": [{"to": {"subjects": ["who"]}, "roles": [*roles], "models": [*models]}],
        **sections,
    }
    path = folder / "policy.yaml"
    path.write_text(json.dumps(policy))
    good, late, revoked = keys
    return Signed(path, _token(private), good, late, revoked, private)


def _claims(**changes: Any) -> dict[str, Any]:
    now_s = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "who", "exp": now_s + _HOUR_S} | changes
    return {name: value for name, value in claims.items() if value is not None}


def _token(
    key: Any, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **claims: Any
) -> str:
    return jwt.encode(_claims(**claims), key, algorithm, {"kid": _KID} | (headers or {}))


def _part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _raw(header: dict[str, Any], signature: bytes = b"", **claims: Any) -> str:
    """Return a token with any header, which PyJWT would not write."""
    parts = (json.dumps(header).encode(), json.dumps(_claims(**claims)).encode(), signature)
    return ".".join(map(_part, parts))


def _hmac_token(header: dict[str, Any], secret: bytes) -> str:
    unsigned = _raw(header).rpartition(".")[0]
    signature = hmac.new(secret, unsigned.encode(), hashlib.sha256).digest()
    return f"{unsigned}.{_part(signature)}"


def forged_tokens(signed: Signed) -> Iterator[tuple[str, str]]:
    """Yield tokens that nobody may take, with what is wrong."""
    yield from _other_algorithms(signed)
    yield from _other_keys(signed)
    yield from _other_claims(signed)
    yield from _other_forms(signed)


def _other_algorithms(signed: Signed) -> Iterator[tuple[str, str]]:
    _, claims, signature = signed.token.split(".")
    for name in (
        "none",
        "None",
        "NONE",
        "nOnE",
        "",
        "HS256 ",
        "RS256\0",
        "rs256",
        "RS512",
        "ES256",
    ):
        header = {"alg": name, "kid": _KID, "typ": "JWT"}
        yield f"algorithm {name!r} unsigned", _raw(header)
        yield f"algorithm {name!r}", f"{_part(json.dumps(header).encode())}.{claims}.{signature}"
    yield "no algorithm", _raw({"kid": _KID})
    yield "a list of algorithms", _raw({"alg": ["none", "RS256"], "kid": _KID})
    pem = signed.public_pem
    for what, secret in (
        ("the public key", pem),
        ("the public key without its last line end", pem.rstrip()),
        ("the public key as DER", base64.b64decode(b"".join(pem.splitlines()[1:-1]))),
        ("the key set", (signed.policy.parent / "jwks.json").read_bytes()),
        ("nothing", b""),
    ):
        for kid in (_KID, "other"):
            header = {"alg": "HS256", "kid": kid, "typ": "JWT"}
            yield f"HS256 with {what} and kid {kid}", _hmac_token(header, secret)


def _other_keys(signed: Signed) -> Iterator[tuple[str, str]]:
    own = rsa.generate_private_key(public_exponent=65_537, key_size=_KEY_BITS)
    jwk = json.loads(RSAAlgorithm.to_jwk(own.public_key()))
    yield "another key", _token(own)
    for kid in (
        "../../../../dev/null", "/dev/null", "/etc/passwd", "file:///dev/null", "' OR '1'='1",
        "x' UNION SELECT 'key' --", "good\0", "\0", "", "good;ls", "$(id)", "http://127.0.0.1/x",
        "a" * 5000,
    ):  # fmt: skip
        yield f"kid {kid[:40]!r}", _token(own, headers={"kid": kid})
        header = {"alg": "HS256", "kid": kid, "typ": "JWT"}
        yield f"kid {kid[:40]!r} with HS256 and no secret", _hmac_token(header, b"")
    yield "kid that is no text", _raw({"alg": "RS256", "kid": {"a": 1}})
    for headers in (
        {"jwk": jwk},
        {"jku": "http://127.0.0.1/jwks.json"},
        {"jku": (signed.policy.parent / "jwks.json").as_uri()},
        {"x5u": "http://127.0.0.1/cert.pem"},
        {"x5c": ["MIIB"]},
        {"x5t": "AAAA"},
    ):
        yield f"a key in the header: {next(iter(headers))}", _token(own, headers=headers)
    yield "crit", _token(signed.private_key, headers={"crit": ["exp"]})
    yield "crit of nothing", _token(signed.private_key, headers={"crit": []})
    yield "unencoded claims", _token(signed.private_key, headers={"b64": False, "crit": ["b64"]})


def _other_claims(signed: Signed) -> Iterator[tuple[str, str]]:
    now_s = int(time.time())
    changes: tuple[dict[str, Any], ...] = (
        {"exp": now_s - _HOUR_S},
        {"exp": None},
        {"exp": "9999999999"},
        {"exp": [now_s + _HOUR_S]},
        {"nbf": now_s + _HOUR_S},
        {"iat": now_s + _HOUR_S},
        {"aud": None},
        {"aud": "other"},
        {"aud": ["other"]},
        {"aud": "manta.evil"},
        {"aud": ""},
        {"iss": None},
        {"iss": "https://evil.example"},
        {"iss": ISSUER + "/"},
        {"iss": ISSUER.upper()},
        {"iss": [ISSUER]},
        {"sub": None},
        {"sub": ""},
        {"sub": ["who"]},
        {"sub": "who\nadmin"},
        {"sub": "w" * 300},
    )
    for change in changes:
        # Signed with the right key: as if the issuer served others, too.
        unchecked = _sign(signed, _claims(**change))
        yield f"claims with {str(change)[:60]}", unchecked
    yield "infinite time", _sign_text(signed, json.dumps(_claims(exp=0)).replace(" 0", " 1e999"))
    yield "claims that are a list", _sign_text(signed, "[]")
    yield "claims that nest", _sign_text(signed, "[" * 2000)


def _sign(signed: Signed, claims: dict[str, Any]) -> str:
    return _sign_text(signed, json.dumps(claims))


def _sign_text(signed: Signed, claims: str) -> str:
    header = {"alg": "RS256", "kid": _KID, "typ": "JWT"}
    unsigned = f"{_part(json.dumps(header).encode())}.{_part(claims.encode())}"
    algorithm = RSAAlgorithm(RSAAlgorithm.SHA256)
    return f"{unsigned}.{_part(algorithm.sign(unsigned.encode(), signed.private_key))}"


def _other_forms(signed: Signed) -> Iterator[tuple[str, str]]:
    header, claims, signature = signed.token.split(".")
    yield "no signature", f"{header}.{claims}."
    yield "no signature and no dot", f"{header}.{claims}"
    yield "four parts", f"{signed.token}.{signature}"
    yield "five parts, as if encrypted", f"{header}.{claims}.{signature}.{claims}.{signature}"
    yield (
        "claims of another token",
        f"{header}.{_part(json.dumps(_claims(sub='x')).encode())}.{signature}",
    )
    yield (
        "a changed signature",
        f"{header}.{claims}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}",
    )
    yield "a cut signature", f"{header}.{claims}.{signature[:-8]}"
    yield "a huge token", _token(signed.private_key, x="y" * 20_000)
    yield "a token within a token", _token(signed.private_key, headers={"cty": "JWT", "typ": "JWE"})
    yield "nothing but dots", ".."
    yield "no token", "x"
