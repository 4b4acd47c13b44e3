# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The OpenAI routes, over the data plane.

The path tells the route and the body the model, so a port's gate lets in whoever may ask any model,
and the lookup of the model asks for the rest, as of every route.
"""

import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Final

import orjson

from backends.api.errors import (
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    TritonError,
    UnauthenticatedError,
    UnavailableError,
)
from backends.api.model_config import ModelConfig
from backends.api.quoting import shorten
from deployments.data_plane.face import Plane, PlaneModel
from deployments.http.codec.input_limits import json_too_large
from deployments.http.codec.openai_errors import RouteNotServedError
from deployments.http.openai import passing, text
from deployments.http.openai.body import Asked, read_asked
from deployments.http.openai.framing import Framing
from deployments.http.openai.sink import Answer, Events, OpenAISink, Whole
from deployments.http.openai.text_answer import KINDS, TextChunks, WholeText
from deployments.http.server.arrival import arrival_of
from deployments.http.server.exchange import UNENCODED, HttpExchange
from deployments.http.server.first_use import after_first_use, unquoted
from deployments.http.server.routes import Handler, Match, Row

_INFERENCE: Final = "inference"
_METADATA: Final = "metadata"

# By path: the route as `openai.routes` of a model names it.
PATHS: Final[dict[str, str]] = {
    "/v1/chat/completions": "chat/completions",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
    "/v1/rerank": "rerank",
    "/v1/score": "score",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
    "/tokenize": "tokenize",
    "/detokenize": "detokenize",
}
# Routes of OpenAI that no model here has.
ABSENT_PATHS: Final = (
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/images/edits",
    "/v1/images/generations",
    "/v1/images/variations",
)
_LORA: Final = ":"
_OWNER: Final = "manta"
_US_PER_MS: Final = 1000
# Models have no time of their own: that of the process that shows them.
_CREATED: Final = int(time.time())
# After which a name with an adapter is looked up as it is.
_UNKNOWN: Final = (
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)


class OpenAIRoutes:
    """Answers the routes in `rows`.

    Args:
        plane: The data plane.
        max_input_bytes: ``--http-max-input-size``.
        wall_s: The wall clock, in seconds.
    """

    def __init__(
        self, plane: Plane, max_input_bytes: int, wall_s: Callable[[], float] = time.time
    ) -> None:
        self._plane = plane
        self._max_input_bytes = max_input_bytes
        self._wall_s = wall_s

    def rows(self) -> tuple[Row, ...]:
        """Return pattern, handlers by method and restricted category of each route."""
        asked = [
            (path, {b"POST": self._asking(route)}, _INFERENCE) for path, route in PATHS.items()
        ]
        absent = [(path, {b"POST": _absent}, _INFERENCE) for path in ABSENT_PATHS]
        return (
            ("/v1/models", {b"GET": self._on_models}, _METADATA),
            ("/v1/models/(?P<name>[^/]+)", {b"GET": self._on_model}, _METADATA),
            *asked,
            *absent,
        )

    # Models

    def _on_models(self, exchange: HttpExchange, match: Match) -> None:
        del match
        ready = (each for each in self._plane.ready_models() if served_routes(each.config))
        data = [_described(each.name) for each in ready]
        exchange.reply_json(orjson.dumps({"object": "list", "data": data}))

    def _on_model(self, exchange: HttpExchange, match: Match) -> None:
        name = unquoted(match.name) or match.name
        config = self._plane.model_config(name)
        if not served_routes(config):
            raise RouteNotServedError(_serves_none(name))
        exchange.reply_json(orjson.dumps(_described(name)))

    # Inference

    def _asking(self, route: str) -> Handler:
        def ask(exchange: HttpExchange, match: Match) -> Coroutine[Any, Any, None] | None:
            del match
            asked = read_asked(self._body(exchange))
            try:
                self._start(exchange, route, asked)
            except (NotFoundError, UnavailableError) as error:
                first_use = None
                if not isinstance(error, RouteNotServedError):
                    first_use = self._plane.first_use(_base(asked.model))
                if first_use is None:
                    raise
                return after_first_use(
                    first_use, exchange, lambda: self._start(exchange, route, asked)
                )
            return None

        return ask

    def _start(self, exchange: HttpExchange, route: str, asked: Asked) -> None:
        """Start a request; the exchange is answered as responses come.

        Raises:
            TritonError: The request is wrong.
        """
        model = self._model(asked.model)
        config = model.config
        if route not in served_routes(config):
            raise RouteNotServedError(_not_served(config, route))
        is_own = route in passing.routes_of(config)
        body = bytes(exchange.body)
        request = (
            passing.request_of(model.name, model.version, route, body)
            if is_own
            else text.text_request_of(config, model.version, route, body)
        )
        if exchange.head.timeout_ms:
            request.deadline_us = exchange.head.timeout_ms * _US_PER_MS
        arrival = arrival_of(exchange, self._plane.tracer)
        answer = passing.Passing(model.name) if is_own else self._text_answer(route, asked)
        form = Events(exchange, Framing(route)) if asked.stream else Whole(exchange, model.name)
        sink = OpenAISink(exchange, model.name, answer, form)
        headers = exchange.head.headers
        sink.started(self._plane.infer(model, request, sink, headers, arrival=arrival))
        # From here the request alone keeps the body.
        exchange.body = b""

    def _text_answer(self, route: str, asked: Asked) -> Answer:
        kind, answer_id, created = KINDS[route], uuid.uuid4().hex, int(self._wall_s())
        if not asked.stream:
            return WholeText(kind, answer_id, created, asked.model)
        return TextChunks(kind, answer_id, created, asked.model, wants_usage=asked.wants_usage)

    def _model(self, given: str) -> PlaneModel:
        """Return the model that a request names, perhaps with an adapter.

        Raises:
            TritonError: There is none, or the caller may not ask it.
        """
        base = _base(given)
        if base != given:
            try:
                return self._plane.resolve(base)
            except _UNKNOWN as error:
                return self._model_called(given, error)
        return self._plane.resolve(given)

    def _model_called(self, name: str, error: TritonError) -> PlaneModel:
        """Return the model whose own name has a colon.

        Raises:
            TritonError: The error that the name before the colon has met: there is none.
        """
        try:
            return self._plane.resolve(name)
        except _UNKNOWN:
            raise error from None

    def _body(self, exchange: HttpExchange) -> bytes | bytearray | memoryview:
        """Return the body of a request.

        Raises:
            InvalidArgumentError: It is too large, or compressed.
        """
        size = len(exchange.body)
        if size > self._max_input_bytes:
            raise InvalidArgumentError(json_too_large(size, self._max_input_bytes))
        if exchange.head.content_encoding.lower() not in UNENCODED:
            given = shorten(exchange.head.content_encoding.decode("latin-1"))
            raise InvalidArgumentError(
                f"Content-Encoding '{given}' is not supported here; send the JSON as it is"
            )
        return exchange.body


def served_routes(config: ModelConfig) -> tuple[str, ...]:
    """Return the OpenAI routes that a model answers, itself or by its text tensors."""
    own = passing.routes_of(config)
    if not text.is_text(config):
        return own
    return (*own, *(each for each in text.ROUTES if each not in own))


def _base(model: str) -> str:
    """Return the model's name without its adapter."""
    return model.partition(_LORA)[0] or model


def _described(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": _OWNER}


def _not_served(config: ModelConfig, route: str) -> str:
    routes = served_routes(config)
    if not routes:
        return _serves_none(config.name)
    shown = ", ".join(f"'{each}'" for each in routes)
    return f"model '{config.name}' does not answer the route '{route}'; it answers {shown}"


def _serves_none(name: str) -> str:
    return (
        f"model '{name}' answers no OpenAI route; a model does whose backend says so, or a model"
        f" of text whose config has the parameter {text.SCHEMA_PARAMETER} 'text'"
    )


def _absent(exchange: HttpExchange, match: Match) -> None:
    del match
    path = exchange.head.url.partition(b"?")[0].decode("latin-1")
    raise RouteNotServedError(
        f"the server has no route {path}: no model here speaks or draws; docs/openai.md lists the"
        " routes there are"
    )
