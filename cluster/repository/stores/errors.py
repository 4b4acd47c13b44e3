# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the exceptions of the clouds' libraries mean, and what is said of them.

No library is imported here: exceptions are told by status, code and class name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from backends.api.errors import NotFoundError, TritonError, UnavailableError, UnsupportedError
from cluster.repository.stores.location import Location

_MAX_DETAIL: Final = 300


class Kind(Enum):
    """What a request to a store ended with."""

    MISSING = "there is no such file"
    NO_BUCKET = "there is no such bucket or container"
    CHANGED = "the file is another one"
    DENIED = "access is denied"
    THROTTLED = "the store throttles"
    AWAY = "the store cannot be reached, or failed"
    UNTRUSTED = "the store's certificate is not trusted"
    RANGE = "the range lies outside the file"
    REFUSED = "the store refuses the request"


_REMEDY: Final[Mapping[Kind, str]] = {
    Kind.DENIED: "renew the credentials, or grant them listing and reading",
    Kind.THROTTLED: "poll less often, or have the store's limits raised",
    Kind.AWAY: "check the network, the endpoint and the store's own state",
    Kind.UNTRUSTED: "name its CA in AWS_CA_BUNDLE or SSL_CERT_FILE",
    Kind.NO_BUCKET: "check the name, or create it",
    Kind.REFUSED: "check the location and the region",
}
_PASSING: Final = frozenset({Kind.THROTTLED, Kind.AWAY})

# Codes of S3 and Azure whose status alone misleads.
_BY_CODE: Final[Mapping[str, Kind]] = {
    "NoSuchBucket": Kind.NO_BUCKET,
    "ContainerNotFound": Kind.NO_BUCKET,
    "ContainerBeingDeleted": Kind.NO_BUCKET,
    "NoSuchKey": Kind.MISSING,
    "BlobNotFound": Kind.MISSING,
    "BlobAlreadyExists": Kind.CHANGED,
    "ConditionNotMet": Kind.CHANGED,
    "PreconditionFailed": Kind.CHANGED,
    "ConditionalRequestConflict": Kind.AWAY,
    "ExpiredToken": Kind.DENIED,
    "ExpiredTokenException": Kind.DENIED,
    "InvalidToken": Kind.DENIED,
    "TokenRefreshRequired": Kind.DENIED,
    "InvalidAccessKeyId": Kind.DENIED,
    "SignatureDoesNotMatch": Kind.DENIED,
    "RequestTimeTooSkewed": Kind.DENIED,
    "SlowDown": Kind.THROTTLED,
    "Throttling": Kind.THROTTLED,
    "RequestLimitExceeded": Kind.THROTTLED,
    "ServerBusy": Kind.THROTTLED,
    "RequestTimeout": Kind.AWAY,
    "InvalidRange": Kind.RANGE,
}
_SERVER_ERRORS: Final = range(500, 600)
_BY_STATUS: Final[Mapping[int, Kind]] = {
    401: Kind.DENIED,
    403: Kind.DENIED,
    404: Kind.MISSING,
    408: Kind.AWAY,
    409: Kind.CHANGED,
    412: Kind.CHANGED,
    416: Kind.RANGE,
    429: Kind.THROTTLED,
    503: Kind.THROTTLED,
}
# Of botocore, aiohttp, azure.core, google.auth and Python; looked up along each class's bases.
_BY_CLASS: Final[Mapping[str, Kind]] = {
    "ClientConnectorCertificateError": Kind.UNTRUSTED,
    "SSLCertVerificationError": Kind.UNTRUSTED,
    "NoCredentialsError": Kind.DENIED,
    "PartialCredentialsError": Kind.DENIED,
    "CredentialRetrievalError": Kind.DENIED,
    "TokenRetrievalError": Kind.DENIED,
    "ProfileNotFound": Kind.DENIED,
    "CredentialUnavailableError": Kind.DENIED,
    "ClientAuthenticationError": Kind.DENIED,
    "TransportError": Kind.AWAY,
    "GoogleAuthError": Kind.DENIED,
    "PermissionError": Kind.DENIED,
    "FileNotFoundError": Kind.MISSING,
    "NotADirectoryError": Kind.MISSING,
    "HTTPClientError": Kind.AWAY,
    "IncompleteReadError": Kind.AWAY,
    "ResponseStreamingError": Kind.AWAY,
    "AioReadTimeoutError": Kind.AWAY,
    "ServiceRequestError": Kind.AWAY,
    "ServiceResponseError": Kind.AWAY,
    "ClientError": Kind.AWAY,
    "TimeoutError": Kind.AWAY,
    "FSTimeoutError": Kind.AWAY,
    "OSError": Kind.AWAY,
}
# Triton's texts, which say the same of all it meets when it opens a store.
_OPENING: Final[Mapping[str, str]] = {
    "s3": "Unable to create S3 filesystem client. Check account credentials.",
    "gs": "Unable to create GCS client. Check account credentials.",
    "as": "Unable to create Azure filesystem client. Check account credentials.",
}


