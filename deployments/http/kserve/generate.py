# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The routes ``generate`` and ``generate_stream``.

Both stream: the status is that of the first response, whatever follows it. ``generate`` holds its
one answer back until it knows that it stays the only one.

Triton: server/src/http_server.cc GenerateRequestClass @e1db8a6
"""

import logging
from typing import Final, Protocol

from backends.api.errors import InternalError, InvalidArgumentError, Phase, TritonError
from backends.api.request import InferenceResponse
from deployments.contracts.sinks import Inflight
from deployments.data_plane.face import Plane, PlaneModel
from deployments.http.codec.generate import (
    NOT_ONE_RESPONSE,
    decode_generate,
    encode_generate,
)
from deployments.http.codec.json_text import error_body
from deployments.http.codec.orca import load_report
from deployments.http.server.arrival import arrival_of
from deployments.http.server.exchange import EVENTS, JSON, UNENCODED, HttpExchange

logger = logging.getLogger(__name__)

_MODEL_ERROR_STATUS: Final = 400


class GenerateRoute:
    """Answers generate requests.

    Args:
        plane: The data plane.
        max_input_bytes: ``--http-max-input-size``.
    """

    def __init__(self, plane: Plane, max_input_bytes: int) -> None:
        self._plane = plane
        self._max_input_bytes = max_input_bytes

    def start(self, exchange: HttpExchange, model: PlaneModel, *, is_stream: bool) -> None:
        """Start a request; the exchange is answered as responses come.

        Raises:
            TritonError: The request is wrong.
        """
        arrival = arrival_of(exchange, self._plane.tracer)
        if exchange.head.content_encoding.lower() not in UNENCODED:
            raise InvalidArgumentError(
                "Unsupported content-encoding, only 'identity' is supported."
            )
        request = decode_generate(bytes(exchange.body), model, self._max_input_bytes)
        exchange.body = b""
        sink = GenerateSink(exchange, model, _Events() if is_stream else _Single())
        inflight = self._plane.infer(model, request, sink, exchange.head.headers, arrival=arrival)
        sink.started(inflight)

    async def start_reporting(
        self, exchange: HttpExchange, model: PlaneModel, *, is_stream: bool
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


class _Form(Protocol):
    """How responses become an answer."""

    content_type: bytes

    def send(self, sink: "GenerateSink", body: bytes) -> None:
        """Take the encoded response."""

    def finish(self, sink: "GenerateSink") -> None:
        """Complete the answer."""


class _Single:
    """The one response, or that there was not exactly one."""

    __slots__ = ("_body",)

    content_type = JSON

    def __init__(self) -> None:
        self._body = b""

    def send(self, sink: "GenerateSink", body: bytes) -> None:
        """Hold the response back: it may not stay the only one."""
        self._body = body

    def finish(self, sink: "GenerateSink") -> None:
        """Send the response."""
        sink.write(self._body if sink.count == 1 else error_body(NOT_ONE_RESPONSE))


class _Events:
    """One server-sent event per response."""

    __slots__ = ()

    content_type = EVENTS

    def send(self, sink: "GenerateSink", body: bytes) -> None:
        """Send the response at once."""
        sink.write(b"data: %s\n\n" % body)

    def finish(self, sink: "GenerateSink") -> None:
        """Nothing closes the stream but its end."""
        sink.write(b"")


class GenerateSink:
    """Takes the responses of one request.

    Args:
        exchange: What is answered.
        model: The model asked.
        form: How responses become the answer.

    Attributes:
        count: Responses so far, errors among them.
    """

    __slots__ = ("_exchange", "_form", "_has_ended", "_inflight", "_model", "_status", "count")

    def __init__(self, exchange: HttpExchange, model: PlaneModel, form: _Form) -> None:
        self._exchange = exchange
        self._model = model
        self._form = form
        self._inflight: Inflight | None = None
        self._has_ended = False
        self._status = 0
        self.count = 0

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
        if final and self.count == 0 and error.phase is Phase.ENQUEUE:
            self._has_ended = True
            self._exchange.fail(error, JSON)
            return
        self._take_error(error)
        if final:
            self._end()

    def write(self, piece: bytes) -> None:
        """Send a part of the answer, behind its head; called by the form."""
        self._exchange.begin_stream(self._status or 200, self._form.content_type)
        self._exchange.write(piece)

    def _take_error(self, error: TritonError) -> None:
        # A model's errors have no status of their own here, unlike those of infer requests.
        self._take(_MODEL_ERROR_STATUS, error_body(error.message))

    def _take(self, status: int, body: bytes) -> None:
        self._status = self._status or status
        self.count += 1
        self._form.send(self, body)

    def _end(self) -> None:
        self._has_ended = True
        # Sink, request and exchange refer to each other; cut here, all are freed at once.
        self._inflight = None
        self._form.finish(self)
        self._exchange.end_stream()
