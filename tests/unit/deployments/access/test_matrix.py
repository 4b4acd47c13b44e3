# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""{no, bad, expired, wrong audience, revoked, valid} x {key, token, certificate} at the guard."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from backends.api.errors import UnauthenticatedError
from deployments.access.contracts import Headers, Peer, Role
from deployments.access.guard import PolicyGuard
from deployments.access.refusals import Method, Reason
from tests.support.access import (
    ISSUER,
    NOW_S,
    TokenIssuer,
    bearer,
    certificate,
    guard_of,
    key_entry,
    made_key,
)

GOOD = TokenIssuer()
STRANGER = TokenIssuer()
# Signed once with a key that the issuer has withdrawn.
WITHDRAWN = TokenIssuer("withdrawn")
SPIFFE = "spiffe://example.org/ns/prod/sa/client"
NO_MORE = "spiffe://example.org/ns/old/sa/client"

POLICY: dict[str, Any] = {
    "authentication": {
        "api_keys": {
            "keys": [
                key_entry("alice"),
                key_entry("expired", expires="2020-01-01T00:00:00Z"),
                key_entry("revoked", revoked=True),
            ]
        },
        "jwt": [{"issuer": ISSUER, "audience": "manta", "jwks_file": "jwks.json"}],
        "certificates": [{"san": "uri:spiffe://example.org/ns/prod/*", "subject": "alice"}],
    },
    "grants": [{"to": {"subjects": ["alice"]}, "roles": ["infer"], "models": ["simple"]}],
}


def _key(name: str) -> tuple[Headers, Peer]:
    return [(b"X-API-Key", made_key(name).encode())], Peer("http")


def _token(token: bytes) -> tuple[Headers, Peer]:
    return bearer(token), Peer("grpc")


def _certificate(name: str, ends_s: float = NOW_S + 60) -> tuple[Headers, Peer]:
    der = certificate(x509.UniformResourceIdentifier(name), ends_s=ends_s)
    return [], Peer("http", der, is_encrypted=True)


REFUSED: dict[str, tuple[Callable[[], tuple[Headers, Peer]], Method, Reason]] = {
    "bad key": (lambda: _key("nobody"), Method.API_KEY, Reason.UNKNOWN),
    "expired key": (lambda: _key("expired"), Method.API_KEY, Reason.EXPIRED),
    "revoked key": (lambda: _key("revoked"), Method.API_KEY, Reason.REVOKED),
    "bad token": (lambda: _token(STRANGER.token()), Method.JWT, Reason.BAD_SIGNATURE),
    "no token": (lambda: _token(b"abc"), Method.JWT, Reason.MALFORMED),
    "expired token": (lambda: _token(GOOD.token(exp=NOW_S - 31)), Method.JWT, Reason.EXPIRED),
    "early token": (lambda: _token(GOOD.token(nbf=NOW_S + 31)), Method.JWT, Reason.NOT_YET_VALID),
    "other audience": (lambda: _token(GOOD.token(aud="x")), Method.JWT, Reason.WRONG_AUDIENCE),
    "other issuer": (lambda: _token(GOOD.token(iss="x")), Method.JWT, Reason.WRONG_ISSUER),
    "revoked signer": (lambda: _token(WITHDRAWN.token()), Method.JWT, Reason.UNKNOWN_SIGNING_KEY),
    "bad certificate": (
        lambda: ([], Peer("http", b"\x30\x03\x02\x01\x01")),
        Method.CERTIFICATE,
        Reason.MALFORMED,
    ),
    "expired certificate": (
        lambda: _certificate(SPIFFE, NOW_S),
        Method.CERTIFICATE,
        Reason.EXPIRED,
    ),
    "certificate of another audience": (
        lambda: _certificate("spiffe://elsewhere.org/ns/prod/sa/client"),
        Method.CERTIFICATE,
        Reason.UNKNOWN,
    ),
    "certificate whose name is granted no more": (
        lambda: _certificate(NO_MORE),
        Method.CERTIFICATE,
        Reason.UNKNOWN,
    ),
}
VALID = {
    "key": lambda: _key("alice"),
    "token": lambda: _token(GOOD.token()),
    "certificate": lambda: _certificate(SPIFFE),
}


@pytest.fixture
def guard(tmp_path: Path) -> PolicyGuard:
    (tmp_path / "jwks.json").write_bytes(GOOD.jwks())
    return guard_of(tmp_path, POLICY)


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("times", [1, 2])
def test_credentials_that_are_not_valid_are_refused_and_counted(
    guard: PolicyGuard, case: str, times: int
) -> None:
    make, method, reason = REFUSED[case]
    headers, peer = make()
    for _ in range(times):
        with pytest.raises(UnauthenticatedError) as raised:
            guard.identify(headers, peer)
        assert "alice" not in raised.value.message
    assert guard.counters.refusals == {(method, reason): times}


@pytest.mark.parametrize("case", VALID)
def test_valid_credentials_may_what_is_granted_and_nothing_else(
    guard: PolicyGuard, case: str
) -> None:
    rights = guard.identify(*VALID[case]())
    assert rights.caller.subject == "alice"
    assert rights.may(Role.INFER, "simple")
    assert not rights.may(Role.INFER, "other")
    assert not rights.may(Role.CONTROL, "simple")
    assert rights.may(Role.HEALTH)


def test_no_credentials_may_ask_for_health_and_are_else_asked_for_credentials(
    guard: PolicyGuard,
) -> None:
    rights = guard.identify([(b"host", b"x")], Peer("http"))
    assert rights.may(Role.HEALTH)
    with pytest.raises(UnauthenticatedError, match="credentials are needed"):
        rights.check(Role.INFER, "simple")


def test_where_nothing_is_public_no_credentials_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_bytes(GOOD.jwks())
    guard = guard_of(tmp_path, {**POLICY, "public": []})
    with pytest.raises(UnauthenticatedError, match="credentials are needed"):
        guard.identify([], Peer("http"))


@pytest.mark.parametrize(
    ("headers", "subject"),
    [
        ([(b"x-api-key", made_key("alice").encode()), (b"authorization", b"Basic x")], "alice"),
        ([(b"authorization", b"bearer " + made_key("alice").encode())], "alice"),
        ([(b"x-api-key", b"bad"), (b"authorization", b"Bearer " + GOOD.token())], ""),
        ([(b"x-api-key", made_key("alice").encode()), (b"X-Api-Key", b"other")], ""),
        ([(b"authorization", b"Basic x")], ""),
        ([(b"x-api-key", b"")], ""),
        ([(b"authorization", b"")], ""),
    ],
)
def test_the_first_kind_that_is_there_decides_alone(
    guard: PolicyGuard, headers: Headers, subject: str
) -> None:
    # A good certificate makes up for nothing.
    peer = _certificate(SPIFFE)[1]
    if subject:
        assert guard.identify(headers, peer).caller.subject == subject
    else:
        with pytest.raises(UnauthenticatedError):
            guard.identify(headers, peer)
