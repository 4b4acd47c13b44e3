# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The HTTP ingress: Triton's routes over the data plane.

Infer requests run without a coroutine: the route calls the plane and the exchange is answered from
the plane's callback. Everything else may be a coroutine.

Content types follow Triton, where they tell how far a request got: errors found before the body is
looked at, and errors of the model, are ``text/plain`` around a JSON body.

Triton: server/src/http_server.cc HTTPAPIServer::Handle @e1db8a6
"""

import asyncio
import base64
import binascii
import logging
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote

import msgspec
import orjson

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    TritonError,
    UnsupportedError,
)
from backends.api.request import InferenceRequest, ParameterValue
from deployments.http_exchange import JSON, TEXT, HttpExchange
from deployments.http_generate import GenerateRoute
from deployments.http_infer import InferRoute
from deployments.http_metrics import make_metrics_server
from deployments.http_server import HttpServer
from deployments.protocol.http_infer_request import (
    DEFAULT_MAX_INPUT_BYTES,
    json_too_large,
    raw_too_large,
)
from deployments.protocol.http_json import as_bool, as_string, find, labelled, read
from deployments.seams import Inflight, RepositoryControl, ResponseSink

__all__ = ["HttpIngress", "Plane", "make_http_server", "make_metrics_server"]

logger = logging.getLogger(__name__)

# Paths whose routes are kept; a cluster has some hundred models, and each has a dozen paths.
_PATH_LIMIT: Final = 4096

_SHM_DISABLED: Final = (
    "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
)


class SlabAllocator(Protocol):
    """Where large bodies are received."""

    def allocate(self, size_bytes: int, align_at: int = 0) -> memoryview | None:
        """Return writable memory, or None when there is none left."""


class Plane(Protocol):
    """What the HTTP ingress asks of the data plane."""

    draining: bool
    exiting: bool

    @property
    def slabs(self) -> SlabAllocator:
        """Slabs for large bodies."""

    @property
    def repository(self) -> RepositoryControl:
        """The controller's repository control."""

    def server_live(self) -> bool:
        """Whether the server runs."""

    def server_ready(self) -> bool:
        """Whether the server can take requests."""

    def server_metadata(self) -> dict[str, Any]:
        """Return name, version and extensions."""

    def resolve(self, name: str, version: str = "") -> Any:
        """Return the `ServedModel` a request means."""

    def model_ready(self, name: str, version: str = "") -> bool:
        """Whether a model can take requests."""

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """Return a model's metadata."""

    def model_config_json(self, name: str, version: str = "") -> bytes:
        """Return a model's config."""

    async def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """Return statistics."""

    def infer(self, model: Any, request: InferenceRequest, sink: ResponseSink) -> Inflight:
        """Run a request."""


@dataclass(frozen=True, slots=True)
class Match:
    """What a path names.

    Attributes:
        name: Model name or shared-memory region, as in the path.
        version: Version number, as in the path.
        repository: Repository named in a repository path.
    """

    name: str = ""
    version: str = ""
    repository: str = ""


