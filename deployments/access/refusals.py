# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Why credentials are refused, for counters, and what the client is told. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Method(StrEnum):
    """How a caller is authenticated; the value of `Caller.method`."""

    API_KEY = "api-key"
    JWT = "jwt"
    CERTIFICATE = "certificate"
    UNIX_SOCKET = "unix-socket"
    ANONYMOUS = "anonymous"


class Reason(StrEnum):
    """Why credentials are refused."""

    MISSING = "missing"
    AMBIGUOUS = "ambiguous"
    MALFORMED = "malformed"
    TOO_LARGE = "too-large"
    UNKNOWN = "unknown"
    REVOKED = "revoked"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    WRONG_ISSUER = "wrong-issuer"
    WRONG_AUDIENCE = "wrong-audience"
    BAD_SIGNATURE = "bad-signature"
    BAD_ALGORITHM = "bad-algorithm"
    BAD_CLAIMS = "bad-claims"
    UNKNOWN_SIGNING_KEY = "unknown-signing-key"
    NO_SIGNING_KEYS = "no-signing-keys"
    LIMITED = "limited"


_INVALID: Final = "the credentials are not valid; check them, or ask for new ones"
# What the client is told, where that is more than that its credentials are not valid.
_TEXTS: Final[Mapping[Reason, str]] = {
    Reason.MISSING: "credentials are needed; send an API key, a bearer token or a certificate",
    Reason.AMBIGUOUS: "several credentials of one kind were sent, expected one; remove the others",
    Reason.TOO_LARGE: "the credentials are too large; send an API key or a shorter token",
    Reason.EXPIRED: "the credentials have expired; get new ones",
    Reason.NOT_YET_VALID: "the credentials are not valid yet; check the clocks",
    Reason.WRONG_AUDIENCE: "the token is for another audience; get one for this server",
    Reason.NO_SIGNING_KEYS: "tokens cannot be checked yet; try again",
    Reason.LIMITED: "too many unknown credentials were sent lately; try again",
}


class RefusedError(Exception):
    """Credentials are refused.

    Args:
        reason: Why.
        method: Of which kind they are.
    """

    def __init__(self, reason: Reason, method: Method) -> None:
        super().__init__(reason, method)
        self.reason = reason
        self.method = method


def text_of(reason: Reason) -> str:
    """Return what the client is told."""
    return _TEXTS.get(reason, _INVALID)
