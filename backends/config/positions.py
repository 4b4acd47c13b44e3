# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where the fields of a config.pbtxt stand in its text.

For errors that are found after parsing: messages of protobuf do not know where they came from.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<mark>[{}<>\[\]:,;])
    |(?P<word>[^\s{}<>\[\]:,;\#"']+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_OPEN, _CLOSE = ("{", "<"), ("}", ">")
# As deep as protobuf's own parser goes.
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Field:
    """A field as written.

    Attributes:
        path: Names from the outermost message, each with how many of that name came before it.
        value: What it is set to; empty for a message.
        line: Where its name stands, from 1.
        column: Likewise.
    """

    path: tuple[tuple[str, int], ...]
    value: str
    line: int
    column: int

    @property
    def name(self) -> str:
        """The field's own name."""
        return self.path[-1][0]

    @property
    def message(self) -> tuple[tuple[str, int], ...]:
        """Path of the message it is in."""
        return self.path[:-1]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int
    column: int


def fields_of(text: str) -> tuple[Field, ...]:
    """Return all fields of a text that protobuf has parsed, in its order.

    Of a text that it would refuse, those before the place that is wrong.
    """
    found: list[Field] = []
    tokens = list(_tokens(text))
    _Parser(tokens, found).message(())
    return tuple(found)


def _tokens(text: str) -> Iterator[_Token]:
    line, start = 1, 0
    for match in _TOKEN.finditer(text):
        kind, token = str(match.lastgroup), match[0]
        if kind != "space":
            yield _Token(kind, token, line, match.start() - start + 1)
        newlines = token.count("\n")
        if newlines:
            line += newlines
            start = match.start() + token.rindex("\n") + 1


class _Parser:
    def __init__(self, tokens: list[_Token], found: list[Field]) -> None:
        self._tokens = tokens
        self._found = found
        self._at = 0

    def message(self, path: tuple[tuple[str, int], ...]) -> None:
        """Read fields up to the end of a message."""
        seen: dict[str, int] = {}
        while self._at < len(self._tokens) and self._peek() not in _CLOSE:
            token = self._take()
            if token.kind != "word" or len(path) > _MAX_DEPTH:
                continue
            if self._peek() == ":":
                self._take()
            self._values((*path,), token, seen)

    def _values(
        self, path: tuple[tuple[str, int], ...], name: _Token, seen: dict[str, int]
    ) -> None:
        is_list = self._peek() == "["
        if is_list:
            self._take()
        while self._at < len(self._tokens):
            if is_list and self._peek() in {",", "]"}:
                if self._take().text == "]":
                    return
                continue
            number = seen.get(name.text, 0)
            seen[name.text] = number + 1
            own = (*path, (name.text, number))
            first = self._tokens[self._at] if is_list else name
            if self._peek() in _OPEN:
                self._take()
                self._found.append(Field(own, "", first.line, first.column))
                self.message(own)
                self._take()
            else:
                value = self._scalar()
                self._found.append(Field(own, value, first.line, first.column))
            if not is_list:
                return

    def _scalar(self) -> str:
        value = self._take()
        if value.kind != "text":
            return value.text
        parts = [value.text[1:-1]]
        while self._at < len(self._tokens) and self._tokens[self._at].kind == "text":
            parts.append(self._take().text[1:-1])
        return "".join(parts)

    def _peek(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _take(self) -> _Token:
        if self._at >= len(self._tokens):
            return _Token("end", "", 0, 0)
        self._at += 1
        return self._tokens[self._at - 1]
