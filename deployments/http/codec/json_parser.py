# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A JSON reader with RapidJSON's grammar and complaints, for documents the fast decoder refuses.

Clients and tests match on the texts and byte offsets RapidJSON reports, and Triton lets it accept
what JSON has not: ``NaN``, ``Inf``, ``Infinity``, a leading byte order mark, and anything behind a
NUL. Of a key given twice the first counts. This reader runs only after `msgspec` has failed, so it
is written for the text it reports, not for speed, and `MAX_STRICT_BYTES` bounds what it costs:
larger documents are read by the standard library, whose complaints are translated.

Triton: common/include/triton/common/triton_json.h @83adf7c
"""

import json
import re
from typing import Final, NoReturn

from backends.api.errors import InternalError, InvalidArgumentError

# One token costs about a microsecond, so this bounds a malformed document to some 30 ms.
MAX_STRICT_BYTES: Final = 1 << 16
MAX_DEPTH: Final = 100

NESTING_TEXT: Final = f"JSON nesting depth exceeds maximum allowed limit ({MAX_DEPTH})"

_PREFIX: Final = "failed to parse the request JSON buffer: "
_EMPTY: Final = "The document is empty."
_TRAILING: Final = "The document root must not be followed by other values."
_INVALID: Final = "Invalid value."
_NO_NAME: Final = "Missing a name for object member."
_NO_COLON: Final = "Missing a colon after a name of object member."
_NO_OBJECT_COMMA: Final = "Missing a comma or '}' after an object member."
_NO_ARRAY_COMMA: Final = "Missing a comma or ']' after an array element."
_NO_QUOTE: Final = "Missing a closing quotation mark in string."
_BAD_ESCAPE: Final = "Invalid escape character in string."
_BAD_HEX: Final = "Incorrect hex digit after \\u escape in string."
_BAD_SURROGATE: Final = "The surrogate pair in string is invalid."
_NO_FRACTION: Final = "Miss fraction part in number."
_NO_EXPONENT: Final = "Miss exponent in number."
_TOO_BIG: Final = "Number too big to be stored in double."

_SPACE = re.compile(rb"[ \t\r\n]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]*)?")
_HEX4 = re.compile(rb"[0-9a-fA-F]{4}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# Each escape of a string, surrogates in pairs; what is a surrogate alone is the group.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL
)
_ESCAPES: Final = {
    ord('"'): b'"',
    ord("\\"): b"\\",
    ord("/"): b"/",
    ord("b"): b"\b",
    ord("f"): b"\f",
    ord("n"): b"\n",
    ord("r"): b"\r",
    ord("t"): b"\t",
}
_WORDS: Final[dict[int, tuple[bytes, object]]] = {
    ord("t"): (b"true", True),
    ord("f"): (b"false", False),
    ord("n"): (b"null", None),
}
_LARGEST_EXACT: Final = 2**64

# Python's complaints, by their first words, with the nearest of RapidJSON's.
_TRANSLATIONS: Final = (
    ("Expecting property name", _NO_NAME),
    ("Illegal trailing comma", _NO_NAME),
    ("Expecting ':'", _NO_COLON),
    ("Expecting ','", _NO_OBJECT_COMMA),
    ("Unterminated string", _NO_QUOTE),
    ("Invalid \\uXXXX", _BAD_HEX),
    ("Invalid", _BAD_ESCAPE),
    ("Extra data", _TRAILING),
)


def parse(document: bytes) -> object:
    """Read a document.

    Strings are UTF-8; bytes that are not stand as surrogate escapes.

    Raises:
        InternalError: The document is malformed.
        InvalidArgumentError: It nests deeper than `MAX_DEPTH`.
    """
    end = document.find(b"\x00")
    text = document if end < 0 else document[:end]
    text = text.removeprefix(b"\xef\xbb\xbf")
    if len(text) > MAX_STRICT_BYTES:
        return _parse_large(text)
    return _Reader(text).document()


def _parse_large(text: bytes) -> object:
    try:
        value: object = json.loads(
            text.decode("utf-8", "surrogateescape"),
            object_pairs_hook=lambda pairs: dict(reversed(pairs)),
        )
    except json.JSONDecodeError as error:
        known = (ours for theirs, ours in _TRANSLATIONS if error.msg.startswith(theirs))
        _fail(next(known, _INVALID), error.pos)
    except (RecursionError, ValueError):
        raise InvalidArgumentError(NESTING_TEXT) from None
    if _SURROGATE.search(text):
        for escape in _ESCAPE.finditer(text):
            if escape[1]:
                _fail(_BAD_SURROGATE, escape.start())
    return value


def _fail(text: str, offset: int) -> NoReturn:
    raise InternalError(f"{_PREFIX}{text} at {offset}")


class _Reader:
    """Recursive descent; at most `MAX_DEPTH` deep."""

    __slots__ = ("position", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.position = 0

    def document(self) -> object:
        if not self._peek():
            _fail(_EMPTY, self.position)
        value = self._value(0)
        if self._peek():
            _fail(_TRAILING, self.position)
        return value

    def _peek(self) -> int:
        """Skip white space and return the next byte, or 0 at the end."""
        match = _SPACE.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return self._byte()

    def _byte(self) -> int:
        return self.text[self.position] if self.position < len(self.text) else 0

    def _value(self, depth: int) -> object:
        first = self._byte()
        if first == ord('"'):
            return self._string()
        if first == ord("{") or first == ord("["):
            if depth >= MAX_DEPTH:
                raise InvalidArgumentError(NESTING_TEXT)
            return self._object(depth + 1) if first == ord("{") else self._array(depth + 1)
        word = _WORDS.get(first)
        if word is not None:
            self._consume(word[0])
            return word[1]
        return self._number()

    def _consume(self, word: bytes) -> None:
        for byte in word:
            if self._byte() != byte:
                _fail(_INVALID, self.position)
            self.position += 1

    def _object(self, depth: int) -> object:
        members: dict[str, object] = {}
        self.position += 1
        following = self._peek()
        if following == ord("}"):
            self.position += 1
            return members
        while True:
            if following != ord('"'):
                _fail(_NO_NAME, self.position)
            name = self._string()
            if self._peek() != ord(":"):
                _fail(_NO_COLON, self.position)
            self.position += 1
            self._peek()
            value = self._value(depth)
            members.setdefault(name, value)
            following = self._peek()
            if following not in (ord(","), ord("}")):
                _fail(_NO_OBJECT_COMMA, self.position)
            self.position += 1
            if following == ord("}"):
                return members
            following = self._peek()

    def _array(self, depth: int) -> object:
        elements: list[object] = []
        self.position += 1
        if self._peek() == ord("]"):
            self.position += 1
            return elements
        while True:
            elements.append(self._value(depth))
            following = self._peek()
            if following not in (ord(","), ord("]")):
                _fail(_NO_ARRAY_COMMA, self.position)
            self.position += 1
            if following == ord("]"):
                return elements
            self._peek()

    def _string(self) -> str:
        parts: list[bytes] = []
        self.position += 1
        while True:
            match = _PLAIN.match(self.text, self.position)
            if match:
                parts.append(match.group())
                self.position = match.end()
            stop = self._byte()
            if stop == ord('"'):
                self.position += 1
                return b"".join(parts).decode("utf-8", "surrogateescape")
            if not stop:
                _fail(_NO_QUOTE, self.position)
            if stop != ord("\\"):
                _fail(_BAD_ESCAPE, self.position)
            parts.append(self._escape())

    def _escape(self) -> bytes:
        start = self.position
        self.position += 1
        code = self._byte()
        if code != ord("u"):
            plain = _ESCAPES.get(code)
            if plain is None:
                _fail(_BAD_ESCAPE, start)
            self.position += 1
            return plain
        point = self._hex4(start)
        if 0xD800 <= point <= 0xDFFF:  # noqa: PLR2004 - UTF-16's surrogates
            if point > 0xDBFF or self.text[self.position : self.position + 2] != b"\\u":  # noqa: PLR2004
                _fail(_BAD_SURROGATE, start)
            self.position += 1
            low = self._hex4(start)
            if not 0xDC00 <= low <= 0xDFFF:  # noqa: PLR2004
                _fail(_BAD_SURROGATE, start)
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
        return chr(point).encode()

    def _hex4(self, escape_start: int) -> int:
        match = _HEX4.match(self.text, self.position + 1)
        if match is None:
            _fail(_BAD_HEX, escape_start)
        self.position = match.end()
        return int(match.group(), 16)

    def _number(self) -> object:
        start = self.position
        match = _NUMBER.match(self.text, start)
        if match is None:
            return self._not_finite()
        self.position = match.end()
        fraction, exponent = match.groups()
        if fraction == b".":
            _fail(_NO_FRACTION, match.end(1))
        if exponent is not None and not exponent[-1:].isdigit():
            _fail(_NO_EXPONENT, match.end(2))
        if fraction is None and exponent is None and match.end() - start < 20:  # noqa: PLR2004 - fits 64 bits
            return int(match.group())
        number = float(match.group())
        if number in (float("inf"), float("-inf")):
            _fail(_TOO_BIG, start)
        if fraction is None and exponent is None and -_LARGEST_EXACT < number <= _LARGEST_EXACT:
            whole = int(match.group())
            return whole if -(2**63) <= whole < _LARGEST_EXACT else number
        return number

    def _not_finite(self) -> float:
        sign = -1.0 if self._byte() == ord("-") else 1.0
        if sign < 0:
            self.position += 1
        if self._byte() == ord("N"):
            self._consume(b"NaN")
            return float("nan")
        if self._byte() != ord("I"):
            _fail(_INVALID, self.position)
        self._consume(b"Inf")
        if self._byte() == ord("i"):
            self._consume(b"inity")
        return sign * float("inf")