Handler = Callable[[HttpExchange, Match], Coroutine[Any, Any, None] | None]


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the route table.

    Attributes:
        pattern: Matches the whole raw path; groups ``name``, ``version`` and ``repository``.
        method: The one allowed.
        handler: Answers, at once or as a coroutine.
        error_type: Content type of errors raised and of 405.
    """

    pattern: re.Pattern[str]
    method: bytes
    handler: Handler
    error_type: bytes = JSON


_MODEL: Final = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[0-9]+))?"
_REPOSITORY: Final = r"/v2/repository(?:/(?P<repository>[^/]+))?"
_SHARED_MEMORY: Final = r"/v2/(?:system|cuda)sharedmemory"
_REGION: Final = r"(?:/region/(?P<name>[^/]+))?"


class HttpIngress:
    """The application behind the HTTP port.

    Args:
        plane: The data plane.
        max_input_bytes: ``--http-max-input-size``.
    """

    def __init__(self, plane: Plane, max_input_bytes: int = DEFAULT_MAX_INPUT_BYTES) -> None:
        self._plane = plane
        self._max_input_bytes = max_input_bytes
        self._infer = InferRoute(plane, max_input_bytes)
        self._generate = GenerateRoute(plane, max_input_bytes)
        self._tasks: set[asyncio.Task[None]] = set()
        self._paths: dict[bytes, tuple[Route, Match]] = {}
        self._routes = self._make_routes()

    def _make_routes(self) -> tuple[Route, ...]:
        def row(pattern: str, method: bytes, handler: Handler, error_type: bytes = JSON) -> Route:
            return Route(re.compile(pattern), method, handler, error_type)

        # First match wins: a model called "stats" has no metadata, as in Triton.
        return (
            row(f"{_MODEL}/infer", b"POST", self._on_infer, TEXT),
            row(f"{_MODEL}/generate", b"POST", self._on_generate),
            row(f"{_MODEL}/generate_stream", b"POST", self._on_generate_stream),
            row("/v2/health/live", b"GET", self._on_live, TEXT),
            row("/v2/health/ready", b"GET", self._on_ready, TEXT),
            row("/-/healthz", b"GET", self._on_healthz, TEXT),
            row("/v2", b"GET", self._on_server_metadata),
            row("/v2/models/stats", b"GET", self._on_statistics),
            row(_MODEL, b"GET", self._on_metadata),
            row(f"{_MODEL}/ready", b"GET", self._on_model_ready, TEXT),
            row(f"{_MODEL}/config", b"GET", self._on_config),
            row(f"{_MODEL}/stats", b"GET", self._on_statistics),
            row(f"{_REPOSITORY}/index", b"POST", self._on_index),
            row(f"{_REPOSITORY}/models/(?P<name>[^/]+)/load", b"POST", self._on_load),
            row(f"{_REPOSITORY}/models/(?P<name>[^/]+)/unload", b"POST", self._on_unload),
            row(f"{_SHARED_MEMORY}{_REGION}/status", b"GET", self._on_region_status),
            row(f"{_SHARED_MEMORY}{_REGION}/(?:un)?register", b"POST", self._on_region_change),
        )

    # What the server calls

    def dispatch(self, exchange: HttpExchange) -> None:
        """Answer a complete request, now or later."""
        found = self._paths.get(exchange.url) or self._find(exchange.url)
        if found is None:
            exchange.fail_text(404, "Not Found", TEXT)
            return
        route, match = found
        if exchange.method != route.method:
            exchange.fail_text(405, "Method Not Allowed", route.error_type)
            return
        try:
            later = route.handler(exchange, match)
        except TritonError as error:
            exchange.fail(error, route.error_type)
            return
        if later is not None:
            self._finish_later(exchange, route, later)

    def refuse(self, exchange: HttpExchange, body_bytes: int) -> str:
        """Return why a body is not taken: what is not binary tensors has Triton's limit."""
        if exchange.content_encoding or body_bytes <= self._max_input_bytes:
            return ""
        if exchange.infer_header_length is None:
            return json_too_large(body_bytes, self._max_input_bytes)
        if exchange.infer_header_length == b"0":
            return raw_too_large(body_bytes, self._max_input_bytes)
        return ""

    def allocate(self, size_bytes: int, align_at: int) -> memoryview | None:
        """Return slab memory, so that tensors can go on to an instance without a copy."""
        return self._plane.slabs.allocate(size_bytes, align_at)

    def _find(self, url: bytes) -> tuple[Route, Match] | None:
        path = url.partition(b"?")[0].decode("utf-8", "replace")
        if not path.startswith("/"):
            path = "/" + path.partition("://")[2].partition("/")[2]
        for route in self._routes:
            found = route.pattern.fullmatch(path)
            if found is not None:
                result = (
                    route,
                    Match(**{key: text or "" for key, text in found.groupdict().items()}),
                )
                if len(self._paths) >= _PATH_LIMIT:
                    self._paths.clear()
                self._paths[url] = result
                return result
        return None

    def _finish_later(
        self, exchange: HttpExchange, route: Route, later: Coroutine[Any, Any, None]
    ) -> None:
        async def finish() -> None:
            try:
                await later
            except TritonError as error:
                exchange.fail(error, route.error_type)
            except Exception:
                logger.exception("failed to answer %s %s", exchange.method, exchange.url)
                exchange.fail_text(500, "internal error; the server's log says more")

        # Not cancelled when the peer goes: a load goes on, as in Triton.
        task = asyncio.get_running_loop().create_task(finish())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Routes

    def _on_infer(self, exchange: HttpExchange, match: Match) -> None:
        model = self._resolved(self._plane.resolve, match)
        self._infer.start(exchange, model)

    def _on_generate(self, exchange: HttpExchange, match: Match) -> None:
        model = self._resolved(self._plane.resolve, match)
        self._generate.start(exchange, model, is_stream=False)

    def _on_generate_stream(self, exchange: HttpExchange, match: Match) -> None:
        model = self._resolved(self._plane.resolve, match)
        self._generate.start(exchange, model, is_stream=True)

    def _on_live(self, exchange: HttpExchange, match: Match) -> None:
        if self._plane.exiting:
            exchange.fail_text(503, "Server exiting", TEXT)
            return
        exchange.reply(200 if self._plane.server_live() else 400, TEXT)

    def _on_ready(self, exchange: HttpExchange, match: Match) -> None:
        if self._plane.exiting:
            exchange.fail_text(503, "Server exiting", TEXT)
            return
        exchange.reply(200 if self._plane.server_ready() else 400, TEXT)

    def _on_healthz(self, exchange: HttpExchange, match: Match) -> None:
        exchange.reply(503 if self._plane.draining or self._plane.exiting else 200, TEXT)

    def _on_server_metadata(self, exchange: HttpExchange, match: Match) -> None:
        exchange.reply_json(orjson.dumps(self._plane.server_metadata()))

    def _on_metadata(self, exchange: HttpExchange, match: Match) -> None:
        exchange.reply_json(orjson.dumps(self._resolved(self._plane.model_metadata, match)))

    def _on_model_ready(self, exchange: HttpExchange, match: Match) -> None:
        if self._resolved(self._plane.model_ready, match):
            exchange.reply(200, TEXT)
        else:
            exchange.fail_text(400, "Model version not ready", TEXT)

    def _on_config(self, exchange: HttpExchange, match: Match) -> None:
        exchange.reply_json(self._resolved(self._plane.model_config_json, match))

    async def _on_statistics(self, exchange: HttpExchange, match: Match) -> None:
        name = unquoted(match.name) or match.name
        exchange.reply_json(orjson.dumps(await self._plane.statistics(name, match.version)))

    async def _on_index(self, exchange: HttpExchange, match: Match) -> None:
        # A repository named in the path is ignored here, as in Triton.
        ready = find(_body_json(exchange), "ready")
        with labelled("Invalid value for 'ready'"):
            ready_only = ready is not msgspec.UNSET and as_bool(ready)
        rows = await self._plane.repository.index(ready_only=ready_only)
        exchange.reply_json(orjson.dumps(rows))

    async def _on_load(self, exchange: HttpExchange, match: Match) -> None:
        if match.repository:
            raise UnsupportedError("'repository_name' specification is not supported")
        parameters = _load_parameters(_body_json(exchange))
        await self._plane.repository.load(unquoted(match.name) or match.name, parameters)
        exchange.reply(200, JSON)

    async def _on_unload(self, exchange: HttpExchange, match: Match) -> None:
        if match.repository:
            raise UnsupportedError("'repository_name' specification is not supported")
        wanted = find(find(_body_json(exchange), "parameters"), "unload_dependents")
        await self._plane.repository.unload(
            unquoted(match.name) or match.name,
            unload_dependents=wanted is not msgspec.UNSET and as_bool(wanted),
        )
        exchange.reply(200, JSON)

    def _on_region_status(self, exchange: HttpExchange, match: Match) -> None:
        if match.name:
            kind = "cuda" if b"/cudashared" in exchange.url else "system"
            raise NotFoundError(f"Unable to find {kind} shared memory region: '{match.name}'")
        exchange.reply_json(b"[]")

    def _on_region_change(self, exchange: HttpExchange, match: Match) -> None:
        exchange.fail_text(501, _SHM_DISABLED)

    def _resolved(self, look_up: Callable[[str, str], Any], match: Match) -> Any:
        """Look a model up by the name in the path and, if need be, by the name it stands for."""
        try:
            return look_up(match.name, match.version)
        except NotFoundError:
            name = unquoted(match.name)
            if not name:
                raise
            try:
                return look_up(name, match.version)
            except NotFoundError:
                pass
            raise


