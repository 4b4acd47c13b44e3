# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the command line of ``manta perf`` as getopt reads perf_analyzer's.

Triton: perf_analyzer/src/command_line_parser.cc @263c5f6
"""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from manta_tools.perf.options.checks import check
from manta_tools.perf.options.deprecated import DEPRECATED, modernised
from manta_tools.perf.options.option import Option
from manta_tools.perf.options.table import DEFAULTS, OPTIONS, PerfOptions
from manta_tools.perf.options.values import NotANumberError, RefusedValueError

_USAGE: Final = "Usage: manta perf -m MODEL [options]"
_ALL: Final = {**OPTIONS, **DEPRECATED}
_BY_FLAG: Final[dict[str, str]] = {
    **{f"--{option.name}": field for field, option in _ALL.items() if option.name},
    **{f"-{option.short}": field for field, option in _ALL.items() if option.short},
}


class UsageError(Exception):
    """The run cannot start with these options; the message says why, in perf_analyzer's words."""


def parse_options(
    argv: Sequence[str], warn: Callable[[str], object] = lambda line: None
) -> PerfOptions:
    """Read the arguments after the command.

    Args:
        argv: The arguments.
        warn: Called with a line for each option that is deprecated.

    Raises:
        UsageError: An option is unknown, lacks its value, has a wrong one, or does not go with
            another.
    """
    given: dict[str, Any] = {}
    try:
        for field, flag, text in _occurrences(argv):
            option = _ALL[field]
            if option.parse is None:
                given[field] = True
            elif field == "verbose":
                given[field] = given.get(field, 0) + 1
            else:
                value = _value(option, flag, text)
                given[field] = (*given.get(field, ()), value) if option.is_repeatable else value
        today, warnings = modernised(given)
        options = check(PerfOptions(**today), frozenset(today))
    except RefusedValueError as error:
        raise UsageError(f"{error}\n{_USAGE}") from None
    for line in warnings:
        warn(line)
    return options


def usage() -> str:
    """Render the help, grouped."""
    lines = [_USAGE, "", "  --help", "        Print this text."]
    group = ""
    for field, option in OPTIONS.items():
        if option.group != group:
            group = option.group
            lines += ["", f"{group}:"]
        names = [f"-{option.short}"] if option.short else []
        value = "" if _is_switch(field, option) else " <value>"
        lines.append("  " + ", ".join([*names, f"--{option.name}"]) + value)
        lines += textwrap.wrap(
            _meaning(field, option), 78, initial_indent=" " * 8, subsequent_indent=" " * 8
        )
    return "\n".join(lines)


def options_table() -> str:
    """Render the options as the tables of docs/perf.md."""
    lines: list[str] = []
    group = ""
    for field, option in OPTIONS.items():
        if option.group != group:
            group = option.group
            lines += ["", f"### {group}", "", "| option | default | meaning |", "|---|---|---|"]
        names = [f"`-{option.short}`"] if option.short else []
        names.append(f"`--{option.name}`")
        lines.append(f"| {', '.join(names)} | {_shown_default(field)} | {option.meaning} |")
    return "\n".join(lines[1:])


def _meaning(field: str, option: Option) -> str:
    parts = [option.meaning]
    if option.is_repeatable:
        parts.append("May be given several times.")
    elif shown := _shown_default(field):
        parts.append(f"Default {shown}.")
    return " ".join(parts)


def _shown_default(field: str) -> str:
    default = DEFAULTS[field]
    return "" if default in (None, "", (), False) and default != 0 else _number(default)


def _number(default: object) -> str:
    if isinstance(default, bool):
        return ""
    return f"{default:g}" if isinstance(default, float) else str(default)


def _is_switch(field: str, option: Option) -> bool:
    return option.parse is None or field == "verbose"


def _occurrences(argv: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the field, the flag and the text of every option given."""
    arguments = iter(argv)
    for argument in arguments:
        if not argument.startswith("-") or argument in ("-", "--"):
            raise RefusedValueError(f"Error: Unknown command-line argument. Got '{argument}'.")
        if argument.startswith("--"):
            flag, equals, text = argument.partition("=")
            field = _field(flag, f"Error: Invalid long option '{flag}'")
            if _is_switch(field, _ALL[field]):
                if equals:
                    raise RefusedValueError(f"Error: option '{flag}' takes no value")
            elif not equals:
                text = _next(arguments, flag)
            yield field, flag, text
        else:
            yield from _letters(argument, arguments)


def _letters(argument: str, arguments: Iterator[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the options of one argument of letters; what follows one with a value is its value."""
    for index in range(1, len(argument)):
        flag = f"-{argument[index]}"
        field = _field(flag, f"Error: Invalid short option '{flag}'")
        if _is_switch(field, _ALL[field]):
            yield field, flag, ""
            continue
        rest = argument[index + 1 :]
        yield field, flag, rest or _next(arguments, flag)
        return


def _next(arguments: Iterator[str], flag: str) -> str:
    text = next(arguments, None)
    if text is None:
        raise RefusedValueError(f"Error: Missing value for option '{flag}'")
    return text


def _field(flag: str, refusal: str) -> str:
    if flag in _BY_FLAG:
        return _BY_FLAG[flag]
    # As getopt_long has it, a beginning that only one option has is that option.
    begun = [field for name, field in _BY_FLAG.items() if len(flag) > 2 and name.startswith(flag)]  # noqa: PLR2004 - dashes
    if len(begun) == 1:
        return begun[0]
    raise RefusedValueError(refusal)


def _value(option: Option, flag: str, text: str) -> Any:
    assert option.parse is not None  # noqa: S101 - switches do not come here
    try:
        return option.parse(text)
    except NotANumberError:
        raise RefusedValueError(f"Failed to parse {flag}. Invalid value provided: {text}") from None
