# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""ModelInfer and ModelStreamInfer.

Theory of operation. A unary call is its own response sink: one object per request and plain calls
from the received message to the sent one. A stream holds the requests that are still open. Requests
to models that are not decoupled, and requests that were rejected, are answered in the order they
came: such a request holds its answers back until it is the oldest of its kind. Decoupled ones are
answered as responses come. A stream ends when the client has closed its side and nothing is open.

Triton: server/src/grpc/infer_handler.cc, stream_infer_handler.cc @e1db8a6
"""

import logging
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from backends.api.errors import (
    GRPC_STATUS,
    InternalError,
    TritonError,
    UnavailableError,
    UnsupportedError,
)
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.grpc_calls import Metadata, RpcReply
from deployments.protocol.classification import classify
from deployments.protocol.forwarded_headers import compile_forward_pattern, forwarded_headers
from deployments.protocol.grpc_request import DecodedRequest, RequestDecoder
from deployments.protocol.grpc_response import (
    ResponseEncoder,
    encode_empty_final,
    encode_failure,
    encode_rejection,
)
from deployments.protocol.grpc_wire import Buffer
from deployments.seams import Inflight, ResponseSink
from deployments.tracing import GRPC, Arrival

if TYPE_CHECKING:
    from deployments.data_plane import DataPlane
    from deployments.router import ServedModel

logger = logging.getLogger(__name__)

# Metadata with which a client asks that the first error end its stream with the error's status.
_STATUS_MODE: Final = (b"triton_grpc_error", b"true")


class InferContext:
    """What all inference calls of one service share.

    Args:
        plane: Where requests go.
        header_forward_pattern: Regular expression of metadata that becomes request parameters.

    Raises:
        InvalidArgumentError: The pattern is no regular expression.
    """

    __slots__ = ("_header_pattern", "decoder", "encoder", "plane")

    def __init__(self, plane: "DataPlane", header_forward_pattern: str = "") -> None:
        self.plane = plane
        self._header_pattern = compile_forward_pattern(
            header_forward_pattern, "--grpc-header-forward-pattern"
        )
        self.decoder = RequestDecoder()
        self.encoder = ResponseEncoder()

    def resolve(self, decoded: DecodedRequest) -> "ServedModel":
        """Return the model version a request means.

        Raises:
            TritonError: There is none, or the server is shutting down.
        """
        plane = self.plane
        if plane.exiting:
            raise UnavailableError(
                "GRPC server is shutting down and has stopped accepting new requests."
            )
        return plane.resolve(decoded.model_name, decoded.model_version)

    def build(
        self, decoded: DecodedRequest, model: "ServedModel", metadata: Metadata
    ) -> InferenceRequest:
        """Return the request, with the metadata that is forwarded among its parameters.

        Raises:
            TritonError: The request breaks a rule.
        """
        request = decoded.build(model.version)
        if self._header_pattern is not None:
            request.parameters.update(forwarded_headers(self._header_pattern, metadata))
        return request

    def traced(
        self,
        model: "ServedModel",
        request: InferenceRequest,
        sink: ResponseSink,
        began_ns: int,
        received_ns: int,
        metadata: Metadata,
    ) -> ResponseSink:
        """Return the sink a request goes with while tracing is on."""
        arrival = Arrival(GRPC, began_ns or received_ns, received_ns, metadata)
        return self.plane.tracer.traced(model.name, model.version, request, sink, arrival)


class InferCall:
    """One ModelInfer call, and the sink of its request."""

    __slots__ = (
        "_began_ns",
        "_classes",
        "_context",
        "_count",
        "_ended",
        "_inflight",
        "_metadata",
        "_model",
        "_reply",
        "_response",
    )

    def __init__(self, context: InferContext, metadata: Metadata, reply: RpcReply) -> None:
        self._context = context
        self._metadata = metadata
        self._reply = reply
        self._inflight: Inflight | None = None
        self._model: ServedModel | None = None
        self._classes: Mapping[str, int] = {}
        self._response: InferenceResponse | None = None
        self._count = 0
        self._ended = False
        tracer = context.plane.tracer
        self._began_ns = tracer.clock_ns() if tracer.is_on else 0

    def message(self, data: bytes | memoryview) -> None:
        """Take the request."""
        if self._ended or self._model is not None:
            return
        context = self._context
        tracer = context.plane.tracer
        received_ns = tracer.clock_ns() if tracer.is_on else 0
        try:
            decoded = context.decoder.decode(data)
            self._model = model = context.resolve(decoded)
            _refuse_decoupled(model)
            request = context.build(decoded, model, self._metadata)
            self._classes = decoded.classes
            sink: ResponseSink = self
            if received_ns:
                sink = context.traced(
                    model, request, self, self._began_ns, received_ns, self._metadata
                )
            self._inflight = context.plane.infer(model, request, sink)
        except TritonError as error:
            self.fail(error)
        except Exception as error:
            self.fail(_fault(error))

    def half_closed(self) -> None:
        """A unary call without a request is an error, as it is in gRPC's own servers."""
        if self._model is None and not self._ended:
            self.fail(InternalError("the call ended without a request message"))

    def cancelled(self) -> None:
        """Drop the request; what its sink still hears goes nowhere."""
        self._ended = True
        inflight, self._inflight = self._inflight, None
        if inflight is not None:
            inflight.cancel()

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Answer the call with the response, unless there are several or none."""
        if self._ended:
            return
        if response is not None:
            self._response = response
            self._count += 1
        if not final:
            return
        response = self._response
        if response is None or self._count > 1:
            self.fail(InternalError(f"expected a single response, got {self._count}"))
            return
        try:
            if self._classes and self._model is not None:
                _classify(response, self._model, self._classes)
            message = self._context.encoder.encode(response)
        except TritonError as error:
            self.fail(error)
        except Exception as error:
            self.fail(_fault(error))
        else:
            self._end()
            self._reply.complete(message)

    def fail(self, error: TritonError) -> None:
        """End the call with the error's status."""
        if not self._ended:
            self._end()
            self._reply.finish(GRPC_STATUS[error.code], error.message)

    def _end(self) -> None:
        self._ended = True
        # Call and request refer to each other; cut here, both are freed without the collector.
        self._inflight = None


