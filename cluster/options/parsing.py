# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the server's options from the command line, the environment and a YAML file.

A flag beats an environment variable (``MANTA_HTTP_PORT`` for ``--http-port``), that beats the file
named by ``--config``, that beats the default. Values of a repeatable option come from the strongest
source alone; the environment separates them with ``;``. The default of ``--ray-address`` is what
``RAY_ADDRESS`` says.
"""

import difflib
import re
import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster import __version__
from cluster.options.checks import finish
from cluster.options.concealing import HIDDEN, without_user
from cluster.options.flag import Flag
from cluster.options.table import ALIASES, DEFAULTS, FLAGS, PENDING, ServerOptions
from cluster.options.values import ValueRefusedError

__all__ = ["OptionError", "ServerOptions", "from_mapping", "parse_options", "render_options"]

ENVIRONMENT_PREFIX = "MANTA_"
MAX_FILE_CHARACTERS = 1 << 20
_RAY_ADDRESS = "RAY_ADDRESS"
_SEPARATOR = ";"
# What Kubernetes sets for a Service: MANTA_HTTP_PORT=tcp://10.0.0.1:80 for one called manta-http.
_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://")
_USAGE = "Usage: manta serve [options]"


class OptionError(Exception):
    """The server cannot start with these options.

    Args:
        message: What to print.
        exit_code: 0 when the message is what was asked for: help or version.
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message, exit_code)
        self.exit_code = exit_code

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class _Given:
    """Texts given for one option, and where.

    Attributes:
        source: flag, environment, file or argument.
        place: What to add to an error; empty for flags.
    """

    texts: tuple[str, ...]
    source: str
    place: str = ""


