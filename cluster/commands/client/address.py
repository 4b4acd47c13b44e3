# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Addresses of servers, as people type them. Pure."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from backends.api.errors import InvalidArgumentError

DEFAULT_URL: Final = "localhost:8000"
_DEFAULT_PORT: Final = 8000
_UNIX: Final = "unix:"
# What a path may have as it is, quoted bytes included.
_OF_PATHS: Final = "/%:@!$&'()*+,;=~"
_EXPECTED: Final = "expected host:port, http://host:port, https://host:port or unix:/path"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens.

    Attributes:
        base: URL without a slash at its end, in front of every path.
        socket: Path of a Unix socket, abstract if it begins with a NUL; else empty.
        shown: What messages call it.
    """

    base: str
    socket: str = ""
    shown: str = ""

    @property
    def is_encrypted(self) -> bool:
        """Whether it is asked by TLS."""
        return self.base.startswith("https://")


def parse_address(text: str) -> Address:
    """Read an address; a host without a scheme and a port has port 8000.

    Raises:
        InvalidArgumentError: It is none.
    """
    if text.startswith(_UNIX):
        path = text.removeprefix(_UNIX)
        if not path.startswith(("/", "@")):
            raise InvalidArgumentError(f"URL '{text}': expected unix:/path or unix:@name")
        socket = "\0" + path[1:] if path.startswith("@") else path
        return Address("http://localhost", socket, text)
    has_scheme = text.startswith(("http://", "https://"))
    if "://" in text and not has_scheme:
        raise InvalidArgumentError(f"URL '{text}': {_EXPECTED}")
    try:
        parts = urlsplit(text if has_scheme else f"http://{text}")
        port, host = parts.port, parts.hostname
    except ValueError:
        raise InvalidArgumentError(f"URL '{text}': {_EXPECTED}") from None
    if not host or parts.query or parts.fragment or any(each.isspace() for each in text):
        raise InvalidArgumentError(f"URL '{text}': {_EXPECTED}")
    if parts.username is not None:
        raise InvalidArgumentError(
            f"URL of '{host}': credentials do not belong there; give --header, MANTA_API_KEY or"
            " MANTA_TOKEN"
        )
    if port is None and not has_scheme:
        port = _DEFAULT_PORT
    quoted = f"[{host}]" if ":" in host else host
    netloc = quoted if port is None else f"{quoted}:{port}"
    path = quote(parts.path.rstrip("/"), safe=_OF_PATHS, errors="surrogateescape")
    base = f"{parts.scheme}://{netloc}{path}"
    return Address(base, "", base if has_scheme and parts.scheme == "https" else netloc)
