# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The infer route: from an exchange to the data plane and back, without a coroutine.

Triton: server/src/http_server.cc HTTPAPIServer::HandleInfer @e1db8a6
"""

import logging
import re
from collections.abc import Coroutine, Iterable
from typing import Any, Final

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    Phase,
    TritonError,
    UnsupportedError,
)
from backends.api.request import InferenceResponse
from deployments.data_plane.face import Plane, PlaneModel
from deployments.http.codec import content_coding
from deployments.http.codec.infer_request import InferDecoder
from deployments.http.codec.infer_response import InferEncoder
from deployments.http.codec.infer_spec import OutputsSpec
from deployments.http.kserve.compression import Compression
from deployments.http.server.arrival import arrival_of
from deployments.http.server.exchange import BINARY, JSON, TEXT, HttpExchange
from deployments.protocol.forwarded_headers import forwarded_headers
from deployments.tracing.tracer import Arrival

logger = logging.getLogger(__name__)

_INT32_MAX: Final = 2**31 - 1
_US_PER_MS: Final = 1000
_INTEGER = re.compile(rb"\s*([+-]?[0-9]+)")


class InferRoute:
    """Answers infer requests.

    Args:
        plane: The data plane.
        max_input_bytes: ``--http-max-input-size``.
        forward: Names of headers that become request parameters.
        compression: Compresses what is large.
        hidden: Names in lower case of headers that never do.
    """

    __slots__ = (
        "_compression",
        "_decoder",
        "_encoder",
        "_forward",
        "_hidden",
        "_max_input_bytes",
        "_plane",
    )

    def __init__(
        self,
        plane: Plane,
        max_input_bytes: int,
        forward: re.Pattern[bytes] | None,
        compression: Compression,
        hidden: frozenset[bytes] = frozenset(),
    ) -> None:
        self._plane = plane
        self._forward = forward
        self._hidden = hidden
        self._max_input_bytes = max_input_bytes
        self._decoder = InferDecoder(max_input_bytes)
        self._encoder = InferEncoder()
        self._compression = compression

    def start(self, exchange: HttpExchange, model: PlaneModel) -> Coroutine[Any, Any, None] | None:
        """Start a request; the exchange is answered when the plane is done.

        Returns:
            What has to be awaited first, if the body is large and compressed.

        Raises:
            TritonError: The request is wrong before its body is looked at.
        """
        if model.config.decoupled:
            raise UnsupportedError(
                "HTTP end point doesn't support models with decoupled transaction policy"
            )
        arrival = arrival_of(exchange, self._plane.tracer)
        body = memoryview(exchange.body)
        encoding = exchange.head.content_encoding
        if encoding:
            try:
                plain = content_coding.decompress_small(encoding, body, self._max_input_bytes)
            except UnsupportedError as error:
                exchange.fail(error, TEXT, b"Accept-Encoding: gzip, deflate\r\n")
                return None
            if plain is None:
                return self._compression.decompressed(
                    exchange, lambda plain: self._run(exchange, model, plain, arrival)
                )
            body = plain
        self._run(exchange, model, body, arrival)
        return None

    def _run(
        self, exchange: HttpExchange, model: PlaneModel, body: memoryview, arrival: Arrival | None
    ) -> None:
        given = exchange.head.infer_header_length
        header_length = None if given is None else parse_header_length(given, body.nbytes)
        try:
            decoded = self._decoder.decode(body, header_length, model)
            if self._forward is not None:
                request = decoded.request
                forwarded = forwarded_headers(self._forward, exchange.head.headers, self._hidden)
                request.parameters = {**request.parameters, **forwarded}
            if exchange.head.timeout_ms:
                decoded.request.deadline_us = exchange.head.timeout_ms * _US_PER_MS
            # From here the tensors alone keep the body.
            exchange.body = b""
            sink = InferSink(exchange, model, decoded.outputs, self._encoder, self._compression)
            headers = exchange.head.headers
            inflight = self._plane.infer(model, decoded.request, sink, headers, arrival=arrival)
            if not exchange.is_answered:
                exchange.on_disconnect = inflight.cancel
        except TritonError as error:
            exchange.fail(error, TEXT if error.phase is Phase.BATCH else JSON)


class InferSink:
    """Takes the outcome of one request and answers its exchange."""

    __slots__ = (
        "_compression",
        "_count",
        "_encoder",
        "_exchange",
        "_model",
        "_outputs",
        "_response",
    )

    def __init__(
        self,
        exchange: HttpExchange,
        model: PlaneModel,
        outputs: OutputsSpec,
        encoder: InferEncoder,
        compression: Compression,
    ) -> None:
        self._exchange = exchange
        self._compression = compression
        self._model = model
        self._outputs = outputs
        self._encoder = encoder
        self._response: InferenceResponse | None = None
        self._count = 0

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response; the answer leaves with the final one."""
        if response is not None:
            self._response = response
            self._count += 1
        if not final or self._exchange.is_answered:
            return
        try:
            self._answer()
        except TritonError as error:
            self._exchange.fail(error, TEXT)
        except Exception:
            logger.exception("failed to encode a response of model '%s'", self._model.name)
            text = f"failed to encode the response of model '{self._model.name}'"
            self._exchange.fail(InternalError(text), TEXT)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Answer with an error."""
        del final
        # Until a request is queued Triton answers with JSON's content type.
        self._exchange.fail(error, JSON if error.phase is Phase.ENQUEUE else TEXT)

    def _answer(self) -> None:
        response = self._response
        if response is None or self._count != 1:
            raise InternalError(f"expected a single response, got {self._count}")
        encoded = self._encoder.encode(
            response,
            self._outputs,
            self._model.labels,
            is_batching=self._model.config.max_batch_size > 0,
        )
        exchange = self._exchange
        parts: list[bytes | memoryview] = [encoded.header, *encoded.blobs]
        size = len(encoded.header) + encoded.blob_bytes
        content_type, extra = JSON, b""
        if encoded.blob_bytes:
            content_type = BINARY
            extra = b"Inference-Header-Content-Length: %d\r\n" % len(encoded.header)
        if exchange.head.accept_encoding:
            coding = content_coding.choose(exchange.head.accept_encoding)
            if coding:
                extra += b"Content-Encoding: %s\r\n" % coding
                if size > content_coding.SMALL_BYTES:
                    self._compression.reply(exchange, coding, parts, content_type, extra)
                    return
                parts, size = _compressed(coding, parts)
        exchange.reply(200, content_type, parts, size, extra)


def _compressed(
    coding: bytes, parts: Iterable[bytes | memoryview]
) -> tuple[list[bytes | memoryview], int]:
    compressed = content_coding.compress(coding, parts)
    return list(compressed), sum(map(len, compressed))


def parse_header_length(value: bytes, body_bytes: int) -> int:
    """Read an Inference-Header-Content-Length as C++'s ``stoi`` does.

    Raises:
        InvalidArgumentError: It is no integer, or not between 0 and ``body_bytes``.
    """
    if value.isdigit() and len(value) < 10:  # noqa: PLR2004 - fits 32 bits
        length = int(value)
    else:
        shown = value.decode("utf-8", "replace")
        match = _INTEGER.match(value)
        if match is None:
            raise InvalidArgumentError(
                f"Unable to parse Inference-Header-Content-Length, got: {shown}"
            )
        digits = match.group(1)
        length = int(digits) if len(digits) < 20 else _INT32_MAX + 1  # noqa: PLR2004
        if not -_INT32_MAX - 1 <= length <= _INT32_MAX:
            raise InvalidArgumentError(
                f"Unable to parse Inference-Header-Content-Length, value is out of range "
                f"[ {-_INT32_MAX - 1}, {_INT32_MAX} ], got: {shown}"
            )
    if 0 <= length <= body_bytes:
        return length
    raise InvalidArgumentError(
        f"inference header size should be in range (0, {body_bytes}), got: "
        f"{value.decode('utf-8', 'replace')}"
    )
