# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Errors in OpenAI's form: ``{"error": {"message", "type", "param", "code"}}``.

The status decides which exception the ``openai`` client raises, and whether it tries again: it does
after 409, 429 and everything from 500 up. So what a request cannot have is never one of these.
"""

from dataclasses import dataclass
from typing import Final

import orjson

from backends.api.errors import InvalidArgumentError, NotFoundError, TritonError
from backends.api.quoting import MOST_TEXT_CHARACTERS, shorten

# The paths whose clients read errors in this form, from the beginning of a request's target.
_PATHS: Final = (b"/v1/", b"/tokenize", b"/detokenize")
# Anthropic's clients tell an error by its ``type``, and know no ``code``.
_MESSAGES: Final = b"/v1/messages"


class FieldError(InvalidArgumentError):
    """A field of an OpenAI request is missing or wrong.

    Args:
        message: As of any error.
        param: The field; empty for the whole body.

    Attributes:
        param: The same.
    """

    def __init__(self, message: str, param: str = "") -> None:
        super().__init__(message)
        self.param = param


class RouteNotServedError(NotFoundError):
    """The server or the model asked does not answer this OpenAI route."""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """What an error becomes.

    Attributes:
        status: HTTP status.
        type: OpenAI's kind of error.
        code: Its name; None for null.
    """

    status: int
    type: str
    code: str | None


_INVALID: Final = "invalid_request_error"
_SERVER: Final = "server_error"

ROW_OF_CLASS: Final[dict[str, ErrorRow]] = {
    "Invalid argument": ErrorRow(400, _INVALID, None),
    "Unsupported": ErrorRow(400, _INVALID, "unsupported"),
    "Cancelled": ErrorRow(400, _INVALID, "cancelled"),
    "Unauthenticated": ErrorRow(401, "authentication_error", "invalid_api_key"),
    "Permission denied": ErrorRow(403, "permission_error", "permission_denied"),
    "Not found": ErrorRow(404, _INVALID, "model_not_found"),
    "Already exists": ErrorRow(409, _INVALID, "already_exists"),
    "Resource exhausted": ErrorRow(429, "rate_limit_error", "rate_limit_exceeded"),
    "Internal": ErrorRow(500, _SERVER, "internal_error"),
    "Unknown": ErrorRow(500, _SERVER, "unknown_error"),
    "Unavailable": ErrorRow(503, _SERVER, "unavailable"),
}
_UNROUTED: Final = ErrorRow(404, _INVALID, "route_not_served")
# What is refused before it is known for which route and model, by its status.
_ROW_OF_STATUS: Final[dict[int, ErrorRow]] = {
    404: _UNROUTED,
    405: ErrorRow(405, _INVALID, "method_not_allowed"),
    503: ErrorRow(503, _SERVER, "unavailable"),
}


def has_openai_form(url: bytes) -> bool:
    """Whether errors of a request are read in OpenAI's form.

    Args:
        url: Its target, as sent.
    """
    return url.startswith(_PATHS)


def row_of(error: TritonError) -> ErrorRow:
    """Return what an error becomes."""
    if isinstance(error, RouteNotServedError):
        return _UNROUTED
    return ROW_OF_CLASS.get(error.code, ROW_OF_CLASS["Unknown"])


def failure(error: TritonError, url: bytes) -> tuple[int, bytes]:
    """Return status and body of the answer to a request that met an error.

    Args:
        error: The error.
        url: The request's target.
    """
    row = row_of(error)
    param = error.param if isinstance(error, FieldError) else ""
    if row.code == "model_not_found":
        param = "model"
    return row.status, _body(row, error.message, param, url)


def failure_of_status(status: int, message: str, url: bytes) -> bytes:
    """Return the body of an error that has a status alone."""
    kind = _SERVER if status >= 500 else _INVALID  # noqa: PLR2004 - the server's own
    row = _ROW_OF_STATUS.get(status) or ErrorRow(status, kind, None)
    return _body(row, message, "", url)


def _body(row: ErrorRow, message: str, param: str, url: bytes) -> bytes:
    text = shorten(message, MOST_TEXT_CHARACTERS)
    error = {"message": text, "type": row.type, "param": param or None, "code": row.code}
    document: dict[str, object] = {"error": error}
    if url.startswith(_MESSAGES):
        document = {"type": "error", **document}
    try:
        return orjson.dumps(document)
    except TypeError:  # lone surrogates, from a peer's bytes that were no UTF-8
        error["message"] = text.encode("utf-8", "replace").decode()
        return orjson.dumps(document)
