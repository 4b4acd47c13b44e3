# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ``data`` of JSON inputs, as tensor bytes.

Triton takes arrays of any nesting in row-major order and casts numbers as C does: integers wrap
into narrow types, doubles too large become infinite.

Triton: server/src/http_server.cc ReadDataFromJson @e1db8a6
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from backends.api.bytes_tensor import serialize_bytes
from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from deployments.http.codec.bare_tokens import TokenNumbers
from deployments.http.codec.json_parser import MAX_DEPTH, NESTING_TEXT

_TOO_MANY: Final = "Unable to parse 'data': Shape does not match true shape of 'data' field"
_TOO_FEW: Final = "Failed to parse 'data' field: shape does not match true shape"
_BYTES_COUNT: Final = "shape does not match true shape of 'data' field"
_NOT_ARRAY: Final = "Unable to parse 'data': attempt to access JSON non-array as array"
_NO_JSON: Final = frozenset(("FP16", "BF16"))


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one datatype is read: `array` code, wide numpy type and JSON type with its bounds."""

    code: str
    wide: str
    wanted: type
    complaint: str
    least: int = 0
    limit: int = 0


_SIGNED: Final = "attempt to access JSON non-signed-integer as signed-integer"
_UNSIGNED: Final = "attempt to access JSON non-unsigned-integer as unsigned-integer"
_DOUBLE: Final = "attempt to access JSON non-number as double"
_BOOLEAN: Final = "attempt to access JSON non-boolean as boolean"

_KINDS: Final = {
    "BOOL": _Kind("B", "u8", bool, _BOOLEAN),
    "FP32": _Kind("f", "f8", float, _DOUBLE),
    "FP64": _Kind("d", "f8", float, _DOUBLE),
    **{
        f"UINT{bits}": _Kind(code, "u8", int, _UNSIGNED, 0, 2**64)
        for bits, code in ((8, "B"), (16, "H"), (32, "I"), (64, "Q"))
    },
    **{
        f"INT{bits}": _Kind(code, "i8", int, _SIGNED, -(2**63), 2**63)
        for bits, code in ((8, "b"), (16, "h"), (32, "i"), (64, "q"))
    },
}
_DECODERS: Final[dict[type, msgspec.json.Decoder[Any]]] = {
    wanted: msgspec.json.Decoder(list[wanted])  # type: ignore[valid-type]
    for wanted in (bool, int, float, str)
}


def tensor_bytes(name: str, datatype: str, count: int, data: object) -> bytes:
    """Convert the ``data`` field of an input.

    Args:
        name: The input, for messages.
        datatype: V2 datatype name, as the client gave it.
        count: Elements the shape asks for, at least 1.
        data: The field, undecoded, cut out of its header, or as `json_parser.parse` gives it.

    Returns:
        The tensor's wire bytes: ``count`` elements.

    Raises:
        InvalidArgumentError: The datatype is unknown or cannot come as JSON.
        InternalError: Values have the wrong JSON type, or there are too many or too few.
        ValueError: Only for data that `json_parser` has not read, when it has to.
    """
    if datatype in _NO_JSON:
        raise InvalidArgumentError(
            f"receiving {datatype} data via JSON is not supported. Please use the binary data "
            f"format for input {name}"
        )
    if datatype == "BYTES":
        return _string_bytes(count, data)
    kind = _KINDS.get(datatype)
    if kind is None:
        raise InvalidArgumentError(f"invalid datatype for input {name}")
    values: list[Any]
    if isinstance(data, msgspec.Raw):
        values = _decode_numbers(kind, data)
    elif isinstance(data, TokenNumbers):
        if kind.wanted is not float:
            raise ValueError("tokens of floats where there are none")
        values = data.values
    else:
        values = _checked(kind, count, data)
    if len(values) > count:
        raise InternalError(_TOO_MANY)
    if len(values) < count:
        raise InternalError(_TOO_FEW)
    packed = _pack(kind, values)
    return data.put(packed, kind.code) if isinstance(data, TokenNumbers) else packed


def _decode_numbers(kind: _Kind, data: msgspec.Raw) -> list[Any]:
    decoder = _DECODERS[kind.wanted]
    try:
        values: list[Any] = decoder.decode(data)
    except msgspec.ValidationError:
        # Without its inner brackets a nested array is a flat one. Anything else that this makes of
        # wrong data fails to decode again, and the careful path then says why.
        raw = bytes(data)
        values = decoder.decode(b"[" + raw.translate(None, b"[]") + b"]")
        if raw[:1] != b"[" or _leading_depth(raw) > MAX_DEPTH - 3:
            raise
    if kind.limit and values and not kind.least <= min(values) <= max(values) < kind.limit:
        raise InternalError(f"Unable to parse 'data': {kind.complaint}")
    return values


def _leading_depth(raw: bytes) -> int:
    return len(raw) - len(raw.lstrip(b"[ \t\r\n"))


def _checked(kind: _Kind, count: int, data: object) -> list[Any]:
    values: list[Any] = []
    for value in _flatten(data):
        if len(values) >= count:
            raise InternalError(_TOO_MANY)
        if not _fits(kind, value):
            raise InternalError(f"Unable to parse 'data': {kind.complaint}")
        values.append(value)
    return values


def _fits(kind: _Kind, value: object) -> bool:
    if isinstance(value, bool) or kind.wanted is bool:
        return isinstance(value, bool) and kind.wanted is bool
    if kind.wanted is float:
        return isinstance(value, int | float)
    return isinstance(value, int) and kind.least <= value < kind.limit


def _pack(kind: _Kind, values: list[Any]) -> bytes:
    try:
        return array(kind.code, values).tobytes()
    except OverflowError:
        wide = np.array(values, dtype=kind.wide)
        return wide.astype(kind.code).tobytes()


def _string_bytes(count: int, data: object) -> bytes:
    elements: list[str] | list[bytes]
    if isinstance(data, msgspec.Raw):
        elements = _DECODERS[str].decode(data)
    else:
        raws: list[bytes] = []
        for value in _flatten(data):
            if not isinstance(value, str):
                raise InternalError(
                    "Unable to parse JSON bytes array: attempt to access JSON non-string as string"
                )
            raws.append(value.encode("utf-8", "surrogateescape"))
        elements = raws
    if len(elements) != count:
        raise InternalError(_BYTES_COUNT)
    return serialize_bytes(elements)


def _flatten(data: object) -> Iterator[object]:
    if not isinstance(data, list):
        raise InternalError(_NOT_ARRAY)
    stack = [iter(data)]
    while stack:
        for value in stack[-1]:
            if isinstance(value, list):
                if len(stack) >= MAX_DEPTH:
                    raise _too_deep()
                stack.append(iter(value))
                break
            yield value
        else:
            stack.pop()


def _too_deep() -> TritonError:
    return InvalidArgumentError(NESTING_TEXT)
