# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from deployments.access.policy import Claims, Issuer
from deployments.access.refusals import Reason, RefusedError
from deployments.access.signing_keys import SigningKeys, read_signing_keys
from deployments.access.tokens import TokenChecker
from tests.support.access import AUDIENCE, ISSUER, NOW_S, TokenIssuer
from tests.support.examples import examples

SIGNER, OTHER = TokenIssuer("one"), TokenIssuer("two")
KEYS = read_signing_keys(SIGNER.jwks(), "test")
RSA_KEY = rsa.generate_private_key(65537, 2048)


def _checker(keys: SigningKeys = KEYS, **more: Any) -> TokenChecker:
    rules = Issuer(ISSUER, (AUDIENCE,), **{"jwks_file": "x", **more})
    return TokenChecker((rules,), {ISSUER: keys})


def _reason(token: bytes, checker: TokenChecker | None = None) -> Reason:
    with pytest.raises(RefusedError) as raised:
        (checker or _checker()).check(token, NOW_S)
    return raised.value.reason


def _part(value: object) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def _forged(header: dict[str, Any], secret: bytes = b"", **claims: Any) -> bytes:
    given = {"iss": ISSUER, "aud": AUDIENCE, "sub": "eve", "exp": NOW_S + 60, **claims}
    signed = _part(header) + b"." + _part(given)
    digest = hmac.digest(secret, signed, "sha256") if secret else b""
    return signed + b"." + base64.urlsafe_b64encode(digest).rstrip(b"=")


def test_a_token_is_its_subject_tenant_and_groups() -> None:
    checker = _checker(
        claims=Claims("email", "org.name", "https://x.y/groups"),
        groups=("staff",),
        subject_prefix="corp:",
    )
    claims = {"email": "a@b", "org": {"name": "vision"}, "https://x.y/groups": ["g1", "g2"]}
    caller = checker.check(SIGNER.token(**claims), NOW_S)
    assert (caller.subject, caller.tenant) == ("corp:a@b", "vision")
    assert caller.groups == {"g1", "g2", "staff"}
    assert caller.expires_s == NOW_S + 60 + 30


def test_groups_may_be_a_text_with_spaces() -> None:
    checker = _checker(claims=Claims(groups="scope"))
    assert checker.check(SIGNER.token(scope="a b"), NOW_S).groups == {"a", "b"}


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "", None])
def test_a_token_without_a_signature_is_refused(alg: str | None) -> None:
    header = {"typ": "JWT", "kid": "one"} | ({} if alg is None else {"alg": alg})
    assert _reason(_forged(header)) is Reason.BAD_ALGORITHM


@pytest.mark.parametrize("alg", ["HS256", "ES256", "RS256"])
def test_the_public_key_is_no_secret_to_sign_with(alg: str) -> None:
    for secret in (SIGNER.public_pem(), SIGNER.jwks(), json.dumps(SIGNER.jwk()).encode()):
        token = _forged({"alg": alg, "kid": "one"}, secret)
        assert _reason(token) in (
            Reason.BAD_ALGORITHM,
            Reason.BAD_SIGNATURE,
            Reason.UNKNOWN_SIGNING_KEY,
        )


@pytest.mark.parametrize(
    "kid", ["../../etc/passwd", "two", "' OR 1=1 --", "one\x00", "", "/dev/null", "x" * 5000]
)
def test_a_key_id_is_a_name_among_the_issuers_keys_and_nothing_else(kid: str) -> None:
    assert _reason(OTHER.token({"kid": kid})) is Reason.UNKNOWN_SIGNING_KEY


@pytest.mark.parametrize("kid", [None, 1, ["one"], {"a": 1}])
def test_a_key_id_that_is_no_text_is_refused(kid: object) -> None:
    header = {"alg": "ES256", "kid": kid}
    assert _reason(_forged(header)) in (Reason.MALFORMED, Reason.UNKNOWN_SIGNING_KEY)


@pytest.mark.parametrize("name", ["jku", "x5u", "jwk", "x5c"])
def test_keys_that_a_token_brings_or_points_to_are_not_looked_at(name: str) -> None:
    value = {"jwk": OTHER.jwk(), "x5c": ["AA=="]}.get(name, "http://127.0.0.1:1/keys")
    assert _reason(OTHER.token({name: value, "kid": "one"})) is Reason.BAD_SIGNATURE
    assert _checker().check(SIGNER.token({name: value}), NOW_S).subject == "alice"


@pytest.mark.parametrize("crit", [["exp"], ["b64"], [], "x", None])
def test_extensions_that_must_be_understood_are_refused(crit: object) -> None:
    assert _reason(_forged({"alg": "ES256", "kid": "one", "crit": crit})) is Reason.MALFORMED


@pytest.mark.parametrize("typ", ["dpop+jwt", "logout+jwt", 5])
def test_tokens_of_another_type_are_refused(typ: object) -> None:
    assert _reason(SIGNER.token({"typ": typ})) is Reason.MALFORMED


