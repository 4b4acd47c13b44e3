# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the command line of ``manta analyze``, and the YAML file that it names.

Triton: model_analyzer/model_analyzer/cli/cli.py, config/input/config_command.py @63a0fec
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.options import models
from manta_tools.analyze.options.checks import completed
from manta_tools.analyze.options.models import ProfiledModel
from manta_tools.analyze.options.option import PROFILE, REPORT, Option
from manta_tools.analyze.options.table import DEFAULTS, OPTIONS, AnalyzeOptions
from manta_tools.analyze.options.values import unknown

USAGE: Final = (
    "Usage: manta analyze MODEL [options]\n"
    "       manta analyze profile [-f FILE] [options]\n"
    "       manta analyze report [-f FILE] [options]"
)
# Options of Model Analyzer itself, before or after the subcommand.
_VERBOSITY: Final = {"-v": 1, "--verbose": 1, "-q": -1, "--quiet": -1}
_MODES: Final = ("-m", "--mode")
# Launch modes without a meaning of their own.
_AS_LOCAL: Final = ("docker", "c_api")
_ONLINE_MODES: Final = ("online", "offline")


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a command line asks for.

    Attributes:
        command: ``profile`` or ``report``.
        options: The options, completed.
        given: The fields that the command line or the file gave.
        warnings: What was accepted without effect, a sentence each.
        is_online: Whether latency counts, and not throughput of large batches alone.
        verbosity: 1 for more, -1 for less.
    """

    command: str
    options: AnalyzeOptions
    given: frozenset[str]
    warnings: tuple[str, ...] = ()
    is_online: bool = True
    verbosity: int = 0


def parse(argv: Sequence[str], read_file: Callable[[str], str]) -> Invocation:
    """Read the arguments after the command.

    Args:
        argv: ``MODEL ...``, ``profile ...`` or ``report ...``; ``-m online|offline`` may stand
            before the subcommand.
        read_file: Returns the text of the YAML file.

    Raises:
        InvalidArgumentError: An option is unknown, lacks its value, has a wrong one, or does not go
            with another.
        OSError: The file cannot be read.
    """
    leading, is_online, verbosity = _before(argv)
    command, model, rest = _command(leading)
    given, verbosity_after = _given(command, rest)
    if model and "profile_models" in given:
        raise InvalidArgumentError(
            f"got both MODEL '{model}' and --profile-models, expected one of them"
        )
    if model:
        given["profile_models"] = (ProfiledModel(model),)
    warnings: list[str] = []
    path = given.get("config_file", "")
    from_file = read_document(read_file(path), path, command, warnings) if path else {}
    if model and any(each.name == model for each in from_file.get("profile_models", ())):
        kept = (each for each in from_file["profile_models"] if each.name == model)
        given["profile_models"] = tuple(kept)
    found = from_file | given
    warnings += [_without_effect(OPTIONS[key]) for key in found if not OPTIONS[key].has_effect]
    if found.get("triton_launch_mode") in _AS_LOCAL:
        mode = found["triton_launch_mode"]
        warnings.append(f"'triton_launch_mode' {mode} starts a server as local does")
    options = completed(AnalyzeOptions(**found), frozenset(found), command)
    return Invocation(
        command,
        options,
        frozenset(found),
        tuple(dict.fromkeys(warnings)),
        is_online,
        verbosity + verbosity_after,
    )


def read_document(text: str, path: str, command: str, warnings: list[str]) -> dict[str, Any]:
    """Read a YAML file: fields and their values.

    Args:
        text: Its contents.
        path: Where it comes from, for errors.
        command: The subcommand; a file may hold options of the other one too.
        warnings: Takes what keys of models have no effect.

    Raises:
        InvalidArgumentError: It is no YAML, a key is unknown, or a value is wrong.
    """
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise InvalidArgumentError(f"'{path}' is no YAML: {reason}") from None
    if tree is None:
        return {}
    if not isinstance(tree, Mapping):
        raise InvalidArgumentError(
            f"'{path}' holds a {type(tree).__name__}, expected options with their values"
        )
    found = {}
    for key, given in tree.items():
        option = OPTIONS.get(str(key).replace("-", "_"))
        if option is None or option.name == "config_file":
            raise unknown(f"option of '{path}'", str(key), OPTIONS)
        value = option.read(option.name, given)
        if option.name == "profile_models":
            warnings += [
                f"'{each}' of models in '{path}' has no effect"
                for each in models.ineffective_keys(given)
            ]
        if command in option.commands:
            found[option.name] = value
    return found


def usage(command: str = PROFILE) -> str:
    """Render the help of a subcommand, grouped."""
    lines = [USAGE, "", "  --help", "        Print this text."]
    group = ""
    for option in OPTIONS.values():
        if command not in option.commands:
            continue
        if option.group != group:
            group = option.group
            lines += ["", f"{group}:"]
        value = "" if option.is_switch else " <value>"
        lines.append("  " + ", ".join(_names(option)) + value)
        lines += textwrap.wrap(
            _meaning(option), 78, initial_indent=" " * 8, subsequent_indent=" " * 8
        )
    return "\n".join(lines)


def options_table() -> str:
    """Render the options as the tables of docs/analyze.md."""
    lines: list[str] = []
    group = ""
    for option in OPTIONS.values():
        if option.group != group:
            group = option.group
            lines += ["", f"### {group}", "", "| key | default | meaning |", "|---|---|---|"]
        short = f"`-{option.short}`, " if option.short else ""
        mark = "" if option.is_on_command_line else " *"
        lines.append(
            f"| {short}`{option.name}`{mark} | {_shown_default(option)} | {option.meaning} |"
        )
    return "\n".join(lines[1:])


def _before(argv: Sequence[str]) -> tuple[list[str], bool, int]:
    """Take what stands before the subcommand: the mode and the verbosity."""
    rest, is_online, verbosity = list(argv), True, 0
    while rest and rest[0] in (*_MODES, *_VERBOSITY):
        flag = rest.pop(0)
        if flag in _VERBOSITY:
            verbosity += _VERBOSITY[flag]
            continue
        mode = rest.pop(0) if rest else ""
        if mode not in _ONLINE_MODES:
            raise InvalidArgumentError(f"option '{flag}' got '{mode}', expected online or offline")
        is_online = mode == "online"
    return rest, is_online, verbosity


def _command(arguments: Sequence[str]) -> tuple[str, str, Sequence[str]]:
    """Return the subcommand, the model that stands in its place, and the rest."""
    if not arguments:
        raise InvalidArgumentError(f"got no model and no subcommand\n{USAGE}")
    first, *rest = arguments
    if first in (PROFILE, REPORT):
        return first, "", rest
    if first.startswith("-"):
        return PROFILE, "", arguments
    return PROFILE, first, rest


def _given(command: str, arguments: Sequence[str]) -> tuple[dict[str, Any], int]:
    by_flag = {
        flag: option
        for option in OPTIONS.values()
        if command in option.commands and option.is_on_command_line
        for flag in _names(option)
    }
    given: dict[str, Any] = {}
    verbosity = 0
    for flag, text in _occurrences(arguments, by_flag):
        if flag in _VERBOSITY:
            verbosity += _VERBOSITY[flag]
            continue
        option = by_flag[flag]
        value = True if option.is_switch and text is None else text
        given[option.name] = option.read(option.name, value)
    return given, verbosity


def _occurrences(
    arguments: Sequence[str], by_flag: Mapping[str, Option]
) -> Iterator[tuple[str, str | None]]:
    """Yield flags with their texts; None where one stands alone."""
    rest = iter(arguments)
    for argument in rest:
        flag, equals, text = argument.partition("=")
        if flag in _VERBOSITY:
            yield flag, None
            continue
        if flag not in by_flag:
            raise _unknown_flag(flag, by_flag)
        if equals:
            yield flag, text
        elif by_flag[flag].is_switch:
            yield flag, None
        else:
            value = next(rest, None)
            if value is None:
                raise InvalidArgumentError(f"option '{flag}' has no value, expected one after it")
            yield flag, value


def _unknown_flag(flag: str, by_flag: Mapping[str, Option]) -> InvalidArgumentError:
    option = OPTIONS.get(flag.removeprefix("--").replace("-", "_"))
    if option is not None and not option.is_on_command_line:
        return InvalidArgumentError(
            f"option '{flag}' cannot be given on the command line; write '{option.name}' into a "
            "YAML file, and give that with -f"
        )
    return unknown("option", flag, by_flag)


def _names(option: Option) -> list[str]:
    short = [f"-{option.short}"] if option.short else []
    return [*short, f"--{option.name.replace('_', '-')}"]


def _meaning(option: Option) -> str:
    if not option.has_effect:
        return f"Without effect: {option.meaning}."
    where = "" if option.is_on_command_line else " In the file only."
    shown = _shown_default(option)
    return option.meaning + where + (f" Default {shown}." if shown else "")


def _without_effect(option: Option) -> str:
    return f"option '{option.name}' has no effect: {option.meaning}"


def _shown_default(option: Option) -> str:
    default = getattr(DEFAULTS, option.name)
    if isinstance(default, bool) or default in ("", ()) or isinstance(default, Mapping):
        return ""
    if isinstance(default, tuple):
        return ", ".join(str(each[0] if isinstance(each, tuple) else each) for each in default)
    return f"{default:g}" if isinstance(default, float) else str(default)
