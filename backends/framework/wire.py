# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads protobuf messages of large files: the fields that are asked for, the rest skipped unread.

No classes are generated and nothing is copied, so that a file of gigabytes may be mapped. All
functions raise ValueError where the bytes are no message.
"""

from collections.abc import Iterator

_KEY, _VALUE = 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
_MOST_VARINT_BYTES = 10


def entries(data: memoryview, field: int) -> Iterator[tuple[str, memoryview]]:
    """Yield key and value of each entry of a field that is a map with messages."""
    for entry in messages(data, field):
        key, value = "", memoryview(b"")
        for each in messages(entry, _KEY):
            key = text(each)
        for each in messages(entry, _VALUE):
            value = each
        yield key, value


def messages(data: memoryview, field: int) -> Iterator[memoryview]:
    """Yield the values of a field that are bytes: messages, strings."""
    for number, value in fields(data):
        if number == field and isinstance(value, memoryview):
            yield value


def numbers(data: memoryview, field: int) -> Iterator[int]:
    """Yield the values of a field that are numbers, without a sign."""
    for number, value in fields(data):
        if number == field and isinstance(value, int):
            yield value


def last_signed(data: memoryview, field: int) -> int:
    """Return the value of a field that is an int64; 0 when it is not set."""
    size = 0
    for value in numbers(data, field):
        # Of 64 bits, the highest is the sign.
        size = value - (1 << 64) if value >> 63 else value
    return size


def text(data: memoryview) -> str:
    """Return a string."""
    return bytes(data).decode(errors="replace")


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and value of each field of a protobuf message, in its order.

    Raises:
        ValueError: The bytes are no message.
    """
    offset, end = 0, len(data)
    while offset < end:
        key, offset = _varint(data, offset)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, offset = _varint(data, offset)
            yield number, value
            continue
        if kind == _BYTES:
            size, offset = _varint(data, offset)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise ValueError(f"there is no protobuf message at byte {offset}")
        if offset + size > end:
            raise ValueError(f"the field at byte {offset} is cut short")
        if kind == _BYTES:
            yield number, data[offset : offset + size]
        offset += size


def _varint(data: memoryview, offset: int) -> tuple[int, int]:
    value = 0
    for index in range(_MOST_VARINT_BYTES):
        if offset + index >= len(data):
            break
        byte = data[offset + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follow
            return value & 0xFFFF_FFFF_FFFF_FFFF, offset + index + 1
    raise ValueError(f"the number at byte {offset} is cut short")
