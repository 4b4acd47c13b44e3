# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that other distributions bring, found by their entry points.

Asked for only when a command is not one of Manta's own, and by ``manta --help``: what another
distribution declares cannot break the server.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from cluster.commands.table import OF_TOOLS, TOOLS

Command = Callable[[Sequence[str]], int]

_GROUP: Final = "manta.commands"


class CommandError(Exception):
    """A command that cannot be run; what it says is for the user."""


def installed() -> frozenset[str]:
    """Return the names of the commands that installed distributions declare."""
    return frozenset(entry_points(group=_GROUP).names)


def load(name: str) -> Command | None:
    """Import a command; None if no distribution is known to have one of this name.

    Raises:
        CommandError: Its distribution is not installed, or what it declares cannot be imported.
    """
    found = tuple(entry_points(group=_GROUP, name=name))
    if not found:
        if name in OF_TOOLS:
            raise CommandError(
                f"'manta {name}' is a command of {TOOLS}, which is not installed; "
                f"pip install {TOOLS}"
            )
        return None
    return _imported(found[0])


def _imported(found: EntryPoint) -> Command:
    try:
        command: Command = found.load()
    except Exception as error:  # whatever a module raises that is imported
        owner = f"{found.dist.name} {found.dist.version}" if found.dist else "a distribution"
        raise CommandError(
            f"'manta {found.name}' of {owner} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    return command
