# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Command lines of the commands: options that all share, exit codes, errors.

Exit codes: 0 done, 1 failed, 2 a wrong command line.
"""

import argparse
import difflib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from backends.api.errors import InvalidArgumentError, TritonError
from cluster.commands.client.address import DEFAULT_URL, parse_address
from cluster.commands.client.connection import Server
from cluster.commands.client.contexts import (
    API_KEY,
    CONTEXT,
    TOKEN,
    URL,
    Target,
    check_header,
    choose_target,
    credentials,
)
from cluster.commands.client.tables import cells, table

FAILED: Final = 1
USAGE: Final = 2

Titles = Sequence[str]
Rows = Sequence[Sequence[object]]
# What a command does with its arguments; it returns the exit code, None for 0.
Do = Callable[[argparse.Namespace], int | None]
AddArguments = Callable[["Parser"], object]


class UsageError(Exception):
    """A wrong command line, which only the command itself can judge."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, with a remedy."""

    def __init__(self, **more: Any) -> None:
        super().__init__(allow_abbrev=False, **more)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and exit with 2."""
        word = message.rpartition("unrecognized arguments: ")[2].split(" ")[0].split("=")[0]
        near = difflib.get_close_matches(word, self._option_string_actions, n=1)
        hint = f" Did you mean '{near[0]}'?" if near and word.startswith("-") else ""
        self.exit(USAGE, f"error: {message}.{hint} See '{self.prog} --help'.\n")


def make_parser(command: str, description: str) -> Parser:
    """Return the parser of a command."""
    return Parser(prog=f"manta {command}", description=description)


def argument(*names: str, **how: Any) -> AddArguments:
    """Return what adds an argument to a parser, as `argparse` takes it."""
    return lambda parser: parser.add_argument(*names, **how)


def command(
    name: str,
    description: str,
    *arguments: AddArguments,
    has_json: bool = True,
    asks_server: bool = True,
) -> Callable[[Do], Callable[[Sequence[str]], int]]:
    """Return a decorator that makes a command of what is done with its parsed arguments; see `run`.

    Args:
        name: Of the command.
        description: For the help.
        arguments: Its own.
        has_json: Whether it takes ``--json``.
        asks_server: Whether it takes the options that say which server is asked.
    """

    def made(do: Do) -> Callable[[Sequence[str]], int]:
        @functools.wraps(do)
        def main(given: Sequence[str]) -> int:
            parser = make_parser(name, description)
            for add in arguments:
                add(parser)
            if has_json:
                add_json(parser)
            if asks_server:
                add_server(parser)
            return run(parser, given, do, mixes=True)

        return main

    return made


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_server(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which server is asked, and as whom."""
    group = parser.add_argument_group("server")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--url",
        default="",
        help=f"its HTTP port: host:port, http(s)://..., unix:/path (${URL}, the context, or"
        f" {DEFAULT_URL})",
    )
    which.add_argument(
        "--context", default="", metavar="NAME", help=f"one of the context file (${CONTEXT})"
    )
    group.add_argument(
        "-H",
        "--header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="of each request; may be given again",
    )
    group.add_argument(
        "--api-key-file", metavar="FILE", help=f"file with an API key (${API_KEY} is a key)"
    )
    group.add_argument(
        "--token-file", metavar="FILE", help=f"file with a bearer token (${TOKEN} is a token)"
    )
    group.add_argument("--ca-cert", metavar="FILE", help="authority of the server's certificate")
    group.add_argument("--client-cert", metavar="FILE", help="certificate to show the server")
    group.add_argument("--client-key", metavar="FILE", help="its key")
    group.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="how long the server may be silent"
    )


def target_of(given: argparse.Namespace, environ: Mapping[str, str] | None = None) -> Target:
    """Return the server that the options and the environment mean.

    Raises:
        InvalidArgumentError: The context is unknown or wrong, or a header cannot be sent.
        UsageError: A header is none.
    """
    environ = os.environ if environ is None else environ
    target = choose_target(given.url, given.context, environ, Path.read_text)
    names = ("api_key_file", "token_file", "ca_cert", "client_cert", "client_key")
    own = {name: getattr(given, name) for name in names if getattr(given, name)}
    if "api_key_file" in own or "token_file" in own:
        own = {"api_key_file": "", "token_file": "", **own}
    for name, value in target.headers.items():
        check_header(name, value, f"{target.source}: header {name!r}")
    headers = {**target.headers, **dict(map(_header, given.header))}
    return replace(target, headers=headers, timeout_s=given.timeout or target.timeout_s, **own)


