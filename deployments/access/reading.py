# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads YAML strictly: what is wrong is an error that names file, place, value and remedy. Pure."""

from collections.abc import Hashable
from datetime import UTC, date, datetime
from typing import Any, ClassVar, Final, Self

import yaml

from backends.api.errors import InvalidArgumentError
from deployments.settings.documents import Part, shown

# What PyYAML raises of texts that are no YAML, or of values such as the 99th of January.
_BAD_YAML: Final = (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError)


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
                    None, None, f"key {shown(key.value)} stands twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class Time(float):
    """A point in time, in seconds of the wall clock."""

    expected: ClassVar[str] = "a time such as 2027-01-31T12:00:00Z"

    @classmethod
    def read(cls, value: object) -> Self:
        """Return the time of a text, or of what YAML makes of one; without a zone it is UTC."""
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day, tzinfo=UTC)
        if not isinstance(value, datetime):
            raise ValueError(cls.expected)  # noqa: TRY004 - msgspec takes it
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        try:
            return cls(value.timestamp())
        except OverflowError:
            raise ValueError(cls.expected) from None


def policy_part(value: object, file: str) -> Part:
    """Return the whole of a file of the policy."""
    return Part(value, "", f"access policy file '{file}'", PolicyError)


def read_yaml(text: str, file: str) -> Part:
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
    return policy_part(value, file)


def _problem(error: BaseException) -> str:
    """Say what YAML did not like, without quoting the file: there may be secrets in it."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{error.problem} (line {mark.line + 1}, column {mark.column + 1})"
    return "a value cannot be read" if isinstance(error, ValueError) else type(error).__name__
