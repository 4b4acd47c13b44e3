# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads YAML strictly: what is wrong is an error that names file, place, value and remedy. Pure."""

import difflib
import math
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final, TypeVar

import yaml

from backends.api.errors import InvalidArgumentError

T = TypeVar("T")
D = TypeVar("D")

_SHOWN_CHARACTERS: Final = 60
# What PyYAML raises of texts that are no YAML, or of values such as the 99th of January.
_BAD_YAML: Final = (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError)
_TYPE_NAMES: Final = {
    "dict": "a mapping",
    "list": "a list",
    "NoneType": "nothing",
    "bytes": "binary data",
}


class PolicyError(InvalidArgumentError):
    """A file of the access policy cannot be taken; the message names file and place."""


class _StrictLoader(yaml.SafeLoader):
    """YAML without tags for objects, where a key stands once in a mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge" or not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key '{shown(key.value)}' stands twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


@dataclass(frozen=True, slots=True)
class Item:
    """A value in a file.

    Attributes:
        value: What YAML made of it.
        path: Where it stands, for example ``grants[0].roles``; empty for the whole file.
        file: The file's name.
    """

    value: object
    path: str
    file: str

    def error(self, problem: str, remedy: str = "") -> PolicyError:
        """Return the error that something is wrong here."""
        where = f"{self.path}: " if self.path else ""
        more = f"; {remedy}" if remedy else ""
        return PolicyError(f"access policy file '{self.file}': {where}{problem}{more}")

    def wrong(self, expected: str, remedy: str = "") -> PolicyError:
        """Return the error that something else was expected here."""
        return self.error(f"got {shown(self.value)}, expected {expected}", remedy)

    def fields(self, known: Collection[str]) -> dict[str, "Item"]:
        """Return the items of a mapping that may have only these keys.

        Raises:
            PolicyError: It is no mapping, or has another key.
        """
        found = self.mapping()
        for name, item in found.items():
            if name not in known:
                raise item.error(
                    f"unknown key '{shown_text(name)}', expected one of {', '.join(known)}",
                    suggestion(name, known) or "remove it",
                )
        return found

    def mapping(self) -> dict[str, "Item"]:
        """Return the items of a mapping whose keys are texts."""
        if not isinstance(self.value, dict):
            raise self.wrong("a mapping")
        found: dict[str, Item] = {}
        for key, value in self.value.items():
            if not isinstance(key, str) or not key:
                raise self.error(f"key {shown(key)} is not a text", "put it in quotes")
            path = f"{self.path}.{shown_text(key)}" if self.path else shown_text(key)
            found[key] = Item(value, path, self.file)
        return found

    def items(self) -> list["Item"]:
        """Return the items of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("a list", "put '- ' before each entry")
        return [Item(value, f"{self.path}[{at}]", self.file) for at, value in enumerate(self.value)]

    def text(self, most: int = 1024) -> str:
        """Return a text that is not empty, printable, and of at most so many characters."""
        value = self.value
        if not isinstance(value, str):
            is_plain = isinstance(value, int | float | date)
            raise self.wrong("a text", "put it in quotes" if is_plain else "")
        if not value or len(value) > most or not value.isprintable():
            raise self.wrong(f"a text of 1 to {most} printable characters")
        return value

    def flag(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def number(self, least: float = 0.0, most: float = math.inf) -> float:
        """Return a finite number within bounds."""
        value = self.value
        bounds = f"a number of at least {least:g}"
        if most < math.inf:
            bounds += f" and at most {most:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(bounds)
        try:
            number = float(value)
        except OverflowError:
            raise self.wrong(bounds) from None
        if not math.isfinite(number) or not least <= number <= most:
            raise self.wrong(bounds)
        return number

    def whole(self, least: int = 0, most: int = 2**32 - 1) -> int:
        """Return a whole number within bounds."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(f"a whole number from {least} to {most}")
        return value

    def choice(self, words: Collection[str], what: str) -> str:
        """Return one of some words."""
        value = self.value
        if not isinstance(value, str) or value not in words:
            hint = suggestion(value, words) if isinstance(value, str) else ""
            raise self.error(f"unknown {what} {shown(value)}, expected {' or '.join(words)}", hint)
        return value

    def one_or_more(self) -> list["Item"]:
        """Return the items of a list that is not empty; a single text stands for a list of it."""
        if isinstance(self.value, str):
            return [self]
        found = self.items()
        if not found:
            raise self.wrong("at least one entry", "remove the key if nothing is meant")
        return found

    def texts(self, most: int = 1024) -> tuple[str, ...]:
        """Return a list of texts, or a single one as such a list."""
        return tuple(item.text(most) for item in self.one_or_more())

    def time_s(self) -> float:
        """Return a point in time, in seconds of the wall clock."""
        expected = "a time such as 2027-01-31T12:00:00Z"
        value = self.value
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                raise self.wrong(expected) from None
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day, tzinfo=UTC)
        if not isinstance(value, datetime):
            raise self.wrong(expected)
        if value.tzinfo is None:
            # YAML makes one without a zone of a time in UTC as well.
            value = value.replace(tzinfo=UTC)
        try:
            return value.timestamp()
        except (ValueError, OverflowError):
            raise self.wrong(expected) from None


def read_yaml(text: str, file: str) -> Item:
    """Return what a file says.

    Args:
        text: Its content.
        file: Its name, for errors.

    Raises:
        PolicyError: It is no YAML.
    """
    try:
        value = yaml.load(text, _StrictLoader)  # noqa: S506 - a subclass of the safe one
    except _BAD_YAML as error:
        raise PolicyError(
            f"access policy file '{file}' is not YAML: {_problem(error)}; mend the file"
        ) from None
    return Item(value, "", file)


def _problem(error: BaseException) -> str:
    """Say what YAML did not like, without quoting the file: there may be secrets in it."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{error.problem} (line {mark.line + 1}, column {mark.column + 1})"
    return "a value cannot be read" if isinstance(error, ValueError) else type(error).__name__


def optional(fields: dict[str, Item], key: str, read: Callable[[Item], T], default: D) -> T | D:
    """Return what is read of a key, or the default where the key is missing."""
    item = fields.get(key)
    return default if item is None else read(item)


def texts_of(fields: dict[str, Item], key: str, most: int = 1024) -> tuple[str, ...]:
    """Return the texts of a key; none where the key is missing."""
    item = fields.get(key)
    return () if item is None else item.texts(most)


def fields_of(fields: dict[str, Item], key: str, known: Collection[str]) -> dict[str, Item]:
    """Return the items of a key that is a mapping; none where the key is missing."""
    item = fields.get(key)
    return {} if item is None else item.fields(known)


def required(parent: Item, fields: dict[str, Item], key: str, remedy: str) -> Item:
    """Return the item of a key that must be there.

    Raises:
        PolicyError: The key is missing.
    """
    item = fields.get(key)
    if item is None:
        raise parent.error(f"'{key}' is missing", remedy)
    return item


def shown(value: object) -> str:
    """Describe a value in an error: short, on one line, and nothing of what is inside it."""
    kind = type(value).__name__
    if kind in _TYPE_NAMES:
        return _TYPE_NAMES[kind]
    if isinstance(value, str):
        return f"'{shown_text(value)}'"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | date):
        return str(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 64 else "a huge number"
    return f"a {kind}"


def shown_text(text: str) -> str:
    """Shorten a text, and escape what is not printable."""
    short = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short)


def suggestion(word: str, words: Iterable[str]) -> str:
    """Ask whether a similar word was meant; empty if there is none."""
    close = difflib.get_close_matches(word[:_SHOWN_CHARACTERS], list(words), 1)
    return f"did you mean '{close[0]}'?" if close else ""
