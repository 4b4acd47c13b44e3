# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which server is asked, and as whom: options, environment, context file.

A context file names servers, so that their URLs and credentials need not be given each time:

    current = "lab"

    [contexts.lab]
    url = "https://manta.lab:8000"
    ca_cert = "/etc/lab/ca.pem"
    api_key_file = "/home/me/.config/manta/lab.key"

The credentials of a context go to its URL alone: one that is given otherwise gets none of them.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from cluster.commands.client.address import DEFAULT_URL

URL: Final = "MANTA_URL"
CONTEXT: Final = "MANTA_CONTEXT"
FILE: Final = "MANTA_CONTEXT_FILE"
API_KEY: Final = "MANTA_API_KEY"
TOKEN: Final = "MANTA_TOKEN"  # noqa: S105 - the variable's name
KEY_HEADER: Final = "X-API-Key"

_PATHS: Final = ("api_key_file", "token_file", "ca_cert", "client_cert", "client_key")

# A token of RFC 9110.
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

ReadFile = Callable[[Path], str]


@dataclass(frozen=True, slots=True)
class Target:
    """A server and how to ask it.

    Attributes:
        url: As `parse_address` reads it.
        api_key_file: File with an API key; empty for none.
        token_file: File with a bearer token; empty for none.
        ca_cert: PEM file of the authority of its certificate; empty for those of the machine.
        client_cert: PEM file of the caller's certificate; empty for none.
        client_key: Its key; empty where the certificate's file has it.
        timeout_s: Of every request; None leaves it to the command.
        source: Where the URL comes from, for people.
    """

    url: str = DEFAULT_URL
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_key_file: str = ""
    token_file: str = ""
    ca_cert: str = ""
    client_cert: str = ""
    client_key: str = ""
    timeout_s: float | None = None
    source: str = "default"


_KEYS: Final = tuple(each.name for each in fields(Target) if each.name != "source")


def context_file(environ: Mapping[str, str]) -> Path:
    """Return where contexts are read from."""
    if environ.get(FILE):
        return Path(environ[FILE])
    base = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "/")) / ".config"
    return Path(base) / "manta" / "contexts.toml"


def choose_target(url: str, context: str, environ: Mapping[str, str], read: ReadFile) -> Target:
    """Return the server that is meant: by URL or context as given, by environment, by file.

    Args:
        url: ``--url``; empty for none.
        context: ``--context``; empty for none.
        environ: Environment variables.
        read: Returns the text of a file; may raise OSError.

    Raises:
        InvalidArgumentError: There is no such context, or the file is wrong.
    """
    if url:
        return Target(url, source="--url")
    context = context or ("" if environ.get(URL) else environ.get(CONTEXT, ""))
    if not context and environ.get(URL):
        return Target(environ[URL], source=URL)
    path = context_file(environ)
    try:
        text = read(path)
    except (FileNotFoundError, NotADirectoryError):
        text = ""
    except OSError as error:
        raise InvalidArgumentError(f"context file '{path}': {error.strerror}") from None
    except UnicodeError:
        raise InvalidArgumentError(f"context file '{path}' is not UTF-8") from None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgumentError(f"context file '{path}' is no TOML: {error}") from None
    name = context or document.get("current", "")
    if not isinstance(name, str):
        raise InvalidArgumentError(f"context file '{path}': current: expected a context's name")
    if not name:
        return Target()
    return _context(name, document.get("contexts", {}), path)


def _context(name: object, contexts: Any, path: Path) -> Target:
    if not isinstance(contexts, dict) or name not in contexts:
        known = ", ".join(contexts) if isinstance(contexts, dict) and contexts else "none"
        raise InvalidArgumentError(f"context '{name}' is not in '{path}', which has {known}")
    where = f"context '{name}' in '{path}'"
    row = contexts[name]
    if not isinstance(row, dict) or not isinstance(row.get("url"), str):
        raise InvalidArgumentError(f'{where}: expected url = "https://host:port"')
    unknown = [key for key in row if key not in _KEYS]
    if unknown:
        raise InvalidArgumentError(
            f"{where}: unknown key '{unknown[0]}', expected {', '.join(_KEYS)}"
        )
    headers, timeout_s = row.get("headers", {}), row.get("timeout_s")
    if not isinstance(headers, dict) or any(not isinstance(each, str) for each in headers.values()):
        raise InvalidArgumentError(f"{where}: headers: expected a table of texts")
    if timeout_s is not None and not isinstance(timeout_s, int | float):
        raise InvalidArgumentError(f"{where}: timeout_s: expected seconds, got '{timeout_s}'")
    target = Target(row["url"], headers, timeout_s=timeout_s, source=f"context '{name}'")
    paths: dict[str, Any] = {
        key: str(path.parent / Path(row[key]).expanduser()) for key in _PATHS if row.get(key)
    }
    return replace(target, **paths)


def credentials(target: Target, environ: Mapping[str, str], read: ReadFile) -> dict[str, str]:
    """Return the headers that say who asks; empty for nobody.

    Raises:
        InvalidArgumentError: A file cannot be read, or has no credentials; or they fit no header.
    """
    key, token = environ.get(API_KEY, "").strip(), environ.get(TOKEN, "").strip()
    sources = (API_KEY, TOKEN)
    if target.api_key_file or target.token_file:
        # Those that were chosen with the server, not what happens to be in the environment.
        key = _secret(target.api_key_file, read)
        token = _secret(target.token_file, read)
        sources = (f"credentials '{target.api_key_file}'", f"credentials '{target.token_file}'")
    check_header(KEY_HEADER, key, sources[0])
    check_header("Authorization", token, sources[1])
    found = {KEY_HEADER: key} if key else {}
    return found | ({"Authorization": f"Bearer {token}"} if token else {})


def check_header(name: str, value: str, source: str) -> None:
    """Refuse what HTTP cannot send as a header; the message has its source and never its value.

    Raises:
        InvalidArgumentError: It cannot be sent.
    """
    if not _HEADER_NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"{source}: expected a name of ASCII letters, digits and - for the header"
        )
    try:
        value.encode("latin-1")
    except UnicodeError:
        raise InvalidArgumentError(f"{source}: only characters of Latin-1 can be sent") from None
    if any(each in value for each in "\r\n\0"):
        raise InvalidArgumentError(f"{source}: a header is one line, without control characters")


def _secret(path: str, read: ReadFile) -> str:
    if not path:
        return ""
    try:
        lines = read(Path(path)).split()
    except OSError as error:
        raise InvalidArgumentError(f"credentials '{path}': {error.strerror}") from None
    except UnicodeDecodeError:
        lines = []
    if len(lines) != 1:
        raise InvalidArgumentError(f"credentials '{path}': expected one word on one line")
    return lines[0]
