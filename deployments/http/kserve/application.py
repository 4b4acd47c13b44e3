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
import logging
import re
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

import orjson

from backends.api.errors import (
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    TritonError,
    UnavailableError,
    UnsupportedError,
)
from deployments.data_plane.face import Plane
from deployments.http.codec.input_limits import (
    DEFAULT_MAX_INPUT_BYTES,
    json_too_large,
    raw_too_large,
)
from deployments.http.codec.json_text import read
from deployments.http.codec.repository import (
    load_parameters,
    read_ready_only,
    unload_dependents,
)
from deployments.http.kserve.compression import Compression
from deployments.http.kserve.generate import GenerateRoute
from deployments.http.kserve.infer import InferRoute
from deployments.http.kserve.rollouts import RolloutRoutes
from deployments.http.kserve.settings import SettingsRoutes
from deployments.http.openai.routes import OpenAIRoutes
from deployments.http.openapi.document import make_document
from deployments.http.server.exchange import JSON, PROTECTION, TEXT, HttpExchange
from deployments.http.server.first_use import after_first_use, first_use_of, unquoted
from deployments.http.server.head import HttpHead
from deployments.http.server.routes import Handler, Match, Route, route_of
from deployments.http.server.server import DEFAULT_BUDGET_BYTES
from deployments.settings.forward_pattern import compile_forward_pattern
from deployments.supervision.memory_budget import MemoryBudget

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Paths whose routes are kept; a cluster has some hundred models, and each has a dozen paths.
_PATH_LIMIT: Final = 4096
_PATH_BYTES: Final = 512
# Of the greatest id that an event may have.
_ID_DIGITS: Final = 18


_MODEL: Final = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[0-9]+))?"
_REPOSITORY: Final = r"/v2/repository(?:/(?P<repository>[^/]+))?"


