# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta rollout``: shows and changes the rollout of a model of a running server, over HTTP."""

import argparse
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from backends.api.errors import InvalidArgumentError, TritonError, UnavailableError, UnknownError

_DESCRIPTION: Final = """Show or change which versions of a model answer requests that name none.
``set`` takes a file with the rollout, YAML or JSON; docs/rollouts.md says what is in it."""

_TIMEOUT_S: Final = 60.0

# By action: HTTP method, and what follows the path of the rollout.
_ACTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "get": ("GET", ""),
    "set": ("PUT", ""),
    "end": ("DELETE", ""),
    "promote": ("POST", "/promote"),
    "pause": ("POST", "/pause"),
    "resume": ("POST", "/resume"),
    "rollback": ("POST", "/rollback"),
}

# Takes method, URL, headers and body; returns the text of the answer.
Ask = Callable[[str, str, Mapping[str, str], bytes | None], str]


def ask(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> str:
    """Send a request to a server and return the text of its answer.

    Raises:
        UnavailableError: It cannot be reached.
        UnknownError: It refuses, and says why.
    """
    # The scheme is one of two that `main` lets pass.
    request = urllib.request.Request(url, body, dict(headers), method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace").strip()
        raise UnknownError(f"{method} {url} answers {error.code}: {_reason(said)}") from None
    except OSError as error:
        raise UnavailableError(f"{url} cannot be reached: {error}") from None


def _reason(text: str) -> str:
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text or "without a reason"


def document_of(text: str, name: str) -> dict[str, Any]:
    """Return the rollout in a file.

    Raises:
        InvalidArgumentError: It is neither YAML nor JSON, or no mapping.
    """
    try:
        # JSON is YAML.
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidArgumentError(f"'{name}' is neither YAML nor JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidArgumentError(f"'{name}' has no mapping; it has to describe a rollout")
    return document


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="manta rollout", description=_DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument("model")
    parser.add_argument("action", choices=tuple(_ACTIONS))
    parser.add_argument("file", nargs="?", help="for set: the rollout; - for standard input")
    parser.add_argument("--url", default="localhost:8000", help="the server's HTTP port")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="of each request, for example a credential; may be given again",
    )
    return parser


def _headers(given: Sequence[str]) -> dict[str, str]:
    headers = {"Content-Type": "application/json"}
    for each in given:
        name, colon, value = each.partition(":")
        if not (name and colon):
            raise InvalidArgumentError("--header expects NAME:VALUE")
        headers[name.strip()] = value.strip()
    return headers


def _run(given: argparse.Namespace, ask: Ask) -> str:
    method, behind = _ACTIONS[given.action]
    url = given.url if given.url.startswith(("http://", "https://")) else f"http://{given.url}"
    body = None if method == "GET" else b""
    if given.action == "set":
        if given.file is None:
            raise InvalidArgumentError("set expects the file of a rollout; - is standard input")
        text = sys.stdin.read() if given.file == "-" else Path(given.file).read_text()
        body = json.dumps(document_of(text, given.file)).encode()
    elif given.file is not None:
        raise InvalidArgumentError(f"{given.action} takes no file")
    model = urllib.parse.quote(given.model, safe="")
    path = f"{url.rstrip('/')}/v2/models/{model}/rollout{behind}"
    return ask(method, path, _headers(given.header), body)


def main(arguments: Sequence[str], ask: Ask = ask) -> int:
    """Run ``manta rollout`` and return its exit code: 1 when there is no answer."""
    given = _parser().parse_args(arguments)
    try:
        answer = _run(given, ask)
    except TritonError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(json.loads(answer), indent=2))
    return 0