class StatusError(Exception):
    """An answer of a store that is no success."""

    def __init__(self, status: int, detail: str = "", retry_after: str = "") -> None:
        super().__init__(status, detail, retry_after)
        self.status = status
        self.detail = detail
        self.retry_after = retry_after


class TruncatedError(OSError):
    """A body ended before its time."""


def require_length(come_bytes: int, expected_bytes: int) -> None:
    """Refuse a body that has not the length it must have.

    Raises:
        TruncatedError: It has another.
    """
    if come_bytes != expected_bytes:
        raise TruncatedError(f"{come_bytes} of {expected_bytes} bytes came")


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that failed.

    Attributes:
        kind: What it means.
        detail: The library's words.
        retry_after_s: How long the store asks to wait; 0 where it does not.
    """

    kind: Kind
    detail: str = ""
    retry_after_s: float = 0.0

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in _PASSING


def failure_of(error: BaseException) -> Failure:
    """Tell what an exception of a store's library means."""
    for each in _chain(error):
        code, status, headers = _answer_of(each)
        kind = _BY_CODE.get(code) or _BY_STATUS.get(status)
        if kind is None and status:
            kind = Kind.AWAY if status in _SERVER_ERRORS else Kind.REFUSED
        if kind is not None:
            return Failure(kind, _detail(each, code, status), _seconds(headers))
    for each in _chain(error):
        for base in type(each).__mro__:
            if base.__name__ in _BY_CLASS:
                return Failure(_BY_CLASS[base.__name__], _detail(each, "", 0))
    return Failure(Kind.REFUSED, _detail(error, "", 0))


def error_of(failure: Failure, location: Location, path: str, source: str) -> TritonError:
    """Build the error that says what happened, where, with which credentials, and what to do.

    Args:
        failure: What happened.
        location: The store's.
        path: Which file or directory of it; empty for all of it.
        source: Where the credentials come from.
    """
    place = str(location.below(path.rstrip("/")))
    if failure.kind is Kind.MISSING:
        return NotFoundError(f"File does not exist at {place}")
    first = ""
    if failure.kind is Kind.DENIED:
        first = f"{_OPENING.get(location.scheme, 'access is denied')} "
    elif failure.kind is Kind.NO_BUCKET:
        first = f"Could not get MetaData for bucket with name {location.bucket}: "
    remedy = _REMEDY.get(failure.kind, "try again")
    text = (
        f"{first}{place}: {failure.kind.value} ({failure.detail}), with credentials of {source};"
        f" {remedy}"
    )
    return NotFoundError(text) if failure.kind is Kind.NO_BUCKET else UnavailableError(text)


def missing_library(location: Location, library: str, extra: str) -> UnsupportedError:
    """Build the error of a location whose library is not installed."""
    install = f"pip install manta-serve[{extra}]" if extra else f"pip install {library}"
    return UnsupportedError(
        f"model repository '{location}' needs {library}, which is not installed: {install}"
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def _answer_of(error: BaseException) -> tuple[str, int, Mapping[str, str]]:
    """Return code, status and headers of the answer an exception is about, as far as it has one."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):
        about = response.get("ResponseMetadata", {})
        code = str(response.get("Error", {}).get("Code", ""))
        return code, int(about.get("HTTPStatusCode", 0)), about.get("HTTPHeaders", {})
    if isinstance(error, StatusError):
        return "", error.status, {"retry-after": error.retry_after}
    status = getattr(error, "status_code", None) or getattr(error, "status", None)
    headers = getattr(response, "headers", None) or {}
    named: Any = getattr(error, "error_code", None)
    return (
        str(getattr(named, "value", named) or ""),
        status if isinstance(status, int) else 0,
        headers,
    )


def _seconds(headers: Mapping[str, str]) -> float:
    given = headers.get("retry-after") or headers.get("Retry-After") or ""
    return float(given) if given.isascii() and given.isdigit() else 0.0


def _detail(error: BaseException, code: str, status: int) -> str:
    said = error.detail if isinstance(error, StatusError) else str(error)
    words = " ".join(said.split("\n", 1)[0].split())[:_MAX_DETAIL]
    name = code or (f"HTTP {status}" if status else type(error).__name__)
    return f"{name}: {words}" if words and words != name else name
