# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads what a GGUF file says of itself: its keys and the formats of its tensors, no weights.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from backends.api.errors import InvalidArgumentError, UnavailableError

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_STRING, _ARRAY = 8, 9
# By the number of a value's type.
_SCALARS: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
    12: "<d",
}  # fmt: skip
# By the number of a tensor's format.
_FORMATS: Final = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1",
    10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 28: "F64", 30: "BF16",
}  # fmt: skip
_MOST_DIMS: Final = 4
# Longer texts are no names; of a chat template are a few thousand characters.
_MOST_TEXT_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class GgufFile:
    """What a file says.

    Attributes:
        values: Numbers, flags and texts by their keys; lists are left out.
        matrix_formats: Formats of its tensors of two dimensions and more.
    """

    values: dict[str, int | float | bool | str] = field(default_factory=dict)
    matrix_formats: frozenset[str] = frozenset()

    @property
    def architecture(self) -> str:
        """The kind of model, such as ``llama``; empty when it is not said."""
        return str(self.values.get("general.architecture", ""))

    @property
    def context_tokens(self) -> int:
        """Tokens that prompt and answer may have together; 0 when it is not said."""
        return int(self.values.get(f"{self.architecture}.context_length", 0))

    @property
    def chat_template(self) -> str:
        """The template that makes a prompt of messages; empty when there is none."""
        return str(self.values.get("tokenizer.chat_template", ""))


def read_gguf(path: str, model: str) -> GgufFile:
    """Read a file's head.

    Args:
        path: The file.
        model: The model's name, for messages.

    Raises:
        UnavailableError: There is no such file.
        InvalidArgumentError: It is no GGUF file, or cut short.
    """
    try:
        with Path(path).open("rb") as source:
            return _Head(source, Path(path).stat().st_size).read()
    except OSError as error:
        raise UnavailableError(f"unable to read '{path}' for model '{model}': {error}") from error
    except (ValueError, struct.error) as error:
        raise InvalidArgumentError(
            f"model '{model}' has the file '{path}', which is no GGUF file of version 2 or 3, or "
            f"is cut short: {error}"
        ) from error


class _Head:
    """Reads on in a file.

    Args:
        source: The file, at its begin.
        size_bytes: Its size, over which no count in it can be.
    """

    def __init__(self, source: BinaryIO, size_bytes: int) -> None:
        self._source = source
        self._size = size_bytes

    def read(self) -> GgufFile:
        if (magic := self._source.read(4)) != _MAGIC:
            raise ValueError(f"it begins with {magic!r}, expected {_MAGIC!r}")
        version = self._number("<I")
        if version not in _VERSIONS:
            raise ValueError(f"its version is {version}")
        tensors, keys = self._count(), self._count()
        values = {}
        for _ in range(keys):
            key = self._text()
            value = self._value(self._number("<I"))
            if value is not None:
                values[key] = value
        formats = {kind for _ in range(tensors) if (kind := self._tensor())}
        return GgufFile(values, frozenset(formats))

    def _value(self, kind: int) -> int | float | bool | str | None:
        """Return a value; None for a list, which is passed over."""
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            if kind not in _SCALARS:
                raise ValueError(f"a value has the type {kind}")
            found: int | float | bool = self._number(_SCALARS[kind])
            return found
        kind, count = self._number("<I"), self._count()
        if kind in _SCALARS:
            self._source.seek(struct.calcsize(_SCALARS[kind]) * count, 1)
        elif kind == _STRING:
            for _ in range(count):
                self._source.seek(self._count(), 1)
        else:
            raise ValueError(f"a list has elements of the type {kind}")
        return None

    def _tensor(self) -> str:
        """Pass over what is said of a tensor; return its format if it is a matrix."""
        self._text()
        dims = self._number("<I")
        if dims > _MOST_DIMS:
            raise ValueError(f"a tensor has {dims} dimensions")
        self._source.seek(8 * dims, 1)
        kind = self._number("<I")
        self._source.seek(8, 1)
        return _FORMATS.get(kind, f"format {kind}") if dims > 1 else ""

    def _text(self) -> str:
        length = self._count()
        if length > _MOST_TEXT_BYTES:
            raise ValueError(f"a text has {length} bytes")
        read = self._source.read(length)
        if len(read) < length:
            raise ValueError("it ends in a text")
        return read.decode(errors="replace")

    def _count(self) -> int:
        count: int = self._number("<Q")
        if count > self._size:
            raise ValueError(f"it has {self._size} bytes and says {count} of something")
        return count

    def _number(self, layout: str) -> int:
        size = struct.calcsize(layout)
        number: int
        (number,) = struct.unpack(layout, self._source.read(size))
        return number
