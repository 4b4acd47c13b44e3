# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Feeds access policies and credentials; part of `targets`."""

import contextlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography import x509

from backends.api.errors import TritonError, UnauthenticatedError
from deployments.access.contracts import Peer
from deployments.access.guard import PolicyGuard
from deployments.access.keys import KeyRing
from deployments.access.policy_file import read_key_file, read_policy
from deployments.access.policy_files import LoadedPolicy
from deployments.access.signing_keys import read_signing_keys
from tests.support.access import ISSUER, Clock, TokenIssuer, bearer, certificate, key_entry

_EXAMPLE: Final = Path(__file__).parents[2] / "configs" / "access-policy.yaml"
_POLICY: Final[dict[str, Any]] = {
    "authentication": {
        "api_keys": {"keys": [key_entry("alice")]},
        "jwt": [{"issuer": ISSUER, "audience": "manta", "jwks_file": "x"}],
        "certificates": [{"san": "uri:*"}, {"san": "dns:*"}, {"san": "cn:*"}],
    }
}


@cache
def _issuer() -> TokenIssuer:
    return TokenIssuer()


@cache
def _guard() -> PolicyGuard:
    policy = read_policy(yaml.safe_dump(_POLICY), "policy")
    keys = KeyRing(() if policy.api_keys is None else policy.api_keys.keys)
    signing_keys = {ISSUER: read_signing_keys(_issuer().jwks(), "seed")}
    return PolicyGuard(LoadedPolicy("policy", policy, keys, signing_keys, ()), Clock())


def feed_policy(data: bytes) -> None:
    """Read a policy, a file of keys and a JWK set."""
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(TritonError):
        policy = read_policy(text, "policy")
        read_key_file(text, "keys", policy)
    with contextlib.suppress(TritonError):
        read_signing_keys(data, "fuzz")


def policy_seeds() -> Iterator[bytes]:
    yield _EXAMPLE.read_bytes()
    yield yaml.safe_dump(_POLICY).encode()
    yield _issuer().jwks()


def feed_credentials(data: bytes) -> None:
    """Show bytes as a token, as headers and as a certificate; only what was signed is known."""
    for headers, peer in (
        (bearer(data), Peer("grpc")),
        ([(b"authorization", data)], Peer("http")),
        ([(b"x-api-key", data)], Peer("http")),
    ):
        with contextlib.suppress(UnauthenticatedError):
            subject = _guard().identify(headers, peer).caller.subject
            assert subject == "alice", subject
    with contextlib.suppress(UnauthenticatedError):
        _guard().identify([], Peer("http", certificate=data))


def credential_seeds() -> Iterator[bytes]:
    yield _issuer().token()
    yield b"Bearer " + _issuer().token()
    yield certificate(x509.UniformResourceIdentifier("spiffe://a/b"), x509.DNSName("a.b"))
