# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The little of protobuf's wire format that is worth doing by hand.

Tensors travel in length-delimited top-level fields. Cut out of the message by hand they are views
of the received bytes, where the protobuf runtime would copy them twice; everything else in the
message is left to the runtime.
"""

from typing import Final

_CONTINUE: Final = 0x80
_LENGTH_DELIMITED: Final = 2
_WIRE_TYPE_MASK: Final = 7
# Ten groups of seven bits hold 64 bits; protobuf allows no longer varint.
_LAST_SHIFT: Final = 63


class MalformedMessageError(ValueError):
    """The bytes are no protobuf message."""


def varint(value: int) -> bytes:
    """Encode a non-negative integer."""
    if value < _CONTINUE:
        return value.to_bytes(1, "little")
    encoded = bytearray()
    while value >= _CONTINUE:
        encoded.append(value & 0x7F | _CONTINUE)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def split_fields(
    data: bytes | memoryview, raw_tag: int, id_tag: int, start: int = 0
) -> tuple[list[memoryview], bytes | memoryview, bytes] | None:
    """Take one repeated and one single length-delimited field out of a message.

    Args:
        data: The whole message.
        raw_tag: Tag byte of the repeated field.
        id_tag: Tag byte of the single field.
        start: Where the first field begins.

    Returns:
        The contents of the repeated field as views of ``data``, the content of the single field,
        and the other fields as a message of their own. None when the message holds other kinds of
        fields than those of a low number and known length, or the single field twice, which is
        unusual but not wrong.

    Raises:
        MalformedMessageError: A field is cut short.
    """
    # Not over `length_delimited`: a list of places first costs a request a quarter more.
    view = memoryview(data)
    raws: list[memoryview] = []
    others: list[bytes | memoryview] = []
    single: bytes | memoryview = b""
    position, end = start, len(data)
    try:
        while position < end:
            start = position
            tag = data[start]
            if tag & _WIRE_TYPE_MASK != _LENGTH_DELIMITED or tag & _CONTINUE:
                return None
            length = data[start + 1]
            position = start + 2
            if length & _CONTINUE:
                length, position = _long_varint(data, start + 1)
            stop = position + length
            if tag == raw_tag:
                raws.append(view[position:stop])
            elif tag == id_tag:
                if single:
                    return None
                single = data[position:stop]
            else:
                others.append(data[start:stop])
            position = stop
    except IndexError:
        position = end + 1
    if position != end:
        raise MalformedMessageError("a field is cut short")
    return raws, single, b"".join(others)


def length_delimited(
    data: memoryview, *, at_most: int = 2**31
) -> list[tuple[int, int, int, int]] | None:
    """Return where the fields of a message lie.

    Args:
        data: The message.
        at_most: How many of its first fields are wanted.

    Returns:
        For each field its tag byte, where it begins, where its content does, and where that ends.
        None when a field has a high number, or is not of known length, or is cut short.
    """
    fields: list[tuple[int, int, int, int]] = []
    position, end = 0, len(data)
    try:
        while position < end and len(fields) < at_most:
            start = position
            tag = data[start]
            if tag & _WIRE_TYPE_MASK != _LENGTH_DELIMITED or tag & _CONTINUE:
                return None
            length = data[start + 1]
            content = start + 2
            if length & _CONTINUE:
                length, content = _long_varint(data, start + 1)
            position = content + length
            fields.append((tag, start, content, position))
    except (IndexError, MalformedMessageError):
        return None
    return fields if position <= end else None


def find_content(data: bytes | memoryview, tag: int) -> tuple[int, int]:
    """Return where the content of the first length-delimited field of a tag begins and ends.

    Args:
        data: The first part of a message; the content may go on beyond it.
        tag: The tag byte.

    Returns:
        Twice 0 if that is not known.
    """
    position = 0
    try:
        while data[position] & _WIRE_TYPE_MASK == _LENGTH_DELIMITED:
            length, start = _long_varint(data, position + 1)
            if data[position] == tag:
                return start, start + length
            position = start + length
    except (IndexError, MalformedMessageError):
        pass
    return 0, 0


def _long_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & _CONTINUE:
            return value, position
        shift += 7
        if shift > _LAST_SHIFT:
            raise MalformedMessageError("a varint has more than ten bytes")
