# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""ModelInfer, and what it shares with ModelStreamInfer.

Theory of operation. A unary call is its own response sink: one object per request and plain calls
from the received message to the sent one.

Triton: server/src/grpc/infer_handler.cc @e1db8a6
"""

from collections.abc import Awaitable, Mapping
from typing import Final

from backends.api.errors import (
    GRPC_STATUS,
    InternalError,
    NotFoundError,
    TritonError,
    UnavailableError,
    UnsupportedError,
)
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.contracts.faults import end_with_fault, fault_of
from deployments.contracts.sinks import Inflight
from deployments.data_plane.face import Plane, PlaneModel
from deployments.grpc.codec.request import DecodedRequest, RequestDecoder
from deployments.grpc.codec.response import (
    ResponseEncoder,
)
from deployments.grpc.rpc.service import Metadata, RpcReply
from deployments.protocol.classification import classify
from deployments.protocol.forwarded_headers import forwarded_headers
from deployments.protocol.input_count import check_input_count
from deployments.settings.forward_pattern import compile_forward_pattern
from deployments.supervision.supervisor import Supervisor
from deployments.tracing.tracer import GRPC, Arrival

_NS_PER_US: Final = 1000
# What failed, in the message of a fault.
INFERENCE: Final = "gRPC inference request"


class InferContext:
    """What all inference calls of one service share.

    Args:
        plane: Where requests go.
        header_forward_pattern: Regular expression of metadata that becomes request parameters.
        hidden: Names of metadata that never do.
        tasks: Where tasks have their parent; made here without one.

    Attributes:
        plane: The same.
        decoder: Reads messages.
        encoder: Writes them.
        tasks: What waits for models.

    Raises:
        InvalidArgumentError: The pattern is no regular expression.
    """

    __slots__ = ("_header_pattern", "_hidden", "decoder", "encoder", "plane", "tasks")

    def __init__(
        self,
        plane: Plane,
        header_forward_pattern: str = "",
        *,
        hidden: frozenset[bytes] = frozenset(),
        tasks: Supervisor | None = None,
    ) -> None:
        self.plane = plane
        self._header_pattern = compile_forward_pattern(
            header_forward_pattern, "--grpc-header-forward-pattern"
        )
        self.decoder = RequestDecoder()
        self.encoder = ResponseEncoder()
        self.tasks = tasks or Supervisor("gRPC inference")
        self._hidden = hidden

    def resolve(self, decoded: DecodedRequest) -> PlaneModel:
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

    def first_use(self, data: bytes | memoryview, error: TritonError) -> Awaitable[None] | None:
        """Return what loads the model of a message that met an error; None where that is no remedy.

        Args:
            data: The message.
            error: What `resolve` raised.
        """
        if not isinstance(error, NotFoundError | UnavailableError):
            return None
        return self.plane.first_use(self.decoder.decode(data).model_name)

    def build(
        self, decoded: DecodedRequest, model: PlaneModel, metadata: Metadata
    ) -> InferenceRequest:
        """Return the request, with the metadata that is forwarded among its parameters.

        Raises:
            TritonError: The request breaks a rule.
        """
        check_input_count(decoded.input_count, model.config, decoded.id)
        request = decoded.build(model.version)
        if self._header_pattern is not None:
            request.parameters.update(
                forwarded_headers(self._header_pattern, metadata, self._hidden)
            )
        return request

    def arrival(self, began_ns: int, metadata: Metadata) -> Arrival:
        """Return how a message comes that is waited for since then; 0 where that is not known."""
        now_ns = self.plane.tracer.clock_ns()
        return Arrival(GRPC, began_ns or now_ns, now_ns, metadata)


class InferCall:
    """One ModelInfer call, and the sink of its request."""

    __slots__ = (
        "_began_ns",
        "_classes",
        "_context",
        "_count",
        "_ended",
        "_inflight",
        "_is_waiting",
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
        self._model: PlaneModel | None = None
        self._classes: Mapping[str, int] = {}
        self._response: InferenceResponse | None = None
        self._count = 0
        self._ended = False
        self._is_waiting = False
        tracer = context.plane.tracer
        self._began_ns = tracer.clock_ns() if tracer.is_on else 0

    def message(self, data: bytes | memoryview) -> None:
        """Take the request."""
        if self._ended or self._model is not None:
            self._reply.let_go(len(data))
            return
        context = self._context
        tracer = context.plane.tracer
        arrival = context.arrival(self._began_ns, self._metadata) if tracer.is_on else None
        try:
            decoded = context.decoder.decode(data)
            self._model = model = context.resolve(decoded)
            _refuse_decoupled(model)
            request = context.build(decoded, model, self._metadata)
            request.deadline_us = self._reply.timeout_ns // _NS_PER_US
            self._classes = decoded.classes
            inflight = context.plane.infer(model, request, self, self._metadata, arrival=arrival)
            # Answered within `infer`, the call must not hold what `_end` has let go.
            if not self._ended:
                self._inflight = inflight
        except TritonError as error:
            self._fail_or_wait(error, data)
        except Exception as cause:
            self.fail(fault_of(cause, INFERENCE))

    def _fail_or_wait(self, error: TritonError, data: bytes | memoryview) -> None:
        """End the call, unless its model is loaded by its first use."""
        first_use = None if self._model is not None else self._context.first_use(data, error)
        if first_use is None:
            self.fail(error)
            return
        self._is_waiting = True
        self._context.tasks.spawn("first use of a model", self._begin_after(first_use, data))

    async def _begin_after(self, first_use: Awaitable[None], data: bytes | memoryview) -> None:
        try:
            await first_use
            self.message(data)
        except Exception as error:
            end_with_fault(self, error, INFERENCE)

    def refuse_message(self, first: bytes | memoryview, details: str) -> bool:
        """End with the refusal."""
        del first, details
        return False

    def half_closed(self) -> None:
        """A unary call without a request is an error, as it is in gRPC's own servers."""
        if self._model is None and not (self._ended or self._is_waiting):
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
                classify_outputs(response, self._model, self._classes)
            message = self._context.encoder.encode(response)
        except Exception as cause:
            self.fail(fault_of(cause, INFERENCE))
        else:
            self._end()
            self._reply.complete(message)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """End the call with the error's status."""
        del final
        if not self._ended:
            self._end()
            self._reply.finish(GRPC_STATUS[error.code], error.message, error.retry_after_s)

    def _end(self) -> None:
        self._ended = True
        # Call and request refer to each other; cut here, both are freed without the collector.
        self._inflight = None


def classify_outputs(
    response: InferenceResponse, model: PlaneModel, classes: Mapping[str, int]
) -> None:
    """Put classes in the place of the outputs they are wanted for."""
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


def _refuse_decoupled(model: PlaneModel) -> None:
    if model.config.decoupled:
        raise UnsupportedError(
            "ModelInfer RPC doesn't support models with decoupled transaction policy"
        )
