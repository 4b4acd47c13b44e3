# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""ModelStreamInfer.

Theory of operation. A stream holds the requests that are still open. Requests to models that are
not decoupled, and requests that were rejected, are answered in the order they came: such a request
holds its answers back until it is the oldest of its kind. Decoupled ones are answered as responses
come. A stream ends when the client has closed its side and nothing is open.

A message for which there is no memory is a rejected request: the others go on. Its stream is not
left unread instead, since windows that were granted already let more in than may be held, and what
would free the memory may be a model that never answers.

Triton: server/src/grpc/stream_infer_handler.cc @e1db8a6
"""

from collections import deque
from collections.abc import Awaitable, Mapping
from typing import Final

from backends.api.errors import GRPC_STATUS, ResourceExhaustedError, TritonError
from backends.api.request import InferenceResponse
from deployments.contracts.faults import fault_of
from deployments.contracts.sinks import Inflight
from deployments.data_plane.face import PlaneModel
from deployments.grpc.codec.request import DecodedRequest, request_id_of
from deployments.grpc.codec.response import (
    encode_empty_final,
    encode_failure,
    encode_rejection,
)
from deployments.grpc.kserve.infer import INFERENCE, InferContext, classify_outputs
from deployments.grpc.rpc.service import Metadata, RpcReply, message_bytes
from deployments.http2.frames import Buffer

# Metadata with which a client asks that the first error end its stream with the error's status.
_STATUS_MODE: Final = (b"triton_grpc_error", b"true")


class StreamCall:
    """One ModelStreamInfer call."""

    __slots__ = (
        "_context",
        "_ended",
        "_half_closed",
        "_late",
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
        # Messages that wait, the first of them for its model, and requests that were refused
        # meanwhile; None while none does.
        self._late: deque[bytes | memoryview | _StreamedRequest] | None = None
        # Since when the next message is waited for; 0 unless tracing is on.
        self._waiting_ns = 0

    def message(self, data: bytes | memoryview) -> None:
        """Take one request of the stream."""
        if self._ended:
            return
        if self._late is not None:
            # An earlier one waits for its model to be loaded.
            self._late.append(data)
            return
        context = self._context
        tracer = context.plane.tracer
        arrival = context.arrival(self._waiting_ns, self._metadata) if tracer.is_on else None
        try:
            decoded = context.decoder.decode(data)
        except TritonError as error:
            self._abort(error)
            return
        request = _StreamedRequest(self, context, decoded.id, len(data))
        request.take(decoded)
        self._open[request] = None
        try:
            model = context.resolve(decoded)
            if not model.config.decoupled:
                self._keep_order(request)
            request.model = model
            inference = context.build(decoded, model, self._metadata)
            if arrival is not None:
                self._waiting_ns = arrival.received_ns
            inflight = context.plane.infer(
                model, inference, request, self._metadata, arrival=arrival
            )
            # Answered within `infer`, the request must not hold what `closed` has let go.
            if request in self._open:
                request.inflight = inflight
        except TritonError as error:
            first_use = None if request.model else context.first_use(data, error)
            if first_use is None:
                self._reject(request, error)
            else:
                del self._open[request]
                self._late = deque((data,))
                context.tasks.spawn("first use of a model", self._go_on_after(first_use, request))
        except Exception as cause:
            self._reject(request, fault_of(cause, INFERENCE))

    def refuse_message(self, first: bytes | memoryview, details: str) -> bool:
        """Reject the request of a message for which there is no memory."""
        if not self._ended:
            # Its place is all that it takes.
            self._reply.hold(0)
            request = _StreamedRequest(self, self._context, request_id_of(first), 0)
            request.refusal = details
            self._refuse(request)
        return True

    def _refuse(self, request: "_StreamedRequest") -> None:
        if self._ended:
            return
        if self._late is not None:
            self._late.append(request)
            return
        self._open[request] = None
        self._reject(request, ResourceExhaustedError(request.refusal))

    async def _go_on_after(self, first_use: Awaitable[None], request: "_StreamedRequest") -> None:
        """Take the messages that have come since one met a model that was not loaded."""
        failure: TritonError | None = None
        try:
            await first_use
        except Exception as error:
            failure = fault_of(error, INFERENCE)
        late, self._late = self._late or deque(), None
        # Not idle while there are messages to take.
        half_closed, self._half_closed = self._half_closed, False
        if failure is not None and not self._ended:
            late.popleft()
            self._open[request] = None
            self._reject(request, failure)
        # One of them may have to wait for its model in turn; those behind it then wait with it.
        for each in late:
            if isinstance(each, _StreamedRequest):
                self._refuse(each)
            else:
                self.message(each)
        self._half_closed = half_closed
        self._finish_when_idle()

    def go_on_with(self, context: InferContext) -> None:
        """Take further requests for another view of the plane; those that are open stay."""
        self._context = context

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
            self._reply.hold(message_bytes(message))
        else:
            self._reply.send(message)

    def failed(
        self,
        request: "_StreamedRequest",
        error: TritonError,
        message: bytes,
        *,
        final: bool = True,
    ) -> None:
        """Send a request's error, or end the stream with it."""
        if self._ended or request not in self._open:
            return
        if self._status_mode:
            self._abort(error)
            return
        if final:
            self.let_go(request)
        self.deliver(request, message)
        if final:
            self.closed(request)

    def closed(self, request: "_StreamedRequest") -> None:
        """Forget a request that has had its terminal answer."""
        if self._ended or request not in self._open:
            return
        del self._open[request]
        request.inflight = None
        self.let_go(request)
        order = self._order
        while order and order[0] not in self._open:
            order.popleft()
            if order:
                for message in order[0].held:
                    self._reply.let_go(message_bytes(message))
                    self._reply.send(message)
                order[0].held.clear()
        self._finish_when_idle()

    def let_go(self, request: "_StreamedRequest") -> None:
        """Count a request's message no more: its last answer is there."""
        if request.is_counted:
            request.is_counted = False
            self._reply.let_go(request.message_bytes)

    def _keep_order(self, request: "_StreamedRequest") -> None:
        if not request.is_ordered:
            request.is_ordered = True
            self._order.append(request)

    def _reject(self, request: "_StreamedRequest", error: TritonError) -> None:
        if request.model is None:
            self._keep_order(request)
        self.failed(request, error, encode_rejection(error, request.id))

    def _finish_when_idle(self) -> None:
        if self._half_closed and not (self._open or self._ended or self._late):
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
        "is_counted",
        "is_ordered",
        "message_bytes",
        "model",
        "refusal",
    )

    def __init__(
        self,
        stream: StreamCall,
        context: InferContext,
        request_id: str,
        message_bytes: int,
    ) -> None:
        self._stream = stream
        self._context = context
        self._model_name = ""
        self._classes: Mapping[str, int] = {}
        self._wants_empty_final = False
        self.id = request_id
        self.model: PlaneModel | None = None
        self.inflight: Inflight | None = None
        self.is_ordered = False
        # Whether the call counts its message among what it holds.
        self.is_counted = True
        self.message_bytes = message_bytes
        self.held: list[bytes | list[Buffer]] = []
        # Why its message was not taken; empty if it was.
        self.refusal = ""

    def take(self, decoded: DecodedRequest) -> None:
        """Take what its message says."""
        self._model_name = decoded.model_name
        self._classes = decoded.classes
        self._wants_empty_final = decoded.wants_empty_final

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Pass a response on; a final one without tensors only when the client wants to know."""
        if final:
            self._stream.let_go(self)
        if response is not None:
            try:
                if self._classes and self.model is not None:
                    classify_outputs(response, self.model, self._classes)
                message = self._context.encoder.encode_streamed(response, final=final)
            except Exception as cause:
                self._give_up(fault_of(cause, INFERENCE))
                return
            self._stream.deliver(self, message)
        elif self._wants_empty_final:
            self._stream.deliver(self, encode_empty_final(self.id, self._model_name))
        if final:
            self._stream.closed(self)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Pass the error on."""
        message = encode_failure(error, self.id, self._model_name, final=final)
        self._stream.failed(self, error, message, final=final)

    def _give_up(self, error: TritonError) -> None:
        if self.inflight is not None:
            self.inflight.cancel()
        self.fail(error)
