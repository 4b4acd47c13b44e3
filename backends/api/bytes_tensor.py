# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""BYTES tensors in wire form: before each element its length, four bytes, little endian.

All elements of a tensor are often equally long: ids, hashes, padded texts. Then numpy and joins of
bytes treat them all in one call; the loops here cost 50 to 150 ns an element.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

LENGTH_BYTES: Final = 4
# Below this the loop costs less than the calls of numpy that spare it.
_LEAST_UNIFORM: Final = 32
_LEAST_UNIFORM_BYTES: Final = _LEAST_UNIFORM * LENGTH_BYTES
# Longer elements are copied once, out of the tensor; shorter ones out of a copy of it, which is
# quicker to slice.
_LONG_BYTES: Final = 4096

_PREFIXES: Final = tuple(length.to_bytes(LENGTH_BYTES, "little") for length in range(256))
_PREFIX_COUNT: Final = len(_PREFIXES)
_LENGTH_AT: Final = struct.Struct("<I").unpack_from


def serialize_bytes(elements: Sequence[object] | npt.NDArray[np.generic]) -> bytes:
    """Serialise BYTES elements (bytes, str or anything ``str`` accepts) to wire form."""
    # Elements of other arrays are written as numpy's own scalars are.
    if isinstance(elements, np.ndarray) and elements.ndim == 1 and elements.dtype.kind in "OSU":
        elements = elements.tolist()
    if len(elements) >= _LEAST_UNIFORM:
        kinds: set[Any] = set(map(type, elements))
        if kinds == {str}:
            elements = list(map(str.encode, elements))
        if kinds in ({str}, {bytes}):
            raws: list[bytes] = [b"", *elements]
            length = len(raws[1])
            if length == len(raws[-1]) and len(set(map(len, elements))) == 1:
                return length.to_bytes(LENGTH_BYTES, "little").join(raws)
    parts: list[bytes] = []
    for element in elements:
        raw = element if isinstance(element, bytes) else str(element).encode()
        length = len(raw)
        parts.append(
            _PREFIXES[length] if length < _PREFIX_COUNT else length.to_bytes(LENGTH_BYTES, "little")
        )
        parts.append(raw)
    return b"".join(parts)


def deserialize_bytes(data: memoryview) -> list[bytes]:
    """Split wire-form BYTES into elements.

    Raises:
        ValueError: A length indicator or an element is cut short.
    """
    end = len(data)
    if end > _LONG_BYTES and int.from_bytes(data[:LENGTH_BYTES], "little") > _LONG_BYTES:
        return _long_elements(data)
    raw = bytes(data)
    if end >= _LEAST_UNIFORM_BYTES:
        length: int = _LENGTH_AT(raw, 0)[0]
        if length and _is_uniform(raw, length):
            size = LENGTH_BYTES + length
            column = np.ndarray((end // size,), f"V{length}", raw, LENGTH_BYTES, (size,))
            found: list[bytes] = column.tolist()
            return found
    elements: list[bytes] = []
    offset = start = 0
    try:
        while offset < end:
            start = offset + LENGTH_BYTES
            length = _LENGTH_AT(raw, offset)[0]
            offset = start + length
            elements.append(raw[start:offset])
    except struct.error:
        offset = end + 1
    if offset > end:
        raise _cut_short(start)
    return elements


def count_elements(data: memoryview) -> int:
    """Return how many elements wire-form BYTES hold; -1 when one of them is cut short."""
    end = len(data)
    offset = found = 0
    try:
        if end >= _LEAST_UNIFORM_BYTES:
            length: int = _LENGTH_AT(data, 0)[0]
            if _is_uniform(data, length):
                return end // (LENGTH_BYTES + length)
        while offset < end:
            length = _LENGTH_AT(data, offset)[0]
            offset += LENGTH_BYTES + length
            found += 1
    except struct.error:
        return -1
    return found if offset == end else -1


def _is_uniform(data: bytes | memoryview, length: int) -> bool:
    """Whether all elements have a length, and are enough for numpy."""
    size = LENGTH_BYTES + length
    count = len(data) // size
    if count < _LEAST_UNIFORM or count * size != len(data):
        return False
    lengths = np.ndarray((count,), "<u4", data, 0, (size,))
    return bool((lengths == length).all())


def _long_elements(data: memoryview) -> list[bytes]:
    elements: list[bytes] = []
    offset, end = 0, len(data)
    while offset < end:
        start = offset + LENGTH_BYTES
        offset = start + int.from_bytes(data[offset:start], "little")
        if offset > end:
            raise _cut_short(start)
        elements.append(bytes(data[start:offset]))
    return elements


def _cut_short(start: int) -> ValueError:
    return ValueError(f"BYTES element at byte {start - LENGTH_BYTES} is cut short")