@pytest.mark.parametrize("name", ["exp", "iss", "aud", "sub"])
def test_a_token_has_to_say_who_for_whom_by_whom_and_until_when(name: str) -> None:
    expected = {"iss": Reason.WRONG_ISSUER}.get(name, Reason.BAD_CLAIMS)
    assert _reason(SIGNER.token(**{name: None})) is expected


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": "soon"}, Reason.BAD_CLAIMS),
        ({"exp": True}, Reason.BAD_CLAIMS),
        ({"exp": float("inf")}, Reason.BAD_CLAIMS),
        ({"exp": float("nan")}, Reason.BAD_CLAIMS),
        ({"exp": 10**400}, Reason.BAD_CLAIMS),
        ({"nbf": "x"}, Reason.BAD_CLAIMS),
        ({"iat": NOW_S + 31}, Reason.NOT_YET_VALID),
        ({"exp": NOW_S - 30}, Reason.EXPIRED),
        ({"sub": "a\nb"}, Reason.BAD_CLAIMS),
        ({"sub": "a" * 257}, Reason.BAD_CLAIMS),
        ({"sub": ""}, Reason.BAD_CLAIMS),
        ({"aud": ["x", "y"]}, Reason.WRONG_AUDIENCE),
        ({"aud": [5]}, Reason.WRONG_AUDIENCE),
    ],
)
def test_claims_that_are_not_as_they_must_be_are_refused(
    claims: dict[str, Any], reason: Reason
) -> None:
    assert _reason(SIGNER.token(**claims)) is reason


def test_an_issuer_that_is_no_text_is_refused() -> None:
    token = _forged({"alg": "ES256", "kid": "one"}, iss=[ISSUER])
    assert _reason(token) is Reason.WRONG_ISSUER


def test_clocks_may_differ_by_the_skew() -> None:
    _checker().check(SIGNER.token(exp=NOW_S - 29), NOW_S)
    _checker().check(SIGNER.token(nbf=NOW_S + 30, iat=NOW_S + 30), NOW_S)


def test_a_token_is_bounded_in_size_and_depth() -> None:
    assert _reason(SIGNER.token(x="y" * 9000)) is Reason.TOO_LARGE
    deep = base64.urlsafe_b64encode(b"[" * 3000).rstrip(b"=")
    header = _part({"alg": "ES256", "kid": "one"})
    assert _reason(header + b"." + deep + b".AA") is Reason.MALFORMED
    assert _reason(deep + b"." + deep + b".AA") is Reason.MALFORMED


def test_an_rsa_key_checks_rsa_signatures_of_the_policy_only() -> None:
    jwk = jwt.algorithms.RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True)
    keys = read_signing_keys(json.dumps({"keys": [jwk]}).encode(), "test")
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "a", "exp": int(NOW_S) + 60}
    tokens = {alg: jwt.encode(claims, RSA_KEY, alg).encode() for alg in ("RS256", "PS256")}
    # A set with a single key needs no id.
    assert _checker(keys).check(tokens["RS256"], NOW_S).subject == "a"
    assert _reason(tokens["PS256"], _checker(keys)) is Reason.BAD_ALGORITHM
    assert _checker(keys, algorithm=("PS256",)).check(tokens["PS256"], NOW_S).subject == "a"


def test_an_issuer_speaks_for_itself_alone() -> None:
    other = "https://other.example"
    rules = tuple(Issuer(name, (AUDIENCE,), jwks_file="x") for name in (ISSUER, other))
    other_keys = read_signing_keys(OTHER.jwks(), "test")
    checker = TokenChecker(rules, {ISSUER: KEYS, other: other_keys})
    assert checker.check(OTHER.token(iss=other), NOW_S).subject == "alice"
    assert _reason(OTHER.token(), checker) is Reason.UNKNOWN_SIGNING_KEY
    assert _reason(SIGNER.token(iss=other), checker) is Reason.UNKNOWN_SIGNING_KEY


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"keys": 1}',
        b'{"keys": []}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
        b'{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}',
        b'{"keys": [{"kty": "EC", "crv": "P-256", "x": 5, "y": []}]}',
        b'{"keys": [5, null, {"kty": ["EC"]}]}',
        b"[" * 100_000,
        b'{"keys": []}' + b" " * (1 << 20),
    ],
)
def test_what_is_no_set_of_public_keys_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match=r"JWK set of test"):
        read_signing_keys(content, "test")


def test_keys_for_encryption_check_no_signatures() -> None:
    row = {**SIGNER.jwk(), "use": "enc"}
    with pytest.raises(InvalidArgumentError):
        read_signing_keys(json.dumps({"keys": [row]}).encode(), "test")


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_a_token_with_any_change_is_refused(data: st.DataObject) -> None:
    token = SIGNER.token()
    # The last character of a part has bits that say nothing.
    at = data.draw(st.integers(0, len(token) - 2).filter(lambda at: token[at + 1] not in b"."))
    char = data.draw(st.binary(min_size=1, max_size=1).filter(lambda new: new[0] != token[at]))
    with pytest.raises(RefusedError):
        _checker().check(token[:at] + char + token[at + 1 :], NOW_S)


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=200) | st.lists(st.binary(max_size=30), max_size=5).map(b".".join))
def test_any_bytes_are_refused_with_a_reason(token: bytes) -> None:
    with pytest.raises(RefusedError):
        _checker().check(token, NOW_S)


def test_the_digest_of_keys_is_that_of_their_set() -> None:
    assert KEYS.digest == hashlib.sha256(SIGNER.jwks()).digest()


@pytest.mark.parametrize("org", ["vision", 5, ["name"], None])
def test_a_claim_inside_what_is_no_object_is_missing(org: object) -> None:
    checker = _checker(claims=Claims(groups="org.name"))
    assert checker.check(SIGNER.token(org=org), NOW_S).groups == frozenset()
