# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors as fields of the message, InferTensorContents, to wire bytes.

Theory of operation. What such a request says besides its elements repeats from request to request,
so `cut_contents` empties the contents of all inputs and leaves a message that can be remembered.
The elements then need no protobuf where the encoding holds them as numpy can read them: floats are
packed as they are in memory, small integers one a byte, and equally long strings in equal
distances. Everything else the protobuf runtime decodes, which also judges what is malformed.

Triton: server/src/grpc/infer_handler.cc, grpc_utils.cc @e1db8a6
"""

from array import array
from typing import Any, Final

import numpy as np

from backends.api.bytes_tensor import LENGTH_BYTES, serialize_bytes
from backends.api.datatypes import numpy_dtype
from backends.api.errors import InvalidArgumentError
from deployments.grpc.codec.messages import service_pb2
from deployments.grpc.codec.wire import length_delimited, varint

_INPUTS_TAG: Final = 5 << 3 | 2
_CONTENTS_TAG: Final = 5 << 3 | 2
_EMPTY_CONTENTS: Final = bytes((_CONTENTS_TAG, 0))
# Fields of a message, or of an input, that are looked at here: more are left to protobuf.
_MOST_FIELDS: Final = 1024
# Fewer strings protobuf splits in the time of the calls of numpy.
_LEAST_UNIFORM: Final = 32

# Field of InferTensorContents, the datatype Triton names it by, the datatypes it may fill.
_FIELDS: Final[tuple[tuple[str, str, frozenset[str]], ...]] = (
    ("bool_contents", "BOOL", frozenset(("BOOL",))),
    ("int_contents", "INT32", frozenset(("INT8", "INT16", "INT32"))),
    ("int64_contents", "INT64", frozenset(("INT64",))),
    ("uint_contents", "UINT32", frozenset(("UINT8", "UINT16", "UINT32"))),
    ("uint64_contents", "UINT64", frozenset(("UINT64",))),
    ("fp32_contents", "FP32", frozenset(("FP32",))),
    ("fp64_contents", "FP64", frozenset(("FP64",))),
    ("bytes_contents", "BYTES", frozenset(("BYTES",))),
)
_FIRST_FLOAT: Final = 6
_BYTES_FIELD: Final = 8
_FLOAT_BYTES: Final = {6: 4, 7: 8}
# `array` codes of what a field's elements are in protobuf, which for narrow integers is wider.
_CODES: Final = {
    "bool_contents": "B",
    "int_contents": "i",
    "int64_contents": "q",
    "uint_contents": "I",
    "uint64_contents": "Q",
    "fp32_contents": "f",
    "fp64_contents": "d",
}
_WIDE: Final = {"int_contents": "INT32", "uint_contents": "UINT32"}


class Contents:
    """The contents of one input.

    Attributes:
        number: The one field that is filled, when its encoding is as numpy reads it; else 0.
        packed: What that field holds, without tag and length; strings with theirs.
        message: The InferTensorContents, when ``number`` is 0.
    """

    __slots__ = ("message", "number", "packed")

    def __init__(self, number: int, packed: memoryview, message: Any) -> None:
        self.number = number
        self.packed = packed
        self.message = message

    def wire_bytes(self, name: str, datatype: str, model_name: str) -> memoryview:
        """Return the tensor's bytes.

        Args:
            name: The input, for messages.
            datatype: Its V2 datatype name.
            model_name: The model, for messages.

        Raises:
            InvalidArgumentError: Another datatype's field is filled, or more than one.
        """
        if not self.number:
            return memoryview(message_bytes(self.message, name, datatype, model_name))
        _, label, allowed = _FIELDS[self.number - 1]
        if datatype not in allowed:
            raise _wrong_field(name, model_name, label, datatype)
        if self.number == _BYTES_FIELD:
            return _equal_strings(self.packed)
        if self.number >= _FIRST_FLOAT:
            return self.packed
        elements = np.frombuffer(self.packed, np.uint8)
        return memoryview(elements.astype(numpy_dtype(datatype)).tobytes())


def cut_contents(message: bytes) -> tuple[bytes, list[Contents | None]] | None:
    """Take the contents of all inputs out of a ModelInferRequest.

    Args:
        message: The request, without its raw tensors.

    Returns:
        The request with contents that are empty where there were some, and the contents of each
        input, None where it has none. None when no input has contents, or the encoding is unusual
        or malformed.

    Raises:
        google.protobuf.message.DecodeError: Contents are malformed.
    """
    if not message:
        return None
    view = memoryview(message)
    kept: list[bytes] = []
    found: list[Contents | None] = []
    is_explicit = False
    fields = length_delimited(view, at_most=_MOST_FIELDS + 1)
    if fields is None or len(fields) > _MOST_FIELDS:
        return None
    for tag, start, content, stop in fields:
        if tag != _INPUTS_TAG:
            kept.append(message[start:stop])
            continue
        inner = length_delimited(view[content:stop], at_most=_MOST_FIELDS + 1)
        if inner is None or len(inner) > _MOST_FIELDS:
            return None
        contents: Contents | None = None
        parts: list[bytes] = []
        for inner_tag, inner_start, inner_content, inner_stop in inner:
            if inner_tag != _CONTENTS_TAG:
                parts.append(message[content + inner_start : content + inner_stop])
                continue
            if contents is not None:
                return None
            contents = _read(view[content + inner_content : content + inner_stop])
            parts.append(_EMPTY_CONTENTS)
            is_explicit = True
        found.append(contents)
        rest = b"".join(parts)
        kept.append(b"%c%b%b" % (_INPUTS_TAG, varint(len(rest)), rest))
    return (b"".join(kept), found) if is_explicit else None


def message_bytes(contents: Any, name: str, datatype: str, model_name: str) -> bytes:
    """Return the bytes of a tensor whose elements a message holds.

    Args:
        contents: The InferTensorContents.
        name: The input, for messages.
        datatype: Its V2 datatype name.
        model_name: The model, for messages.

    Raises:
        InvalidArgumentError: Another datatype's field is filled, or more than one.
    """
    filled = ""
    for field_name, label, allowed in _FIELDS:
        if not getattr(contents, field_name):
            continue
        if filled:
            raise InvalidArgumentError(
                f"{_unexpected(name, model_name)}, binary data was already supplied."
            )
        if datatype not in allowed:
            raise _wrong_field(name, model_name, label, datatype)
        filled = field_name
    if not filled:
        return b""
    # A list of protobuf's is read twice as fast as its containers are.
    values = getattr(contents, filled)[:]
    if datatype == "BYTES":
        return serialize_bytes(values)
    elements = array(_CODES[filled], values)
    wide = _WIDE.get(filled, datatype)
    if wide == datatype:
        return elements.tobytes()
    # Narrow types travel in 32-bit fields and keep the low bytes, as Triton does.
    return np.frombuffer(elements, numpy_dtype(wide)).astype(numpy_dtype(datatype)).tobytes()


def _read(contents: memoryview) -> Contents:
    """Take contents as numpy reads them, if they are so, and else as protobuf does."""
    fields = length_delimited(contents, at_most=1)
    if fields:
        tag, _, content, stop = fields[0]
        number, packed = tag >> 3, contents[content:stop]
        if number == _BYTES_FIELD:
            if _is_uniform(contents, content, stop):
                return Contents(number, contents, None)
        elif stop == len(contents) and _is_readable(number, packed):
            return Contents(number, packed, None)
    return Contents(0, contents, service_pb2.InferTensorContents.FromString(bytes(contents)))


def _is_readable(number: int, packed: memoryview) -> bool:
    size = _FLOAT_BYTES.get(number)
    if size is not None:
        return len(packed) > 0 and len(packed) % size == 0
    return 0 < number < _FIRST_FLOAT and len(packed) > 0 and bytes(packed).isascii()


def _is_uniform(strings: memoryview, content: int, distance: int) -> bool:
    """Whether strings with their tags and lengths lie in equal distances, and numpy is worth it.

    Args:
        strings: Contents that begin with a string.
        content: Where the first string begins.
        distance: Where it ends.
    """
    count = len(strings) // distance
    if count < _LEAST_UNIFORM or count * distance != len(strings):
        return False
    heads = np.ndarray((count, content), np.uint8, strings, 0, (distance, 1))
    return bool((heads == heads[0]).all())


def _equal_strings(strings: memoryview) -> memoryview:
    fields = length_delimited(strings, at_most=1)
    assert fields  # noqa: S101 - else these were not taken for equally long
    _, _, content, distance = fields[0]
    count, length = len(strings) // distance, distance - content
    tensor = np.empty((count, LENGTH_BYTES + length), np.uint8)
    tensor[:, :LENGTH_BYTES] = np.frombuffer(length.to_bytes(LENGTH_BYTES, "little"), np.uint8)
    tensor[:, LENGTH_BYTES:] = np.ndarray(
        (count, length), np.uint8, strings, content, (distance, 1)
    )
    return tensor.reshape(-1).data


def _wrong_field(name: str, model_name: str, label: str, datatype: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{_unexpected(name, model_name)} of type '{label}', expected datatype '{datatype}'"
    )


def _unexpected(name: str, model_name: str) -> str:
    return f"unexpected explicit tensor data for input tensor '{name}' for model '{model_name}'"
