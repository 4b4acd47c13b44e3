# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors that people type, and tensors as people read them.

An input is ``NAME=VALUE``; with one input the name may be left out. VALUE is numbers
(``1,2,3``), JSON (``[[1,2],[3,4]]``), a text for BYTES, ``@FILE``, or ``-`` for what comes in by
standard input. NumPy is imported for files that need it alone.
"""

import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from backends.api.errors import InvalidArgumentError, UnknownError

BYTES: Final = "BYTES"
# What JSON does not carry, by the protocol.
_BINARY_ONLY: Final = frozenset({"FP16", "BF16"})
_FLOATS: Final = frozenset({"FP16", "BF16", "FP32", "FP64"})
_FORMATS: Final[Mapping[str, str]] = {
    "BOOL": "?",
    "INT8": "b",
    "UINT8": "B",
    "INT16": "h",
    "UINT16": "H",
    "INT32": "i",
    "UINT32": "I",
    "INT64": "q",
    "UINT64": "Q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}
_IMAGES: Final = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"})
_NUMPY: Final = ".npy"
_JSON: Final = ".json"
_WORDS: Final = {"true": True, "false": False}
_BF16_SHIFT: Final = 16
# As many elements are written out in examples.
_MOST_TYPED: Final = 64
_LENGTH: Final = struct.Struct("<I")

ReadBytes = Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a request.

    Attributes:
        name: Of the input.
        datatype: Of the protocol.
        shape: With the batch.
        data: Values in row-major order, or their bytes as the protocol has them.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: "list[Any] | bytes"

    def encoded(self) -> tuple[dict[str, Any], bytes]:
        """Return its part of the request's JSON, and what follows that as bytes."""
        row: dict[str, Any] = {
            "name": self.name,
            "datatype": self.datatype,
            "shape": list(self.shape),
        }
        if isinstance(self.data, list) and self._is_json():
            return {**row, "data": self.data}, b""
        data = self.data if isinstance(self.data, bytes) else pack(self.data, self.datatype)
        return {**row, "parameters": {"binary_data_size": len(data)}}, data

    def _is_json(self) -> bool:
        if self.datatype in _BINARY_ONLY:
            return False
        if self.datatype == BYTES:
            return all(isinstance(each, str) for each in self.data)
        return self.datatype not in _FLOATS or all(map(math.isfinite, self.data))


def read_file(name: str) -> bytes:
    """Return the bytes of a file; ``-`` is standard input."""
    if name == "-":
        import sys  # noqa: PLC0415 - the only use

        return sys.stdin.buffer.read()
    return Path(name).read_bytes()