class StreamCall:
    """One ModelStreamInfer call."""

    __slots__ = (
        "_context",
        "_ended",
        "_half_closed",
        "_metadata",
        "_open",
        "_order",
        "_reply",
        "_status_mode",
        "_waiting_ns",
    )

    def __init__(self, context: InferContext, metadata: Metadata, reply: RpcReply) -> None:
        self._context = context
        self._metadata = metadata
        self._reply = reply
        self._status_mode = _STATUS_MODE in metadata
        # Requests without a terminal answer; a dict because that is an ordered set.
        self._open: dict[_StreamedRequest, None] = {}
        # Requests answered in the order they came, the oldest first.
        self._order: deque[_StreamedRequest] = deque()
        self._half_closed = False
        self._ended = False
        # Since when the next message is waited for; 0 unless tracing is on.
        self._waiting_ns = 0

    def message(self, data: bytes | memoryview) -> None:
        """Take one request of the stream."""
        if self._ended:
            return
        context = self._context
        tracer = context.plane.tracer
        received_ns = tracer.clock_ns() if tracer.is_on else 0
        try:
            decoded = context.decoder.decode(data)
        except TritonError as error:
            self._abort(error)
            return
        request = _StreamedRequest(self, context, decoded)
        self._open[request] = None
        try:
            model = context.resolve(decoded)
            if not model.config.decoupled:
                self._keep_order(request)
            request.model = model
            inference = context.build(decoded, model, self._metadata)
            sink: ResponseSink = request
            if received_ns:
                waiting_ns, self._waiting_ns = self._waiting_ns, received_ns
                sink = context.traced(
                    model, inference, request, waiting_ns, received_ns, self._metadata
                )
            request.inflight = context.plane.infer(model, inference, sink)
        except TritonError as error:
            self._reject(request, error)
        except Exception as error:
            self._reject(request, _fault(error))

    def half_closed(self) -> None:
        """Finish once everything that is open has been answered."""
        self._half_closed = True
        self._finish_when_idle()

    def cancelled(self) -> None:
        """Drop all requests."""
        self._ended = True
        self._cancel_open()

    def deliver(self, request: "_StreamedRequest", message: bytes | list[Buffer]) -> None:
        """Send a request's answer when it is its turn."""
        if self._ended or request not in self._open:
            return
        if request.is_ordered and self._order[0] is not request:
            request.held.append(message)
        else:
            self._reply.send(message)

    def failed(self, request: "_StreamedRequest", error: TritonError, message: bytes) -> None:
        """Send a request's error, or end the stream with it."""
        if self._ended or request not in self._open:
            return
        if self._status_mode:
            self._abort(error)
            return
        self.deliver(request, message)
        self.closed(request)

    def closed(self, request: "_StreamedRequest") -> None:
        """Forget a request that has had its terminal answer."""
        if self._ended or request not in self._open:
            return
        del self._open[request]
        request.inflight = None
        order = self._order
        while order and order[0] not in self._open:
            order.popleft()
            if order:
                for message in order[0].held:
                    self._reply.send(message)
                order[0].held.clear()
        self._finish_when_idle()

    def _keep_order(self, request: "_StreamedRequest") -> None:
        if not request.is_ordered:
            request.is_ordered = True
            self._order.append(request)

    def _reject(self, request: "_StreamedRequest", error: TritonError) -> None:
        if request.model is None:
            self._keep_order(request)
        self.failed(request, error, encode_rejection(error, request.id))

    def _finish_when_idle(self) -> None:
        if self._half_closed and not self._open and not self._ended:
            self._ended = True
            self._reply.finish()

    def _abort(self, error: TritonError) -> None:
        self._ended = True
        self._cancel_open()
        self._reply.finish(GRPC_STATUS[error.code], error.message)

    def _cancel_open(self) -> None:
        requests, self._open = self._open, {}
        for request in requests:
            if request.inflight is not None:
                request.inflight.cancel()


