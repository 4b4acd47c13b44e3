# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Floats that are written as NaN, Infinity or -Infinity, which JSON has not and Triton accepts.

Theory of operation. `json_parser` reads such documents, at a microsecond for each number.
perf_analyzer sends random bits as floats: of thousands a few are no numbers, and all have to be
read. Hence `cut` takes the arrays of numbers out of a header and leaves a string in the place of
each. What remains is short, and `json_parser` reads it. In the arrays the tokens become zeros
between spaces, which a fast decoder takes exactly where RapidJSON takes the tokens; the values are
put back into the tensor, where the commas before a token say which element it is.

Whatever is unusual is left to `json_parser` as a whole: escapes, tokens elsewhere than in arrays of
numbers, ``Inf``, ``-NaN``, and all that is wrong.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from deployments.http.codec.infer_header import Input
from deployments.http.codec.json_parser import MAX_DEPTH

# Around the arrays of data lie the document, its inputs and the input.
_MAX_ARRAY_DEPTH: Final = MAX_DEPTH - 3

_KEY = re.compile(rb'"data"[ \t\r\n]*:[ \t\r\n]*(?=\[)')
_NAN = re.compile(b"NaN")
# What remains has no such text.
_PLACEHOLDER: Final = b"NaN"
_NO_BRACKETS: Final = bytes([each for each in range(256) if each not in b"[]"])
_INFINITY_BYTES: Final = len(b"Infinity")

_FLOATS: Final[msgspec.json.Decoder[list[float]]] = msgspec.json.Decoder(list[float])
_VALID: Final[msgspec.json.Decoder[msgspec.Raw]] = msgspec.json.Decoder(msgspec.Raw)


class TokenNumbers:
    """An array of floats some of which are tokens.

    Attributes:
        values: The floats in row-major order, 0 where there is a token.
    """

    __slots__ = ("_text", "values")

    def __init__(self, values: list[float], text: bytes) -> None:
        self.values = values
        self._text = text

    def put(self, packed: bytes, code: str) -> bytes:
        """Return a tensor of the values with what the tokens mean in the place of the zeros.

        Args:
            packed: The tensor.
            code: numpy's code of its datatype.
        """
        tensor: npt.NDArray[Any] = np.frombuffer(bytearray(packed), code)
        text = np.frombuffer(self._text, np.uint8)
        commas = np.flatnonzero(text == ord(","))
        tensor[np.searchsorted(commas, np.flatnonzero(text == ord("N")))] = np.nan
        ends = np.flatnonzero(text == ord("y"))
        if len(ends):
            is_negative = text[ends - _INFINITY_BYTES] == ord("-")
            tensor[np.searchsorted(commas, ends)] = np.where(is_negative, -np.inf, np.inf)
        return tensor.tobytes()


class CutHeader:
    """A header without its arrays of numbers.

    Attributes:
        document: The header with a string in the place of each array.
    """

    __slots__ = ("_arrays", "_used", "document")

    def __init__(self, document: bytes, arrays: list[msgspec.Raw | TokenNumbers]) -> None:
        self.document = document
        self._arrays = arrays
        self._used = 0

    def filled(self, inputs: Iterator[Input]) -> Iterator[Input]:
        """Yield the document's inputs with their arrays."""
        for each in inputs:
            value = each.value
            if isinstance(value, str) and value.startswith("NaN"):
                each.value = self._arrays[int(value[len(_PLACEHOLDER) :])]
                self._used += 1
            yield each

    def is_used_up(self) -> bool:
        """Whether all arrays were inputs' data; else the header says something else."""
        return self._used == len(self._arrays)


def cut(header: bytes) -> CutHeader | None:
    """Cut the arrays of numbers out of a header.

    Returns:
        The rest and the arrays; None for a header without tokens, and for one that this cannot
        read or that is wrong.
    """
    if not _has_token(header) or b"\\" in header or b"\x00" in header:
        return None
    pieces: list[bytes] = []
    arrays: list[msgspec.Raw | TokenNumbers] = []
    position = 0
    # Without escapes each quote begins or ends a string, so that what looks like a key is one if
    # the rest is a document.
    while (key := _KEY.search(header, position)) is not None:
        start = key.end()
        end = header.rfind(b"]", start, _end_of_numbers(header, start)) + 1
        rest = header[position:start]
        if _has_token(rest):
            return None
        pieces.append(rest)
        position = start
        if end:
            array = _read(header[start:end])
            if array is None:
                return None
            pieces.append(b'"%b%d"' % (_PLACEHOLDER, len(arrays)))
            arrays.append(array)
            position = end
    rest = header[position:]
    return None if _has_token(rest) else CutHeader(b"".join([*pieces, rest]), arrays)


def _has_token(text: bytes) -> bool:
    return b"NaN" in text or b"Inf" in text


def _end_of_numbers(header: bytes, start: int) -> int:
    quote = header.find(b'"', start)
    quote = len(header) if quote < 0 else quote
    brace = header.find(b"}", start, quote)
    return quote if brace < 0 else brace


def _read(text: bytes) -> msgspec.Raw | TokenNumbers | None:
    is_nested = text.find(b"[", 1) > 0
    if is_nested and _depth(text) > _MAX_ARRAY_DEPTH:
        return None
    try:
        if b"N" not in text and b"y" not in text:
            return _VALID.decode(text)
        blanked = _NAN.sub(b" 0 ", text)
        if b"y" in blanked:
            blanked = blanked.replace(b"-Infinity", b" 0 ").replace(b"Infinity", b" 0 ")
        if is_nested:
            _VALID.decode(blanked)
            blanked = b"[" + blanked.translate(None, b"[]") + b"]"
        return TokenNumbers(_FLOATS.decode(blanked), text)
    except (ValueError, RecursionError):
        return None


def _depth(text: bytes) -> int:
    brackets = np.frombuffer(text.translate(None, _NO_BRACKETS), np.uint8)
    return int(np.cumsum(np.where(brackets == ord("["), 1, -1)).max())
