# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP client of a server: one way to ask, one text for each way to fail.

Redirections are not followed: credentials would go along. Proxies are those of the environment,
as curl's.
"""

import errno
import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from backends.api.errors import (
    HTTP_STATUS,
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    TritonError,
    UnauthenticatedError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)
from cluster.commands.client.address import Address

if TYPE_CHECKING:
    import ssl

TIMEOUT_S: Final = 10.0
# Loads last as long as loading does, and requests as long as the model computes.
LONG_TIMEOUT_S: Final = 600.0

_ERRORS: Final[Mapping[int, type[TritonError]]] = {
    HTTP_STATUS[each.code]: each
    for each in (
        InvalidArgumentError,
        UnauthenticatedError,
        PermissionDeniedError,
        NotFoundError,
        ResourceExhaustedError,
        InternalError,
        UnsupportedError,
        UnavailableError,
    )
} | {409: AlreadyExistsError}

_REASONS: Final[Mapping[int, str]] = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network unreachable",
    errno.ENOENT: "no such socket",
    errno.EACCES: "permission denied",
}
_IS_IT_RUNNING: Final = "Is it running? Start one with 'manta serve', or give --url."
_CREDENTIALS: Final = (
    "; give MANTA_API_KEY, MANTA_TOKEN, --header or a context with them (docs/cli.md)"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server has answered; names of headers are in lower case."""

    body: bytes
    headers: Mapping[str, str]

    def json(self) -> Any:
        """Return what it says.

        Raises:
            UnknownError: It is no JSON.
        """
        try:
            return json.loads(self.body)
        except ValueError:
            raise UnknownError(
                f"the answer is no JSON: {self.body[:80]!r}; is it the HTTP port of a server?"
            ) from None


class Server:
    """A server, over its HTTP port.

    Args:
        address: Where it is.
        headers: Of every request; credentials are among them.
        tls: Of HTTPS; None for what Python takes.
        timeout_s: Of every request; None leaves it to the call.
    """

    def __init__(
        self,
        address: Address,
        headers: Mapping[str, str] | None = None,
        tls: "ssl.SSLContext | None" = None,
        timeout_s: float | None = None,
    ) -> None:
        self.address = address
        self.headers = dict(headers or {})
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(_NoRedirections, *_handlers(address, tls))

    def get(self, path: str) -> Any:
        """Return the JSON at a path; raises as `ask`."""
        return self.ask("GET", path).json()

    def post(self, path: str, document: object, timeout_s: float = TIMEOUT_S) -> Answer:
        """Send JSON; raises as `ask`."""
        body = json.dumps(document).encode()
        return self.ask("POST", path, body, {"Content-Type": "application/json"}, timeout_s)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Answer:
        """Send a request and wait for the answer, unless the server is silent for too long.

        The user's time goes before the call's; a path is quoted already.

        Raises:
            UnavailableError: There is no server, or it does not answer.
            InvalidArgumentError: No host can have its name.
            TritonError: It answers with an error; the class is that of the status.
        """
        with self._opened(method, path, body, headers or {}, timeout_s) as answer:
            fields = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(answer.read(), fields)

    def lines(
        self, path: str, document: object, timeout_s: float = LONG_TIMEOUT_S
    ) -> Iterator[str]:
        """Send JSON and yield the lines of the answer as they come; raises as `ask`."""
        body = json.dumps(document).encode()
        headers = {"Content-Type": "application/json"}
        with self._opened("POST", path, body, headers, timeout_s) as answer:
            for line in answer:
                yield line.decode(errors="replace").rstrip("\r\n")

    @contextmanager
    def _opened(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> Iterator[Any]:
        # The scheme is one of two that `parse_address` lets pass.
        url = self.address.base + path
        request = urllib.request.Request(url, body, {**self.headers, **headers}, method=method)  # noqa: S310
        limit_s = self._timeout_s or timeout_s
        try:
            with self._opener.open(request, timeout=limit_s) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                raise _told(error, error.read()) from None
        except (OSError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", error)
            cause = cause if isinstance(cause, Exception) else error
            raise UnavailableError(_why_not(self.address.shown, cause, limit_s)) from None
        except UnicodeError:
            raise InvalidArgumentError(
                f"{self.address.shown!r} is no name of a host. Check the name, or give --url."
            ) from None


def model_path(name: str, version: str = "") -> str:
    """Return the path of a model, or of one of its versions."""
    path = f"/v2/models/{quote(name, safe='')}"
    return f"{path}/versions/{quote(version, safe='')}" if version else path


class _NoRedirections(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **more: Any) -> None:
        """Follow none."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, host: str, **more: Any) -> None:
        super().__init__(host, **more)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _UnixHandler(urllib.request.HTTPHandler):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def http_open(self, req: urllib.request.Request) -> Any:
        def connect(host: str, **more: Any) -> http.client.HTTPConnection:
            return _UnixConnection(self._path, host, **more)

        make: Callable[..., http.client.HTTPConnection] = connect
        return self.do_open(make, req)


def _handlers(address: Address, tls: "ssl.SSLContext | None") -> list[urllib.request.BaseHandler]:
    if address.socket:
        return [urllib.request.ProxyHandler({}), _UnixHandler(address.socket)]
    return [] if tls is None else [urllib.request.HTTPSHandler(context=tls)]


def _told(error: urllib.error.HTTPError, body: bytes) -> TritonError:
    """Return the error that an answer tells."""
    text = body.decode(errors="replace").strip()
    try:
        text = str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        text = " ".join(text.split())[:200] or str(error.reason)
        text = f"the server answers {error.code}: {text}"
    kind = _ERRORS.get(error.code, UnknownError)
    return kind(text + _CREDENTIALS if kind is UnauthenticatedError else text)


def _why_not(shown: str, cause: BaseException, limit_s: float) -> str:
    """Say why a server could not be asked, and what to do."""
    import ssl  # noqa: PLC0415 - urllib has imported it, if there is one

    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {shown} is not trusted ({cause.verify_message}). Give the"
            " authority that signed it with --ca-cert FILE."
        )
    if isinstance(cause, ssl.SSLError):
        what = (cause.reason or "TLS failed").lower().replace("_", " ")
        return f"no TLS with {shown} ({what}). Is it an HTTP port? Give --url http://HOST:PORT."
    if isinstance(cause, socket.gaierror):
        return f"no server at {shown} (the name is not known). Check the name, or give --url."
    if isinstance(cause, TimeoutError):
        return (
            f"no answer from {shown} within {limit_s:g} s. It may be busy or out of reach; give"
            " --timeout SECONDS to wait longer."
        )
    if isinstance(cause, http.client.IncompleteRead):
        return f"{shown} has closed the connection before its answer was complete; try again."
    if isinstance(cause, http.client.HTTPException) and not isinstance(cause, ConnectionError):
        return (
            f"{shown} does not speak HTTP/1.1. Is it the HTTP port (8000), not that of gRPC? Does"
            " it want https://?"
        )
    if isinstance(cause, http.client.RemoteDisconnected):
        plain = not shown.startswith(("https://", "unix:"))
        encrypted = " Does it want https://?" if plain else ""
        return f"no answer from {shown} (connection closed). {_IS_IT_RUNNING}{encrypted}"
    reason = _REASONS.get(getattr(cause, "errno", None) or 0, "") or str(cause) or repr(cause)
    return f"no server at {shown} ({reason}). {_IS_IT_RUNNING}"