class _StreamedRequest:
    """One request of a stream, and its sink."""

    __slots__ = (
        "_classes",
        "_context",
        "_model_name",
        "_stream",
        "_wants_empty_final",
        "held",
        "id",
        "inflight",
        "is_ordered",
        "model",
    )

    def __init__(self, stream: StreamCall, context: InferContext, decoded: DecodedRequest) -> None:
        self._stream = stream
        self._context = context
        self._model_name = decoded.model_name
        self._classes = decoded.classes
        self._wants_empty_final = decoded.wants_empty_final
        self.id = decoded.id
        self.model: ServedModel | None = None
        self.inflight: Inflight | None = None
        self.is_ordered = False
        self.held: list[bytes | list[Buffer]] = []

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Pass a response on; a final one without tensors only when the client wants to know."""
        if response is not None:
            try:
                if self._classes and self.model is not None:
                    _classify(response, self.model, self._classes)
                message = self._context.encoder.encode_streamed(response, final=final)
            except TritonError as error:
                self._give_up(error)
                return
            except Exception as error:
                self._give_up(_fault(error))
                return
            self._stream.deliver(self, message)
        elif self._wants_empty_final:
            self._stream.deliver(self, encode_empty_final(self.id, self._model_name))
        if final:
            self._stream.closed(self)

    def fail(self, error: TritonError) -> None:
        """Pass the error on."""
        message = encode_failure(error, self.id, self._model_name)
        self._stream.failed(self, error, message)

    def _give_up(self, error: TritonError) -> None:
        if self.inflight is not None:
            self.inflight.cancel()
        self.fail(error)


def _classify(
    response: InferenceResponse, model: "ServedModel", classes: Mapping[str, int]
) -> None:
    is_batched = model.config.max_batch_size > 0
    response.outputs = [
        classify(
            output,
            classes[output.name],
            model.labels.get(output.name, ()),
            is_batched=is_batched,
        )
        if output.name in classes
        else output
        for output in response.outputs
    ]


def _refuse_decoupled(model: "ServedModel") -> None:
    if model.config.decoupled:
        raise UnsupportedError(
            "ModelInfer RPC doesn't support models with decoupled transaction policy"
        )


def _fault(error: Exception) -> TritonError:
    logger.error("gRPC inference request failed", exc_info=error)
    return InternalError(f"{type(error).__name__}: {error}")
