# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The routes ``generate`` and ``generate_stream``.

Both stream: the status is that of the first response, whatever follows it. ``generate`` holds its
one answer back until it knows that it stays the only one.

Triton: server/src/http_server.cc GenerateRequestClass @e1db8a6
"""

import logging
from typing import Any, Final, Protocol

from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from backends.api.request import InferenceResponse
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.http.codec.generate import (
    NOT_ONE_RESPONSE,
    decode_generate,
    encode_generate,
)
from deployments.http.codec.infer_spec import ServedModel
from deployments.http.codec.json_text import error_body
from deployments.http.codec.orca import load_report
from deployments.http.kserve.infer import InferPlane, is_refusal, traced
from deployments.http.server.exchange import JSON, HttpExchange

logger = logging.getLogger(__name__)

EVENTS: Final = b"text/event-stream; charset=utf-8"

_MODEL_ERROR_STATUS: Final = 400
_UNENCODED: Final = frozenset((b"", b"identity"))


class GeneratePlane(InferPlane, Protocol):
    """What the routes ask of the data plane."""

    async def recent_metrics_text(self) -> bytes:
        """Return the metrics page as it was at most a second ago."""


class GenerateRoute:
    """Answers generate requests.

    Args:
        plane: The data plane.
        max_input_bytes: ``--http-max-input-size``.
    """

    def __init__(self, plane: GeneratePlane, max_input_bytes: int) -> None:
        self._plane = plane
        self._max_input_bytes = max_input_bytes

    def start(self, exchange: HttpExchange, model: ServedModel, *, is_stream: bool) -> None:
        """Start a request; the exchange is answered as responses come.

        Raises:
            TritonError: The request is wrong.
        """
        tracer = self._plane.tracer
        received_ns = tracer.clock_ns() if tracer.is_on else 0
        if exchange.head.content_encoding.lower() not in _UNENCODED:
            raise InvalidArgumentError(
                "Unsupported content-encoding, only 'identity' is supported."
            )
        request = decode_generate(bytes(exchange.body), model, self._max_input_bytes)
        exchange.body = b""
        sink: Any = (EventSink if is_stream else SingleSink)(exchange, model)
        passed: ResponseSink = sink
        if received_ns:
            passed = traced(tracer, exchange, model, request, sink, received_ns)
        inflight = self._plane.infer(model, request, passed)
        sink.started(inflight)

    async def start_reporting(
        self, exchange: HttpExchange, model: ServedModel, *, is_stream: bool
    ) -> None:
        """Start a request whose answer shall tell this node's load.

        Raises:
            TritonError: The request is wrong.
        """
        form = exchange.head.load_report_form.decode("latin-1")
        report = load_report((await self._plane.recent_metrics_text()).decode(), form)
        if report:
            exchange.extra_headers = b"endpoint-load-metrics: %s\r\n" % report.encode()
        else:
            logger.error(
                "a client asked for endpoint-load-metrics as %r, but there is no report", form
            )
        self.start(exchange, model, is_stream=is_stream)


class _Sink:
    """Takes the responses of one request; subclasses say what is sent when."""

    __slots__ = ("_count", "_exchange", "_has_ended", "_inflight", "_model", "_status")

    content_type = JSON

    def __init__(self, exchange: HttpExchange, model: ServedModel) -> None:
        self._exchange = exchange
        self._model = model
        self._inflight: Inflight | None = None
        self._has_ended = False
        self._status = 0
        self._count = 0

    def started(self, inflight: Inflight) -> None:
        """Let the request be cancelled when the peer goes."""
        if not self._has_ended:
            self._inflight = inflight
            self._exchange.on_disconnect = inflight.cancel

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response."""
        if self._has_ended:
            return
        if response is not None:
            try:
                self._take(200, encode_generate(response))
            except TritonError as error:
                self._take_error(error)
            except Exception:
                logger.exception("failed to encode a response of model '%s'", self._model.name)
                text = f"failed to encode the response of model '{self._model.name}'"
                self._take_error(InternalError(text))
        if final:
            self._end()

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error."""
        if self._has_ended:
            return
        if final and self._count == 0 and is_refusal(error):
            self._has_ended = True
            self._exchange.fail(error, JSON)
            return
        self._take_error(error)
        if final:
            self._end()

    def _take_error(self, error: TritonError) -> None:
        # A model's errors have no status of their own here, unlike those of infer requests.
        self._take(_MODEL_ERROR_STATUS, error_body(error.message))

    def _take(self, status: int, body: bytes) -> None:
        self._status = self._status or status
        self._count += 1
        self._send(body)

    def _end(self) -> None:
        self._has_ended = True
        # Sink, request and exchange refer to each other; cut here, all are freed at once.
        self._inflight = None
        self._begin()
        self._finish()
        self._exchange.end_stream()

    def _begin(self) -> None:
        self._exchange.begin_stream(self._status or 200, self.content_type)

    def _send(self, body: bytes) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        raise NotImplementedError


class SingleSink(_Sink):
    """Answers with the one response, or says that there was not exactly one."""

    __slots__ = ("_body",)

    def __init__(self, exchange: HttpExchange, model: ServedModel) -> None:
        super().__init__(exchange, model)
        self._body = b""

    def _send(self, body: bytes) -> None:
        self._body = body

    def _finish(self) -> None:
        self._exchange.write(self._body if self._count == 1 else error_body(NOT_ONE_RESPONSE))


class EventSink(_Sink):
    """Answers with one server-sent event per response."""

    __slots__ = ()

    content_type = EVENTS

    def _send(self, body: bytes) -> None:
        self._begin()
        self._exchange.write(b"data: %s\n\n" % body)

    def _finish(self) -> None:
        """Nothing closes the stream but its end."""