def connect(given: argparse.Namespace, environ: Mapping[str, str] | None = None) -> Server:
    """Return the server that the options and the environment mean; nothing is sent yet.

    Raises:
        InvalidArgumentError: Its URL, its context or a file is wrong.
        UsageError: A header is none.
    """
    environ = os.environ if environ is None else environ
    target = target_of(given, environ)
    address = parse_address(target.url)
    named = {name.lower() for name in target.headers}
    shown = credentials(target, environ, Path.read_text)
    # A header that was given decides, whatever else is there.
    headers = {name: value for name, value in shown.items() if name.lower() not in named}
    tls = _tls(target) if address.is_encrypted else None
    return Server(address, {**headers, **target.headers}, tls, target.timeout_s)


def run(
    parser: argparse.ArgumentParser, arguments: Sequence[str], do: Do, *, mixes: bool = False
) -> int:
    """Run a command with its arguments and return its exit code.

    Args:
        parser: Reads them.
        arguments: Those behind the command's name.
        do: The command.
        mixes: Whether options may stand between a model and its values; not of a command that has
            commands of its own.
    """
    # What is behind the dashes is a value whatever it looks like, which the other way forgets.
    mixes = mixes and "--" not in arguments
    given = parser.parse_intermixed_args(arguments) if mixes else parser.parse_args(arguments)
    try:
        return do(given) or 0
    except UsageError as error:
        print(f"error: {error} See '{parser.prog} --help'.", file=sys.stderr)
        return USAGE
    except TritonError as error:
        print(f"error: {' '.join(error.message.split())}", file=sys.stderr)
    except UnicodeEncodeError as error:
        print(f"error: {error.object!a} is not UTF-8", file=sys.stderr)
    except BrokenPipeError:
        # Nobody reads on: the command's own end.
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
    return FAILED


def print_table(titles: Titles, rows: Rows) -> None:
    """Print a table; on a terminal no line is wider than that."""
    if not sys.stdout.isatty():
        print(table(titles, rows))
        return
    from cluster.commands.client import terminal  # noqa: PLC0415 - only on a terminal

    terminal.print_table(titles, cells(rows))


@contextmanager
def table_that_changes() -> Iterator[Callable[[Titles, Rows], None]]:
    """Show tables, each in the place of the one before on a terminal, else below it."""
    if not sys.stdout.isatty():
        yield print_table
        return
    from cluster.commands.client.terminal import drawn, screen  # noqa: PLC0415 - likewise

    with screen() as shown:
        yield lambda titles, rows: shown.update(drawn(titles, cells(rows)), refresh=True)


def progress(doing: str) -> AbstractContextManager[None]:
    """Say on a terminal what is being done for as long as it takes."""
    if not sys.stderr.isatty():
        return nullcontext()
    from cluster.commands.client import terminal  # noqa: PLC0415 - likewise

    return terminal.progress(doing)


def print_json(document: object) -> None:
    """Print a document for programs."""
    print(json.dumps(document, indent=2, ensure_ascii=False))


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(text)
    return seconds


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not (name.strip() and colon):
        raise UsageError("--header expects NAME:VALUE.")
    name, value = name.strip(), value.strip()
    check_header(name, value, "--header")
    return name, value


def _tls(target: Target) -> Any:
    import ssl  # noqa: PLC0415 - only for HTTPS

    try:
        context = ssl.create_default_context(cafile=target.ca_cert or None)
        if target.client_cert:
            context.load_cert_chain(target.client_cert, target.client_key or None)
    except (OSError, ssl.SSLError) as error:
        files = [target.ca_cert, target.client_cert, target.client_key]
        shown = ", ".join(filter(None, files))
        raise InvalidArgumentError(
            f"certificates {shown} cannot be used: {error}. Give --ca-cert, --client-cert and"
            " --client-key, or the context's own, the paths of PEM files."
        ) from None
    return context
