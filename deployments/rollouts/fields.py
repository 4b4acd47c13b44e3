# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the fields of a JSON object strictly: bounded, and unknown ones are errors. Pure."""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from backends.api.errors import InvalidArgumentError
from deployments.rollouts.spec import MOST_DURATION_S, MOST_NAME_CHARS, TOTAL_WEIGHT

_Word = TypeVar("_Word", bound=StrEnum)

_PERCENT: Final = 100
_MOST_SHOWN_CHARS: Final = 60


def shown(value: object) -> str:
    """Return a value as an error shows it; long ones are cut."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN_CHARS else f"{text[:_MOST_SHOWN_CHARS]}..."


class Fields:
    """The fields of one object, each to be taken once.

    Args:
        value: What JSON gave.
        where: Its path in the body, for errors.

    Raises:
        InvalidArgumentError: It is not an object. So do all methods where a field is not what was
            expected.
    """

    __slots__ = ("_left", "where")

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise InvalidArgumentError(f"{where} must be an object, got {shown(value)}")
        self._left: dict[str, object] = {
            name: each for name, each in value.items() if each is not None
        }
        self.where = where

    def fail(self, name: str, given: object, expected: str) -> InvalidArgumentError:
        """Return the error of a field."""
        return InvalidArgumentError(f"{self.where}.{name} must be {expected}, got {shown(given)}")

    def has(self, name: str) -> bool:
        """Whether the field is given and not null."""
        return name in self._left

    def take(self, name: str) -> object:
        """Return the field as it is; None where it is missing, or null, which is the same."""
        return self._left.pop(name, None)

    def close(self, known: Iterable[str]) -> None:
        """Have it that there are no other fields.

        Args:
            known: Names of all that there can be, for the error.
        """
        if self._left:
            names = ", ".join(sorted(map(shown, self._left)))
            can_be = ", ".join(known)
            raise InvalidArgumentError(
                f"{self.where} has no field {names}; its fields are {can_be}"
            )

    def text(self, name: str, default: str | None = None, most: int = MOST_NAME_CHARS) -> str:
        """Return a string of 1 to ``most`` printable characters."""
        value = self.take(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
            raise self.fail(name, value, f"a string of 1 to {most} printable characters")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean."""
        value = self.take(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fail(name, value, "true or false")
        return value

    def number(self, name: str, default: float | None, least: float, most: float) -> float:
        """Return a number in a range."""
        value = self.take(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(name, value, f"a number from {least:g} to {most:g}")
        # Written so that NaN is refused.
        if not least <= value <= most:
            raise self.fail(name, value, f"a number from {least:g} to {most:g}")
        return float(value)

    def integer(self, name: str, default: int | None, least: int, most: int) -> int:
        """Return an integer in a range."""
        value = self.take(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.fail(name, value, f"an integer from {least} to {most}")
        return value

    def seconds(self, name: str, default: float | None, least: float = 0.0) -> float:
        """Return a duration, at most 30 days."""
        return self.number(name, default, least, MOST_DURATION_S)

    def weight(self, name: str, default: int | None = None) -> int:
        """Return a percentage with at most two decimals, in basis points."""
        value = self.take(name)
        if value is None and default is not None:
            return default
        expected = "a percentage from 0 to 100 with at most two decimals"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(name, value, expected)
        if not 0 <= value <= _PERCENT:
            raise self.fail(name, value, expected)
        points = value * (TOTAL_WEIGHT // _PERCENT)
        if not math.isclose(points, round(points), abs_tol=1e-6):
            raise self.fail(name, value, expected)
        return round(points)

    def word(self, name: str, words: type[_Word], default: _Word | None = None) -> _Word:
        """Return a member of an enumeration by its value."""
        value = self.take(name)
        if value is None and default is not None:
            return default
        found: Mapping[object, _Word] = {word.value: word for word in words}
        if not isinstance(value, str) or value not in found:
            known = ", ".join(word.value for word in words)
            raise self.fail(name, value, f"one of {known}")
        return found[value]

    def objects(self, name: str, most: int, least: int = 0) -> list["Fields"]:
        """Return the fields of each object of a list."""
        value = self.take(name)
        if value is None and not least:
            return []
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise self.fail(name, value, f"a list of {least} to {most} objects")
        return [Fields(each, f"{self.where}.{name}[{at}]") for at, each in enumerate(value)]

    def texts(self, name: str, most: int, most_chars: int) -> tuple[str, ...]:
        """Return a list of strings; one string is a list of one."""
        value = self.take(name)
        given = [value] if isinstance(value, str) else value
        expected = f"a list of 1 to {most} strings of up to {most_chars} characters"
        if not isinstance(given, list) or not 0 < len(given) <= most:
            raise self.fail(name, value, expected)
        for each in given:
            if not isinstance(each, str) or len(each) > most_chars:
                raise self.fail(name, value, expected)
        return tuple(map(str, given))
