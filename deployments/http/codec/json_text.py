# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""JSON as Triton's HTTP front-end reads and writes it: typed access, error bodies, odd numbers.

Triton: common/include/triton/common/triton_json.h @83adf7c
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import orjson

from backends.api.errors import InternalError
from backends.api.quoting import MOST_TEXT_CHARACTERS, shorten
from deployments.http.codec.json_parser import parse

_UINT64_LIMIT: Final = 2**64
_CONTROL_ESCAPES: Final = {
    **{code: f"\\u{code:04X}".encode() for code in range(0x20)},
    0x08: b"\\b",
    0x09: b"\\t",
    0x0A: b"\\n",
    0x0C: b"\\f",
    0x0D: b"\\r",
    0x22: b'\\"',
    0x5C: b"\\\\",
}


@contextmanager
def labelled(prefix: str) -> Iterator[None]:
    """Put ``<prefix>: `` before the message of an InternalError raised inside."""
    try:
        yield
    except InternalError as error:
        raise InternalError(f"{prefix}: {error.message}") from None


def read(document: bytes) -> object:
    """Parse a document of a management endpoint.

    Raises:
        TritonError: As `http_json_parser.parse`.
    """
    try:
        return msgspec.json.decode(document, type=object)
    except (ValueError, RecursionError):
        return parse(document)


def find(container: object, key: str) -> object:
    """Return a member, or UNSET when there is none or ``container`` is no object."""
    if isinstance(container, dict):
        return container.get(key, msgspec.UNSET)
    return msgspec.UNSET


def member(container: object, key: str) -> object:
    """Return a member that has to be there.

    Raises:
        InternalError: It is not.
    """
    value = find(container, key)
    if value is msgspec.UNSET:
        raise InternalError(f"attempt to access non-existing object member '{key}'")
    return value


def as_array(value: object) -> list[object]:
    """Return an array.

    Raises:
        InternalError: The value is not an array.
    """
    if not isinstance(value, list):
        raise InternalError("attempt to access JSON non-array as array")
    return value


def as_string(value: object) -> str:
    """Return a string whose bytes that are not UTF-8 are replaced.

    Raises:
        InternalError: The value is not a string.
    """
    if not isinstance(value, str):
        raise InternalError("attempt to access JSON non-string as string")
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def as_bool(value: object) -> bool:
    """Return a boolean.

    Raises:
        InternalError: The value is not a boolean.
    """
    if not isinstance(value, bool):
        raise InternalError("attempt to access JSON non-boolean as boolean")
    return value


def as_uint(value: object) -> int:
    """Return an unsigned 64-bit integer.

    Raises:
        InternalError: The value is not an unsigned 64-bit integer.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _UINT64_LIMIT:
        raise InternalError("attempt to access JSON non-unsigned-integer as unsigned-integer")
    return value


def error_body(message: str) -> bytes:
    """Return Triton's error JSON."""
    message = shorten(message, MOST_TEXT_CHARACTERS)
    try:
        return orjson.dumps({"error": message})
    except TypeError:  # lone surrogates, from a peer's bytes that were no UTF-8
        return orjson.dumps({"error": message.encode("utf-8", "replace").decode()})


def dump(value: Any) -> bytes:
    """Serialise a value; NaN and infinities become the bare tokens Triton writes."""
    if isinstance(value, dict) and any(
        isinstance(each, float) and not math.isfinite(each) for each in value.values()
    ):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return orjson.dumps(value)


def quote(raw: bytes) -> bytes:
    """Return the JSON string of bytes of any encoding, as RapidJSON writes them: unchanged.

    Only quotes, backslashes and control characters are escaped.
    """
    return b'"' + b"".join(_CONTROL_ESCAPES.get(byte) or bytes((byte,)) for byte in raw) + b'"'
