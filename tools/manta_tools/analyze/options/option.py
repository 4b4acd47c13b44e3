# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How one option is given, and the field that holds it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from manta_tools.analyze.options import values
from manta_tools.analyze.options.values import Read

T = TypeVar("T")

PROFILE: Final = "profile"
REPORT: Final = "report"
BOTH: Final = (PROFILE, REPORT)
# The group of options that mean nothing here.
IGNORED: Final = "Accepted without effect"


@dataclass(frozen=True, slots=True)
class Option:
    """How one option is given.

    Attributes:
        name: Its key in the file; with ``-`` for ``_`` its name on the command line.
        short: Letter; empty when there is none.
        group: Heading in the help.
        meaning: One sentence; of what has no effect, why.
        read: Reads what is given.
        commands: Subcommands that take it.
        is_switch: Whether the command line gives it without a value.
        is_on_command_line: Whether it can be given there at all.
    """

    name: str
    short: str
    group: str
    meaning: str
    read: Read
    commands: tuple[str, ...]
    is_switch: bool
    is_on_command_line: bool

    @property
    def has_effect(self) -> bool:
        """Whether it means something here."""
        return self.group != IGNORED


def option(
    default: T,
    group: str,
    meaning: str,
    read: Read | None = None,
    *,
    short: str = "",
    commands: tuple[str, ...] = (PROFILE,),
    is_on_command_line: bool = True,
) -> T:
    """Return the field of an option; a switch is one whose default is false.

    Args:
        default: What holds where it is not given.
        group: Its heading.
        meaning: One sentence.
        read: Reads what is given; by the default it is a flag or a text.
        short: Its letter.
        commands: Subcommands that take it.
        is_on_command_line: Whether it can be given there.
    """
    is_switch = isinstance(default, bool)
    metadata = {
        "group": group,
        "meaning": meaning,
        "read": read or (values.flag if is_switch else values.text),
        "short": short,
        "commands": commands,
        "is_switch": is_switch,
        "is_on_command_line": is_on_command_line,
    }
    if isinstance(default, Mapping):
        return field(default_factory=dict, metadata=metadata)  # type: ignore[return-value]
    return field(default=default, metadata=metadata)
