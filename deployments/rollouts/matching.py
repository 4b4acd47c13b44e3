# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a request meets the conditions of a rule. Pure.

Patterns are globs, which a client's value cannot make expensive: each part between two stars is
found once and never looked for again.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from backends.api.request import ParameterValue
from deployments.rollouts.spec import MOST_VALUE_CHARS, Condition, How, Rule, Source

Compare = Callable[[str], bool]

_TRUTH: Final = {True: "true", False: "false"}


def text_of(value: ParameterValue) -> str:
    """Return a parameter as rules and sticky keys see it; booleans as JSON writes them."""
    if isinstance(value, str):
        return value
    return _TRUTH[value] if isinstance(value, bool) else str(value)


def text_at(
    source: Source,
    name: str,
    headers: Mapping[str, str],
    parameters: Mapping[str, ParameterValue],
    tenant: str,
    sequence: int | str,
) -> str | None:
    """Return what a request says at a place; None where it says nothing.

    Args:
        source: Where to look.
        name: Of the header, in lower case, or of the parameter.
        headers: Of the request, names in lower case.
        parameters: Of the request.
        tenant: Empty for nobody.
        sequence: The correlation id; 0 or "" without one.
    """
    if source is Source.HEADER:
        return headers.get(name)
    if source is Source.PARAMETER:
        value = parameters.get(name)
        return None if value is None else text_of(value)
    if source is Source.TENANT:
        return tenant or None
    return str(sequence) if sequence else None


def glob(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a glob; each part is atomic, so nothing is tried twice."""
    parts = [re.escape(part).replace(r"\?", ".") for part in pattern.split("*")]
    if len(parts) == 1:
        return re.compile(parts[0], re.DOTALL)
    found = "".join([f"(?>.*?{part})" for part in parts[1:-1] if part])
    return re.compile(f"{parts[0]}{found}.*{parts[-1]}", re.DOTALL)


def _one_of(values: tuple[str, ...]) -> Compare:
    return frozenset(values).__contains__


def _begins(values: tuple[str, ...]) -> Compare:
    return lambda text: text.startswith(values)


def _like(values: tuple[str, ...]) -> Compare:
    patterns = [glob(value) for value in values]

    def compare(text: str) -> bool:
        if len(text) > MOST_VALUE_CHARS:
            return False
        return any(pattern.fullmatch(text) is not None for pattern in patterns)

    return compare


def _any(_values: tuple[str, ...]) -> Compare:
    return lambda _text: True


_COMPARES: Final[Mapping[How, Callable[[tuple[str, ...]], Compare]]] = {
    How.EXACT: _one_of,
    How.PREFIX: _begins,
    How.GLOB: _like,
    How.PRESENT: _any,
}


class Matcher:
    """A rule, ready to be asked.

    Attributes:
        arm: Name of the arm whose requests it names.
    """

    __slots__ = ("_tests", "arm")

    def __init__(self, rule: Rule) -> None:
        self.arm = rule.arm
        self._tests: list[tuple[Condition, Compare]] = [
            (condition, _COMPARES[condition.how](condition.values)) for condition in rule.conditions
        ]

    def matches(
        self,
        headers: Mapping[str, str],
        parameters: Mapping[str, ParameterValue],
        tenant: str,
        sequence: int | str,
    ) -> bool:
        """Whether all conditions hold; the arguments are those of `text_at`."""
        for condition, compare in self._tests:
            text = text_at(condition.source, condition.name, headers, parameters, tenant, sequence)
            if text is None or not compare(text):
                return False
        return True