class HttpIngress:
    """The application behind the HTTP port.

    Args:
        plane: The data plane.
        max_input_bytes: ``--http-max-input-size``.
        header_forward_pattern: ``--http-header-forward-pattern``.
        compression: Compresses what is large.
        hidden: Names in lower case of headers that are never forwarded.
        tasks: Holds the tasks of requests that wait; made here without one.
        path_limit: Of how many paths the routes are kept.

    Raises:
        InvalidArgumentError: The pattern is no regular expression.
    """

    def __init__(
        self,
        plane: Plane,
        max_input_bytes: int = DEFAULT_MAX_INPUT_BYTES,
        header_forward_pattern: str = "",
        compression: Compression | None = None,
        *,
        hidden: frozenset[bytes] = frozenset(),
        tasks: set[asyncio.Task[None]] | None = None,
        path_limit: int = _PATH_LIMIT,
    ) -> None:
        self._path_limit = path_limit
        self._plane = plane
        self._max_input_bytes = max_input_bytes
        forward = compile_forward_pattern(header_forward_pattern, "--http-header-forward-pattern")
        compression = compression or Compression(
            MemoryBudget(DEFAULT_BUDGET_BYTES), max_input_bytes
        )
        self._infer = InferRoute(plane, max_input_bytes, forward, compression, hidden)
        self._generate = GenerateRoute(plane, max_input_bytes)
        self._tasks = set() if tasks is None else tasks
        self._paths: dict[bytes, tuple[Route, Match]] = {}
        self._routes = self._make_routes()
        self._openapi = b""

    def _make_routes(self) -> tuple[Route, ...]:
        def row(
            category: str, pattern: str, method: bytes, handler: Handler, error_type: bytes = JSON
        ) -> Route:
            return Route(re.compile(pattern), method, handler, error_type, category=category)

        # First match wins: a model called "stats" has no metadata, as in Triton.
        return (
            row("inference", f"{_MODEL}/infer", b"POST", self._on_infer, TEXT),
            row("inference", f"{_MODEL}/generate", b"POST", self._on_generate),
            row("inference", f"{_MODEL}/generate_stream", b"POST", self._on_generate_stream),
            row("health", "/v2/health/live", b"GET", self._on_live, TEXT),
            row("health", "/v2/health/ready", b"GET", self._on_ready, TEXT),
            row("", "/-/healthz", b"GET", self._on_healthz, TEXT),
            row("metadata", "/v2", b"GET", self._on_server_metadata),
            row("statistics", "/v2/models/stats", b"GET", self._on_statistics),
            row("metadata", _MODEL, b"GET", self._on_metadata),
            row("health", f"{_MODEL}/ready", b"GET", self._on_model_ready, TEXT),
            row("model-config", f"{_MODEL}/config", b"GET", self._on_config),
            row("statistics", f"{_MODEL}/stats", b"GET", self._on_statistics),
            row("model-repository", f"{_REPOSITORY}/index", b"POST", self._on_index),
            row(
                "model-repository",
                f"{_REPOSITORY}/models/(?P<name>[^/]+)/load",
                b"POST",
                self._on_load,
            ),
            row(
                "model-repository",
                f"{_REPOSITORY}/models/(?P<name>[^/]+)/unload",
                b"POST",
                self._on_unload,
            ),
            row("metadata", "/v2/manta/instances", b"GET", self._on_instances),
            row("metadata", "/v2/manta/events", b"GET", self._on_events),
            *map(route_of, RolloutRoutes(self._plane, self._body).rows()),
            *map(route_of, SettingsRoutes(self._plane).rows()),
            *map(route_of, OpenAIRoutes(self._plane, self._max_input_bytes).rows()),
            row("metadata", r"/v2/openapi\.json", b"GET", self._on_openapi),
        )

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document of the routes."""
        version = self._plane.server_metadata()["version"]
        return make_document((route.described() for route in self._routes), version)

    def category(self, exchange: HttpExchange) -> str:
        """Return the restricted API that a request belongs to; empty for none."""
        found = self.found(exchange.head)
        return "" if found is None else found[0].category

    def found(self, head: HttpHead) -> tuple[Route, Match] | None:
        """Return the route of a request and what its path names; None when there is none."""
        return self._paths.get(head.url) or self._find(head.url)

    # What the server calls

    def dispatch(self, exchange: HttpExchange) -> None:
        """Answer a complete request, now or later."""
        found = self.found(exchange.head)
        if found is None:
            exchange.fail_text(404, "Not Found", TEXT)
            return
        route, match = found
        handler = route.handler
        if exchange.head.method != route.method:
            if exchange.head.method not in route.others:
                exchange.fail_text(405, "Method Not Allowed", route.error_type)
                return
            handler = route.others[exchange.head.method]
        try:
            later = handler(exchange, match)
        except TritonError as error:
            first_use = first_use_of(self._plane, match, error)
            if first_use is None:
                exchange.fail(error, route.error_type)
                return
            later = after_first_use(first_use, exchange, lambda: handler(exchange, match))
        if later is not None:
            self._finish_later(exchange, route, later)

    def refuse(self, exchange: HttpExchange, body_bytes: int) -> str:
        """Return why a body is not taken: what is not binary tensors has Triton's limit."""
        head = exchange.head
        if body_bytes <= self._max_input_bytes:
            return ""
        # Only infer requests have tensors behind their JSON, or are decompressed.
        is_infer = self._handler_of(head) == self._on_infer
        if is_infer and head.content_encoding:
            return ""
        if not is_infer or head.infer_header_length is None:
            return json_too_large(body_bytes, self._max_input_bytes)
        if head.infer_header_length == b"0":
            return raw_too_large(body_bytes, self._max_input_bytes)
        return ""

    def allocate(self, size_bytes: int, align_at: int) -> memoryview | None:
        """Return slab memory, so that tensors can go on to an instance without a copy."""
        return self._plane.slabs.allocate(size_bytes, align_at)

    def _handler_of(self, head: HttpHead) -> Handler | None:
        found = self.found(head)
        return None if found is None else found[0].handler

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
                if len(url) <= _PATH_BYTES:
                    if len(self._paths) >= self._path_limit:
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
                logger.exception("failed to answer %s %s", exchange.head.method, exchange.head.url)
                exchange.fail_text(500, "internal error; the server's log says more")

        # Not cancelled when the peer goes: a load goes on, as in Triton.
        task = asyncio.get_running_loop().create_task(finish())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Routes

    def _on_infer(self, exchange: HttpExchange, match: Match) -> Coroutine[Any, Any, None] | None:
        model = self._resolved(self._plane.resolve, match)
        return self._infer.start(exchange, model)

    def _on_generate(
        self, exchange: HttpExchange, match: Match
    ) -> Coroutine[Any, Any, None] | None:
        return self._start_generate(exchange, match, is_stream=False)

    def _on_generate_stream(
        self, exchange: HttpExchange, match: Match
    ) -> Coroutine[Any, Any, None] | None:
        return self._start_generate(exchange, match, is_stream=True)

    def _start_generate(
        self, exchange: HttpExchange, match: Match, *, is_stream: bool
    ) -> Coroutine[Any, Any, None] | None:
        model = self._resolved(self._plane.resolve, match)
        if exchange.head.load_report_form:
            return self._generate.start_reporting(exchange, model, is_stream=is_stream)
        self._generate.start(exchange, model, is_stream=is_stream)
        return None

    def _on_live(self, exchange: HttpExchange, match: Match) -> None:
        if self._plane.exiting:
            exchange.fail_text(503, "Server exiting", TEXT)
            return
        exchange.reply(200 if self._plane.server_live() else 400, TEXT, extra_headers=PROTECTION)

    def _on_ready(self, exchange: HttpExchange, match: Match) -> None:
        if self._plane.exiting:
            exchange.fail_text(503, "Server exiting", TEXT)
            return
        exchange.reply(200 if self._plane.server_ready() else 400, TEXT, extra_headers=PROTECTION)

    def _on_healthz(self, exchange: HttpExchange, match: Match) -> None:
        # Probes that only look for a word in the body know no status: KubeRay's greps for this one.
        plane = self._plane
        body = b"success" if plane.has_started else b"starting"
        if plane.draining or plane.exiting:
            body = b"draining"
        exchange.reply(200 if body == b"success" else 503, TEXT, (body,), len(body), PROTECTION)

    def _on_server_metadata(self, exchange: HttpExchange, match: Match) -> None:
        exchange.reply_json(orjson.dumps(self._plane.server_metadata()))

    def _on_openapi(self, exchange: HttpExchange, match: Match) -> None:
        if not self._openapi:
            # Made when first asked for: most ingresses never are.
            self._openapi = orjson.dumps(self.openapi())
        exchange.reply_json(self._openapi)

    def _on_metadata(self, exchange: HttpExchange, match: Match) -> None:
        exchange.reply_json(orjson.dumps(self._resolved(self._plane.model_metadata, match)))

    async def _on_model_ready(self, exchange: HttpExchange, match: Match) -> None:
        try:
            is_ready = self._resolved(self._plane.model_ready, match) and (
                await self._resolved(self._plane.says_ready, match)
            )
        except (NotFoundError, UnavailableError):
            if self._plane.exiting:
                raise
            # Other routes tell why; this one answers every reason alike.
            is_ready = self._plane.is_unread(unquoted(match.name) or match.name)
        if is_ready:
            exchange.reply(200, TEXT, extra_headers=PROTECTION)
        else:
            exchange.fail_text(400, "Model version not ready", TEXT)

    def _on_config(self, exchange: HttpExchange, match: Match) -> None:
        exchange.reply_json(self._resolved(self._plane.model_config_json, match))

    async def _on_statistics(self, exchange: HttpExchange, match: Match) -> None:
        name = unquoted(match.name) or match.name
        exchange.reply_json(orjson.dumps(await self._plane.statistics(name, match.version)))

    async def _on_index(self, exchange: HttpExchange, match: Match) -> None:
        # A repository named in the path is ignored here, as in Triton.
        ready_only = read_ready_only(self._body(exchange))
        rows = await self._plane.repository.index(ready_only=ready_only)
        exchange.reply_json(orjson.dumps(rows))

    async def _on_instances(self, exchange: HttpExchange, match: Match) -> None:
        exchange.reply_json(orjson.dumps(await self._plane.repository.instances()))

    async def _on_events(self, exchange: HttpExchange, match: Match) -> None:
        query = parse_qs(exchange.head.url.partition(b"?")[2].decode("latin-1"))
        (since,) = query.get("since", ["0"])[-1:]
        if not (since.isascii() and since.isdigit() and len(since) <= _ID_DIGITS):
            raise InvalidArgumentError(f"query 'since': expected the id of an event, got '{since}'")
        rows = await self._plane.repository.events(since=int(since))
        exchange.reply_json(orjson.dumps(rows))

    async def _on_load(self, exchange: HttpExchange, match: Match) -> None:
        if match.repository:
            raise UnsupportedError("'repository_name' specification is not supported")
        parameters = load_parameters(self._body_json(exchange))
        await self._plane.repository.load(unquoted(match.name) or match.name, parameters)
        exchange.reply_json(b"")

    async def _on_unload(self, exchange: HttpExchange, match: Match) -> None:
        if match.repository:
            raise UnsupportedError("'repository_name' specification is not supported")
        wanted = unload_dependents(self._body_json(exchange))
        name = unquoted(match.name) or match.name
        await self._plane.repository.unload(name, unload_dependents=wanted)
        exchange.reply_json(b"")

    def _body(self, exchange: HttpExchange) -> bytes:
        body = bytes(exchange.body)
        if len(body) > self._max_input_bytes:
            raise InvalidArgumentError(json_too_large(len(body), self._max_input_bytes))
        return body

    def _body_json(self, exchange: HttpExchange) -> object:
        body = self._body(exchange)
        return read(body) if body else {}

    def _resolved(self, look_up: Callable[[str, str], T], match: Match) -> T:
        """Look a model up by the name in the path and, if need be, by the name it stands for."""
        try:
            return look_up(match.name, match.version)
        except (NotFoundError, InvalidArgumentError, PermissionDeniedError):
            # With namespaces an unknown name is an invalid argument.
            name = unquoted(match.name)
            if not name:
                raise
            try:
                return look_up(name, match.version)
            except (NotFoundError, PermissionDeniedError):
                pass
            raise
