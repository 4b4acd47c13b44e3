# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The description of one option, kept in the metadata of its field."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from cluster.options import values

T = TypeVar("T")

# How the smallest value of an option is told.
_BOUNDS: Final = {0: "not be negative", 1: "be greater than 0"}


@dataclass(frozen=True, slots=True)
class Flag:
    """The description of an option.

    Attributes:
        name: Flag without the leading dashes.
        group: Heading in the help.
        meaning: One sentence.
        read: Reads one value; raises ValueRefusedError.
        least: The smallest value; None for any.
        is_repeatable: Whether the option may be given several times; its value is a tuple.
        takes_value: False for a switch, which is on when given.
        is_unused: Whether it is accepted for compatibility only.
        is_secret: Whether its value must not be shown.
    """

    name: str
    group: str
    meaning: str
    read: Callable[[str], Any]
    least: int | None = None
    is_repeatable: bool = False
    takes_value: bool = True
    is_unused: bool = False
    is_secret: bool = False

    def parse(self, text: str) -> Any:
        """Read one value.

        Raises:
            ValueRefusedError: It has the wrong form, or is too small.
        """
        value = self.read(text)
        if self.least is not None and value < self.least:
            bound = _BOUNDS.get(self.least, f"be at least {self.least}")
            raise values.ValueRefusedError(f"Error: --{self.name} must {bound}.")
        return value


_READ_BY_TYPE: Final[dict[type, Callable[[str], Any]]] = {
    bool: values.boolean,
    int: values.integer,
    float: values.real,
    str: str,
    tuple: str,
}


@dataclass(frozen=True, slots=True)
class Group:
    """Declares the options below one heading of the help."""

    heading: str

    def __call__(
        self,
        default: T,
        meaning: str,
        read: Callable[[str], Any] | None = None,
        *,
        least: int | None = None,
        **traits: bool,
    ) -> T:
        """Declare an option; without ``read`` the type of its default says how it is read."""
        by_type = _READ_BY_TYPE[type(default)] if least is None else values.long_integer
        metadata = {
            "group": self.heading,
            "meaning": meaning,
            "read": read or by_type,
            "least": least,
            "is_repeatable": isinstance(default, tuple),
            **traits,
        }
        return field(default=default, metadata=metadata, repr=not traits.get("is_secret", False))
