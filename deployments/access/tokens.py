# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes callers of JSON Web Tokens (RFC 7519), as RFC 8725 advises. Pure.

The issuer that a token names only chooses which of the policy's rules it is held against; they say
how it may be signed and where the keys come from. Nothing else in its header is followed: no
address of keys or certificates, and no extension is understood that must be.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import jwt

from deployments.access.policy import Issuer
from deployments.access.refusals import Method, Reason, RefusedError
from deployments.access.signing_keys import SigningKeys
from deployments.security.caller import Caller
from deployments.settings.documents import several

TOKEN_LIMIT_BYTES: Final = 8192
_NAME_LIMIT: Final = 256
_GROUP_LIMIT: Final = 256
_TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")
_BAD: Final = (jwt.PyJWTError, ValueError, TypeError, RecursionError, OverflowError)
# By what PyJWT finds wrong in a token whose signature it checks.
_REASONS: Final[tuple[tuple[type[Exception], Reason], ...]] = (
    (jwt.InvalidSignatureError, Reason.BAD_SIGNATURE),
    (jwt.InvalidAlgorithmError, Reason.BAD_ALGORITHM),
    (jwt.InvalidAudienceError, Reason.WRONG_AUDIENCE),
    (jwt.InvalidIssuerError, Reason.WRONG_ISSUER),
    (jwt.MissingRequiredClaimError, Reason.BAD_CLAIMS),
)
_UNCHECKED: Final[dict[str, bool]] = {"verify_signature": False}
# Times are held against the guard's clock, below.
_CHECKED: Final[dict[str, Any]] = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "enforce_minimum_key_length": True,
    "require": ["exp", "iss", "aud"],
}


class TokenChecker:
    """Checks tokens of all issuers.

    Args:
        issuers: Whose tokens are taken.
        keys: Their keys, by issuer; those that are not there yet are missing.

    Attributes:
        unknown_of: The issuer of the last token that was signed with an unknown key; empty if it
            was not. Its keys may have changed.
    """

    def __init__(self, issuers: tuple[Issuer, ...], keys: Mapping[str, SigningKeys]) -> None:
        self._issuers = {issuer.issuer: issuer for issuer in issuers}
        self._keys = keys
        self.unknown_of = ""

    def check(self, token: bytes, now_s: float) -> Caller:
        """Return whom a token stands for.

        Raises:
            RefusedError: It is not valid.
        """
        self.unknown_of = ""
        if len(token) > TOKEN_LIMIT_BYTES:
            raise _refused(Reason.TOO_LARGE)
        issuer, header = self._look_at(token)
        key = self._key_of(issuer, header)
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=list(issuer.algorithms),
                options=_CHECKED,  # type: ignore[arg-type]  # a TypedDict
                audience=several(issuer.audience),
                issuer=issuer.issuer,
            )
        except _BAD as error:
            raise _refused(_reason(error)) from None
        expires_s = _check_times(claims, issuer.clock_skew_s, now_s)
        return _caller(claims, issuer, expires_s)

    def _look_at(self, token: bytes) -> tuple[Issuer, dict[str, Any]]:
        """Return the rules for a token, and its header; nothing of it is believed yet."""
        try:
            # A dot in the wrong place would make one part two.
            if token.count(b".") != 2:  # noqa: PLR2004 - header, claims, signature
                raise _refused(Reason.MALFORMED)
            read = jwt.decode_complete(token, options=_UNCHECKED)  # type: ignore[arg-type]
        except _BAD:
            raise _refused(Reason.MALFORMED) from None
        header: dict[str, Any] = read["header"]
        name = read["payload"].get("iss")
        issuer = self._issuers.get(name) if isinstance(name, str) else None
        if issuer is None:
            raise _refused(Reason.WRONG_ISSUER)
        kind = header.get("typ", "JWT")
        if "crit" in header or not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise _refused(Reason.MALFORMED)
        if header.get("alg") not in issuer.algorithms:
            raise _refused(Reason.BAD_ALGORITHM)
        return issuer, header

    def _key_of(self, issuer: Issuer, header: Mapping[str, Any]) -> jwt.PyJWK:
        keys = self._keys.get(issuer.issuer)
        if keys is None:
            self.unknown_of = issuer.issuer
            raise _refused(Reason.NO_SIGNING_KEYS)
        key = keys.find(header.get("kid"), header["alg"])
        if key is None:
            self.unknown_of = issuer.issuer
            raise _refused(Reason.UNKNOWN_SIGNING_KEY)
        return key


def _refused(reason: Reason) -> RefusedError:
    return RefusedError(reason, Method.JWT)


def _reason(error: Exception) -> Reason:
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    return Reason.MALFORMED


def _check_times(claims: Mapping[str, Any], skew_s: float, now_s: float) -> float:
    """Return until when a token is good, by the guard's clock."""
    expires_s = _time(claims["exp"]) + skew_s
    begins_s = max(_time(claims.get(name, 0)) for name in ("nbf", "iat")) - skew_s
    if now_s >= expires_s:
        raise _refused(Reason.EXPIRED)
    if now_s < begins_s:
        raise _refused(Reason.NOT_YET_VALID)
    return expires_s


def _time(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(Reason.BAD_CLAIMS)
    try:
        seconds = float(value)
    except OverflowError:
        raise _refused(Reason.BAD_CLAIMS) from None
    if not math.isfinite(seconds):
        raise _refused(Reason.BAD_CLAIMS)
    return seconds


def _caller(claims: Mapping[str, Any], issuer: Issuer, expires_s: float) -> Caller:
    subject = _name(_claim(claims, issuer.claims.subject))
    if not subject:
        raise _refused(Reason.BAD_CLAIMS)
    tenant = _claim(claims, issuer.claims.tenant) if issuer.claims.tenant else None
    groups = _groups(_claim(claims, issuer.claims.groups)) if issuer.claims.groups else frozenset()
    return Caller(
        issuer.subject_prefix + subject,
        "" if tenant is None else _name(tenant),
        Method.JWT,
        groups | frozenset(several(issuer.groups)),
        expires_s,
    )


def _claim(claims: Mapping[str, Any], name: str) -> object:
    """Return a claim by its name, or by names of objects and what is in them between dots."""
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _name(value: object) -> str:
    if not isinstance(value, str) or len(value) > _NAME_LIMIT or not value.isprintable():
        raise _refused(Reason.BAD_CLAIMS)
    return value


def _groups(value: object) -> frozenset[str]:
    listed = value.split() if isinstance(value, str) else value
    if listed is None:
        return frozenset()
    if not isinstance(listed, list) or len(listed) > _GROUP_LIMIT:
        raise _refused(Reason.BAD_CLAIMS)
    return frozenset(_name(each) for each in listed)