def assigned(texts: Sequence[str], inputs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the values by input, out of texts as typed and the inputs of a model's metadata.

    Raises:
        InvalidArgumentError: An input is unknown or given twice.
    """
    names = [each["name"] for each in inputs]
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or (name not in names and len(names) == 1):
            if len(names) != 1:
                raise InvalidArgumentError(f"'{text}': expected NAME=VALUE, NAME {_one_of(names)}")
            name, value = names[0], text
        if name not in names:
            raise InvalidArgumentError(f"the model has no input '{name}', but {', '.join(names)}")
        if name in found:
            raise InvalidArgumentError(f"input '{name}' is given twice")
        found[name] = value
    return found


def read_tensor(
    about: Mapping[str, Any],
    text: str,
    shape: Sequence[int] | None = None,
    read: ReadBytes = read_file,
) -> Tensor:
    """Read the value of an input.

    Args:
        about: The input as the model's metadata has it.
        text: The value as typed.
        shape: As the user wants it; None finds one that fits.
        read: Returns the bytes of a file.

    Raises:
        InvalidArgumentError: It is no value of the datatype, or fits no shape of the input.
    """
    name, datatype = about["name"], about["datatype"]
    expected = tuple(int(each) for each in about["shape"])
    is_file = text.startswith("@") or text == "-"
    path = text.removeprefix("@")
    suffix = Path(path).suffix.lower() if is_file else ""
    if suffix == _NUMPY or (suffix in _IMAGES and datatype != BYTES):
        from cluster.commands.client import arrays  # noqa: PLC0415 - it imports NumPy

        found, data = arrays.read(path, read(path), datatype, expected, is_image=suffix in _IMAGES)
        return Tensor(name, datatype, _fitted(name, found, expected, shape), data)
    raw = read(path) if is_file else b""
    if datatype == BYTES and is_file and suffix != _JSON:
        # A text without the newline that editors and echo put at its end, or the file as it is.
        values: list[Any] = [_as_text(raw) if suffix not in _IMAGES else raw]
        return Tensor(name, datatype, _fitted(name, (1,), expected, shape), values)
    text = raw.decode(errors="replace") if is_file else text
    given = _document(path, text) if suffix == _JSON else _parsed(name, text, datatype)
    counted, values = _flat(name, given)
    if datatype in _FLOATS:
        values = [float(each) if isinstance(each, int | float) else each for each in values]
    _check(name, values, datatype)
    return Tensor(name, datatype, _fitted(name, counted, expected, shape), values)


def example(about: Mapping[str, Any]) -> Tensor:
    """Return a tensor of zeros that an input takes; a large one in binary."""
    name, datatype = about["name"], about["datatype"]
    shape = tuple(max(int(each), 1) for each in about["shape"])
    zeros: list[Any] = [{BYTES: "0", "BOOL": False}.get(datatype, 0)] * prod(shape)
    is_large = datatype != BYTES and len(zeros) > _MOST_TYPED
    return Tensor(name, datatype, shape, pack(zeros, datatype) if is_large else zeros)


def pack(values: Sequence[Any], datatype: str) -> bytes:
    """Return values as the protocol has them in binary.

    Raises:
        InvalidArgumentError: One is too large for the datatype.
    """
    if datatype == BYTES:
        raws = [each if isinstance(each, bytes) else str(each).encode() for each in values]
        return b"".join(_LENGTH.pack(len(raw)) + raw for raw in raws)
    try:
        if datatype == "BF16":
            words = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
            return struct.pack(f"<{len(words)}H", *(word >> _BF16_SHIFT for word in words))
        return struct.pack(f"<{len(values)}{_FORMATS[datatype]}", *values)
    except (struct.error, OverflowError) as error:
        raise InvalidArgumentError(f"a value is none of {datatype}: {error}") from None


def unpack(data: bytes, datatype: str) -> list[Any]:
    """Return the values of a tensor's bytes; BYTES as text where it is one.

    Raises:
        UnknownError: The datatype is none of the protocol.
    """
    if datatype == BYTES:
        return list(_texts(data))
    if datatype == "BF16":
        return [
            struct.unpack("<f", struct.pack("<I", half << _BF16_SHIFT))[0]
            for (half,) in struct.iter_unpack("<H", data)
        ]
    if datatype not in _FORMATS:
        raise UnknownError(f"the answer has an output of datatype '{datatype}', which is unknown")
    return [value for (value,) in struct.iter_unpack(f"<{_FORMATS[datatype]}", data)]


def _texts(data: bytes) -> Iterator[Any]:
    at = 0
    while at < len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        yield _as_text(data[at : at + size], strips=False)
        at += size


def _as_text(raw: bytes, *, strips: bool = True) -> Any:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return raw
    return text.removesuffix("\n") if strips else text


def _document(path: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"'{path}' is no JSON: {error}") from None


def _parsed(name: str, text: str, datatype: str) -> Any:
    """Return what a text says: JSON, numbers, or itself."""
    text = text.strip() if datatype != BYTES else text
    is_list = text.startswith("[") and text.endswith("]")
    if is_list or datatype != BYTES:
        try:
            return json.loads(text if is_list else f"[{','.join(text.replace(',', ' ').split())}]")
        except ValueError:
            words = text.replace(",", " ").split()
            if datatype == "BOOL" and all(each.lower() in _WORDS for each in words):
                return [_WORDS[each.lower()] for each in words]
            if datatype in _FLOATS and not is_list:
                return [_real(name, each) for each in words]
            if datatype != BYTES:
                raise InvalidArgumentError(
                    f"input '{name}' is {datatype}: got '{text[:60]}', expected numbers such as"
                    " 1,2,3, a JSON list, or @FILE (.npy, .json, an image)"
                ) from None
    return text


def _real(name: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise InvalidArgumentError(f"input '{name}': '{word}' is no number") from None


def _flat(name: str, given: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Return shape and values of nested lists.

    Raises:
        InvalidArgumentError: The lists of one level are of different lengths.
    """
    if not isinstance(given, list):
        return (1,), [given]
    parts = [_flat(name, each) if isinstance(each, list) else ((), [each]) for each in given]
    shapes = {shape for shape, _ in parts}
    if len(shapes) > 1:
        raise InvalidArgumentError(f"input '{name}': its lists are of different lengths")
    inner = next(iter(shapes), ())
    return (len(given), *inner), [value for _, values in parts for value in values]


def _check(name: str, values: Sequence[Any], datatype: str) -> None:
    kinds: dict[str, tuple[type, ...]] = {BYTES: (str,), "BOOL": (bool, int)}
    wanted = kinds.get(datatype, (float,) if datatype in _FLOATS else (int,))
    for each in values:
        is_flag = isinstance(each, bool) and datatype != "BOOL"
        if not isinstance(each, wanted) or is_flag:
            raise InvalidArgumentError(f"input '{name}' is {datatype}, which {each!r} is not")


def _fitted(
    name: str, found: tuple[int, ...], expected: tuple[int, ...], wanted: Sequence[int] | None
) -> tuple[int, ...]:
    """Return the shape to send: the one that is wanted, or one that the model takes.

    Values without a shape of their own, and those of one request without the batch, fill it.

    Raises:
        InvalidArgumentError: There is none.
    """
    count = prod(found)
    if wanted is not None:
        if prod(wanted) != count:
            raise InvalidArgumentError(
                f"input '{name}': shape {_shown(wanted)} has {prod(wanted)} elements, got {count}"
            )
        return tuple(wanted)
    for shape in (found, (1, *found)):
        if _takes(expected, shape):
            return shape
    if len(found) == 1:
        free = [index for index, size in enumerate(expected) if size < 0]
        known = prod(size for size in expected if size >= 0)
        # One size follows from the others; those that follow from nothing are 1.
        if free and known and count % known == 0:
            sizes = [max(size, 1) for size in expected]
            sizes[free[0] if known > 1 or len(free) == 1 else free[-1]] = count // known
            return tuple(sizes)
        if not free and known == count:
            return expected
    raise InvalidArgumentError(
        f"input '{name}' takes shape {_shown(expected)}, got {_shown(found)}; --shape"
        f" {name}:N,M says another"
    )


def _takes(expected: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return len(expected) == len(shape) and all(
        size in (-1, given) for size, given in zip(expected, shape, strict=True)
    )


def _shown(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _one_of(names: Sequence[str]) -> str:
    return f"one of {', '.join(names)}" if names else "of an input, of which there are none"
