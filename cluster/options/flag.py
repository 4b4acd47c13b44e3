# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The description of one option, kept in the metadata of its field."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cluster.options import values

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Flag:
    """The description of an option.

    Attributes:
        name: Flag without the leading dashes.
        group: Heading in the help.
        meaning: One sentence.
        parse: Reads one value; raises ValueRefusedError.
        is_repeatable: Whether the option may be given several times; its value is a tuple.
        takes_value: False for a switch, which is on when given.
        is_unused: Whether it is accepted for compatibility only.
        is_secret: Whether its value must not be shown.
    """

    name: str
    group: str
    meaning: str
    parse: Callable[[str], Any]
    is_repeatable: bool = False
    takes_value: bool = True
    is_unused: bool = False
    is_secret: bool = False


_PARSE_BY_TYPE: dict[type, Callable[[str], Any]] = {
    bool: values.boolean,
    int: values.integer,
    float: values.real,
    str: values.text_value,
    tuple: values.text_value,
}


def declared(
    default: T, group: str, meaning: str, parse: Callable[[str], Any] | None = None, **traits: bool
) -> T:
    """Declare an option; the type of the default decides how it is read unless ``parse`` does."""
    metadata = {
        "group": group,
        "meaning": meaning,
        "parse": parse or _PARSE_BY_TYPE[type(default)],
        "is_repeatable": isinstance(default, tuple),
        **traits,
    }
    shown = not traits.get("is_secret", False)
    return field(default=default, metadata=metadata, repr=shown)
