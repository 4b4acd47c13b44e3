# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where values of secret options must not stay: a command line, the environment of others. Pure.

Ray keeps the command line of a driver with its job, for the dashboard and the state API, and who is
on a machine sees it in ``ps``; Ray's processes, and with them models, inherit the environment.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence

from cluster.options.flag import Flag
from cluster.options.values import USER_IN_URL

HIDDEN = "***"


def shown_arguments(arguments: Sequence[str], flags: Iterable[Flag]) -> list[str]:
    """Return arguments with `HIDDEN` for the values of secret flags, and for users in URLs."""
    secret = {f"--{flag.name}" for flag in flags if flag.is_secret}
    return list(_shown(arguments, secret))


def _shown(arguments: Sequence[str], secret: set[str]) -> Iterator[str]:
    is_value = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        # Dashes and underscores are the same in Triton's flags.
        is_secret = name.replace("_", "-") in secret
        if is_value:
            yield HIDDEN
        elif is_secret and equals:
            yield f"{name}={HIDDEN}"
        else:
            yield without_user(argument)
        is_value = is_secret and not equals and not is_value


def without_user(text: str) -> str:
    """Return a text with `HIDDEN` for the users in its URLs."""
    return USER_IN_URL.sub(f"://{HIDDEN}@", text)


def conceal_variables(
    environment: MutableMapping[str, str], flags: Mapping[str, Flag], prefix: str
) -> None:
    """Take the variables of secret options out of an environment that others will inherit."""
    for name, flag in flags.items():
        if flag.is_secret:
            environment.pop(f"{prefix}{name.upper()}", None)