def unquoted(name: str) -> str:
    """Return the model name a client has quoted, or nothing if the name is not quoted.

    Triton takes names as they are in the path, which its own Python client quotes. Only a name that
    is exactly what quoting makes is taken for one.
    """
    if "%" not in name:
        return ""
    plain = unquote(name)
    return plain if quote(plain, safe="") == name or quote(plain) == name else ""


def _body_json(exchange: HttpExchange) -> object:
    body = bytes(exchange.body)
    return read(body) if body else {}


def _load_parameters(document: object) -> dict[str, ParameterValue | bytes]:
    given = find(document, "parameters")
    if given is msgspec.UNSET:
        return {}
    if not isinstance(given, dict):
        raise InternalError("attempt to get members for non-object")
    parameters: dict[str, ParameterValue | bytes] = {}
    for key, value in given.items():
        text = as_string(value)
        if key.startswith("file:"):
            parameters[key] = _decode_base64(key, text)
        else:
            parameters[key] = text
    return parameters


def _decode_base64(key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        raise InvalidArgumentError(
            f"the content of load parameter '{key}' is no base64; send the file's bytes in base64"
        ) from None


def make_http_server(plane: Plane, *, max_input_bytes: int = DEFAULT_MAX_INPUT_BYTES) -> HttpServer:
    """Return the server of the HTTP port, not yet listening."""
    return HttpServer(HttpIngress(plane, max_input_bytes))
