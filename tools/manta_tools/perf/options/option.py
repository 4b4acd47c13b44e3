# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of an option, and how a field of the options says it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Option:
    """How one option is given.

    Attributes:
        name: Long name without dashes.
        short: Letter; empty when there is none.
        group: Heading in the help.
        meaning: One sentence.
        parse: Reads one value; None for a switch.
        is_repeatable: Whether the values of all occurrences count.
    """

    name: str
    short: str
    group: str
    meaning: str
    parse: Callable[[str], Any] | None
    is_repeatable: bool = False


def given_as(
    default: T,
    group: str,
    meaning: str,
    parse: Callable[[str], Any] | None = None,
    *,
    short: str = "",
) -> T:
    """Return a field of the options that is given so.

    Args:
        default: Its default; a bool is a switch, and a tuple may be given several times.
        group: Heading in the help.
        meaning: One sentence.
        parse: Reads one value; left out for a text.
        short: Letter.
    """
    metadata = {
        "group": group,
        "meaning": meaning,
        "parse": None if isinstance(default, bool) else parse or str,
        "short": short,
        "is_repeatable": isinstance(default, tuple),
    }
    return field(default=default, metadata=metadata)