def _read_file(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def parse_options(
    argv: Sequence[str],
    environ: Mapping[str, str],
    read_file: Callable[[str], str] = _read_file,
) -> ServerOptions:
    """Read all sources.

    Args:
        argv: Arguments after the command.
        environ: Environment variables.
        read_file: Returns the text of the file named by ``--config``; may raise OSError.

    Raises:
        OptionError: An option is unknown or wrong, or help or the version was asked for.
    """
    by_flag = _from_arguments(argv)
    by_environment = _from_environment(environ)
    config = by_flag.get("config") or by_environment.get("config")
    by_file = _from_file(config.texts[-1], read_file) if config else {}
    return _build({**_from_ray(environ), **by_file, **by_environment, **by_flag}, environ)


def from_mapping(arguments: Mapping[str, Any]) -> ServerOptions:
    """Read options given as a mapping, as the Serve CLI does: flags with underscores.

    Raises:
        OptionError: A key is unknown or a value wrong.
    """
    return _build(_from_keys(arguments, "argument", "argument"), {})


def render_options(options: ServerOptions) -> str:
    """Render every option with its value and source, a line each; secrets are masked."""
    rows = []
    for name, flag in FLAGS.items():
        value = getattr(options, name)
        shown = HIDDEN if flag.is_secret and value else without_user(_render(value))
        rows.append((f"--{flag.name}", shown, options.sources.get(name, "default")))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(
        f"{name.ljust(widths[0])}  {value.ljust(widths[1])}  {source}"
        for name, value, source in rows
    )


def usage() -> str:
    """Render the help, grouped."""
    lines = [_USAGE, "", "  --help", "        Print this text.", "  --version"]
    lines.append("        Print the version.")
    group = ""
    for name, flag in FLAGS.items():
        if flag.group != group:
            group = flag.group
            lines += ["", f"{group}:"]
        lines.append(f"  --{flag.name}{_value_name(name, flag)}")
        lines += textwrap.wrap(
            _describe(name, flag), 78, initial_indent=" " * 8, subsequent_indent=" " * 8
        )
    return "\n".join(lines)


def _describe(name: str, flag: Flag) -> str:
    default = DEFAULTS[name]
    parts = [flag.meaning]
    if flag.is_repeatable:
        parts.append("May be given several times.")
    elif flag.takes_value and default != "":
        parts.append(f"Default {_render(default)}.")
    if flag.is_unused:
        parts.append("Accepted, but has no effect here.")
    if name in PENDING:
        parts.append("Not there yet: accepted, but has no effect.")
    return " ".join(parts)


def _value_name(name: str, flag: Flag) -> str:
    if not flag.takes_value:
        return ""
    shown = f"<{_type_name(name)}>"
    return f" [{shown}]" if isinstance(DEFAULTS[name], bool) else f" {shown}"


def _type_name(name: str) -> str:
    names = {bool: "boolean", int: "integer", float: "float"}
    return names.get(type(DEFAULTS[name]), "string")


def _render(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return " ".join(
            ",".join(map(str, item)) if isinstance(item, tuple) else str(item) for item in value
        )
    return str(value)


def _from_arguments(argv: Sequence[str]) -> dict[str, _Given]:
    texts: dict[str, list[str]] = {}
    arguments = deque(argv)
    while arguments:
        argument = arguments.popleft()
        if argument == "-h":
            raise OptionError(usage(), exit_code=0)
        if not argument.startswith("--") or argument == "--":
            raise OptionError(f"Unexpected argument: {argument}\n{_USAGE}")
        flag_name, equals, text = argument[2:].partition("=")
        if flag_name == "help":
            raise OptionError(usage(), exit_code=0)
        if flag_name == "version":
            raise OptionError(__version__, exit_code=0)
        name = _field_name(flag_name, f"unrecognized option '--{flag_name}'", "--")
        if not FLAGS[name].takes_value:
            if equals:
                raise OptionError(f"option '--{flag_name}' doesn't allow an argument\n{_USAGE}")
            text = "true"
        elif not equals and _is_switch(name, arguments):
            text = "true"
        elif not equals:
            if not arguments:
                raise OptionError(f"option '--{flag_name}' requires an argument\n{_USAGE}")
            text = arguments.popleft()
        texts.setdefault(name, []).append(text)
    return {name: _Given(tuple(given), "flag") for name, given in texts.items()}


def _is_switch(name: str, following: Sequence[str]) -> bool:
    """Whether a boolean is given alone, before another flag or at the end."""
    is_alone = not following or following[0].startswith("-")
    return is_alone and isinstance(DEFAULTS[name], bool)


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    found = {}
    for name, flag in FLAGS.items():
        variable = ENVIRONMENT_PREFIX + name.upper()
        if variable in environ and not _is_service_link(variable, environ[variable]):
            texts = _split(environ[variable], flag)
            found[name] = _Given(texts, "environment", f"environment variable {variable}")
    return found


def _is_service_link(variable: str, text: str) -> bool:
    return variable.endswith("_PORT") and _SERVICE_LINK.match(text) is not None


def _from_ray(environ: Mapping[str, str]) -> dict[str, _Given]:
    """Read the address of the cluster a Ray job runs on; Ray tells jobs this way."""
    address = environ.get(_RAY_ADDRESS, "")
    # The command "ray job" reads from the same variable where it finds the dashboard.
    if not address or address.startswith(("http://", "https://")):
        return {}
    place = f"environment variable {_RAY_ADDRESS}"
    return {"ray_address": _Given((address,), "environment", place)}


def _from_file(path: str, read_file: Callable[[str], str]) -> dict[str, _Given]:
    import yaml  # noqa: PLC0415 - most servers have no file

    refusal = f'Bad option: "--config".\n{path}'
    try:
        text = read_file(path)
        if len(text) > MAX_FILE_CHARACTERS:
            raise OptionError(f"{refusal}: larger than {MAX_FILE_CHARACTERS} characters")
        tree = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{refusal}: {error}") from None
    except yaml.YAMLError as error:
        raise OptionError(f"{refusal}: not YAML: {error}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise OptionError(f"{refusal}: expected keys like 'http-port: 8000', got no mapping")
    found = _from_keys(tree, "file", path)
    if "config" in found:
        raise OptionError(f"{refusal}: key 'config' cannot name a further file")
    return found


def _from_keys(tree: Mapping[Any, Any], source: str, place: str) -> dict[str, _Given]:
    found = {}
    for key, value in tree.items():
        name = _field_name(str(key).replace("_", "-"), f"unknown key '{key}' in {place}", "")
        if name in found:
            raise OptionError(f"key '{key}' is given twice in {place}")
        flag = FLAGS[name]
        if isinstance(value, list | tuple):
            if not flag.is_repeatable:
                raise OptionError(f"key '{key}' in {place} takes one value, got a list")
            texts = tuple(map(_scalar_text, value))
        else:
            texts = _split(_scalar_text(value), flag)
        found[name] = _Given(texts, source, f"key '{key}' in {place}")
    return found


def _scalar_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _split(text: str, flag: Flag) -> tuple[str, ...]:
    if not flag.is_repeatable:
        return (text,)
    return tuple(part for part in text.split(_SEPARATOR) if part)


def _field_name(flag_name: str, refusal: str, prefix: str) -> str:
    """Return the field of a flag.

    Raises:
        OptionError: There is no such flag; names the nearest one.
    """
    flag_name = ALIASES.get(flag_name, flag_name)
    name = flag_name.replace("-", "_")
    if name in FLAGS and FLAGS[name].name == flag_name:
        return name
    known: Iterable[str] = [*(flag.name for flag in FLAGS.values()), *ALIASES]
    near = difflib.get_close_matches(flag_name, known, n=1, cutoff=0.5)
    hint = f", did you mean '{prefix}{near[0]}'?" if near else ""
    raise OptionError(f"{refusal}{hint}\n{_USAGE}")


def _build(given: Mapping[str, _Given], environ: Mapping[str, str]) -> ServerOptions:
    chosen = {name: _value(FLAGS[name], row) for name, row in given.items()}
    sources = {name: row.source for name, row in given.items()}
    try:
        return finish(chosen, sources, environ)
    except ValueRefusedError as error:
        raise OptionError(str(error)) from None


def _value(flag: Flag, given: _Given) -> Any:
    try:
        if flag.is_repeatable:
            return tuple(map(flag.parse, given.texts))
        return flag.parse(given.texts[-1])
    except ValueRefusedError as error:
        place = f" ({given.place})" if given.place else ""
        raise OptionError(f'Bad option: "--{flag.name}".\n{error}{place}\n{_USAGE}') from None
