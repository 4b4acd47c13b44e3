# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""pb_utils.InferenceRequest: as a model receives it, and as it builds one to call a model.

Triton: python_backend/src/infer_request.cc
"""

import json
from collections.abc import Awaitable, Sequence
from typing import Any

from backends.api.backend import ExecuteRequest
from backends.api.request import InferenceRequest as ApiRequest
from backends.api.request import TraceContext
from backends.python.model_side import calls
from backends.python.model_side.failure import NumberedEnum, TritonModelException
from backends.python.model_side.response import (
    InferenceResponse,
    InferenceResponseSender,
    ResponseWriter,
    checked_parameters,
)
from backends.python.model_side.tensor import Tensor

RELEASE_ALL = 1
RELEASE_RESCHEDULE = 2


class MemoryType(NumberedEnum):
    """Where a tensor lies."""

    TRITONSERVER_MEMORY_GPU = 0
    TRITONSERVER_MEMORY_CPU = 1


class PreferredMemory:
    """Where a caller wants outputs of a model it calls."""

    __slots__ = ("preferred_device_id", "preferred_memory_type")

    def __init__(self, preferred_memory_type: MemoryType, preferred_device_id: int = 0) -> None:
        self.preferred_memory_type = preferred_memory_type
        self.preferred_device_id = preferred_device_id


class InferenceTrace:
    """The trace a request belongs to."""

    __slots__ = ("_context", "joined")

    def __init__(self, context: str | None = None, joined: TraceContext | None = None) -> None:
        self._context = context
        # What a request that is made with this trace belongs to.
        self.joined = joined

    def get_context(self) -> str | None:
        """Return the propagation context as JSON, or None when the request is not traced."""
        return self._context


_CPU = PreferredMemory(MemoryType.TRITONSERVER_MEMORY_CPU)
_NO_TRACE = InferenceTrace()


class InferenceRequest:
    """A request to a model.

    Args:
        request_id: The caller's id of the request.
        correlation_id: Sequence id.
        inputs: Input tensors.
        requested_output_names: Outputs wanted.
        model_name: Model to call.
        model_version: Version; -1 lets the version policy choose.
        flags: TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, _END or both.
        timeout: Microseconds; 0 means none.
        preferred_memory: Where outputs shall lie.
        trace: Trace to join.
        parameters: bool, int or str by name.
    """

    __module__ = "c_python_backend_utils"
    __slots__ = (
        "_correlation_id",
        "_flags",
        "_inputs",
        "_model_name",
        "_model_version",
        "_parameters",
        "_preferred_memory",
        "_request_id",
        "_requested",
        "_timeout",
        "_trace",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - Triton's signature
        self,
        request_id: str = "",
        correlation_id: int | str = 0,
        inputs: Sequence[Tensor] = (),
        requested_output_names: Sequence[str] = (),
        model_name: str = "",
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: PreferredMemory = _CPU,
        trace: InferenceTrace = _NO_TRACE,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(correlation_id, int | str):
            raise TritonModelException("Correlation ID must be integer or string")
        for name, number in (
            ("correlation_id", correlation_id),
            ("flags", flags),
            ("timeout", timeout),
        ):
            if not isinstance(number, str) and number < 0:
                raise TypeError(f"InferenceRequest takes a {name} of at least 0, got {number}")
        self._request_id = _text(request_id)
        self._correlation_id = correlation_id
        self._inputs: list[Tensor] | None = list(inputs)
        self._requested = tuple(map(_text, requested_output_names))
        self._model_name = _text(model_name)
        subject = f"for request with id '{self._request_id}' and model name '{self._model_name}'"
        if any(tensor is None for tensor in self._inputs):
            raise TritonModelException(f"Input tensor {subject} should not be empty.")
        if "" in self._requested:
            raise TritonModelException(f"Requested output name {subject} should not be empty.")
        self._model_version = model_version
        self._flags = flags
        self._timeout = timeout
        self._preferred_memory = preferred_memory
        self._trace = trace
        self._parameters = checked_parameters(parameters) if parameters is not None else {}

    def inputs(self) -> list[Tensor]:
        """Return the inputs."""
        return self._inputs or []

    def request_id(self) -> str:
        """Return the caller's id of the request; empty when none."""
        return self._request_id

    def correlation_id(self) -> int | str:
        """Return the sequence id; 0 or empty when none."""
        return self._correlation_id

    def flags(self) -> int:
        """Return the sequence flags."""
        return self._flags

    def set_flags(self, flags: int) -> None:
        """Set the sequence flags."""
        self._flags = flags

    def timeout(self) -> int:
        """Return the timeout in microseconds; 0 when none."""
        return self._timeout

    def parameters(self) -> str:
        """Return the parameters as JSON."""
        return json.dumps(self._parameters)

    def preferred_memory(self) -> PreferredMemory:
        """Return where outputs shall lie."""
        return self._preferred_memory

    def trace(self) -> InferenceTrace:
        """Return the trace."""
        return self._trace

    def requested_output_names(self) -> set[str]:
        """Return the names of the outputs wanted."""
        return set(self._requested)

    def is_cancelled(self) -> bool:
        """Whether the client has gone or cancelled."""
        return False

    def set_release_flags(self, flags: int) -> None:
        """Choose what happens to the request after execute.

        Raises:
            TritonModelException: The request was not received by execute.
        """
        raise TritonModelException(
            "set_release_flags works on a request that execute received, not on one the model made"
        )

    def get_response_sender(self) -> InferenceResponseSender:
        """Return the sender of the request's responses.

        Raises:
            TritonModelException: The request was not received by execute.
        """
        raise TritonModelException(
            "get_response_sender works on a request that execute received, not on one the model "
            "made"
        )

    def exec(self, decoupled: bool = False) -> "InferenceResponse | calls.ResponseIterator":
        """Call the model this request is for and wait.

        Args:
            decoupled: Return an iterator over any number of responses.

        Raises:
            TritonModelException: The model is not executing. Every other error is a response.
        """
        request = self._to_api()
        return calls.execute_decoupled(request) if decoupled else calls.execute(request)

    def async_exec(self, decoupled: bool = False) -> Awaitable[Any]:
        """Call the model this request is for now; the result is awaited.

        Raises:
            TritonModelException: As `exec`.
        """
        return calls.execute_async(self._to_api(), decoupled=decoupled)

    def _to_api(self) -> ApiRequest:
        return ApiRequest(
            self._model_name,
            self._model_version,
            self._request_id,
            [tensor.to_wire() for tensor in self.inputs()],
            list(self._requested),
            dict(self._parameters),
            timeout_us=self._timeout,
            correlation_id=self._correlation_id,
            flags=self._flags,
            trace=self._trace.joined,
            pins=calls.pins_of_parents(self._request_id),
        )


def _text(value: str | bytes) -> str:
    # Models pass on what they read from BYTES tensors.
    return value.decode() if isinstance(value, bytes) else value


class ReceivedRequest(InferenceRequest):
    """A request that execute received; everything is read from it when asked for."""

    __module__ = "c_python_backend_utils"
    __slots__ = ("_decoupled", "_execute_request", "_is_rescheduled", "_sender", "_writer")

    def __init__(
        self, execute_request: ExecuteRequest, writer: ResponseWriter, *, decoupled: bool
    ) -> None:
        # Fields of the base class stay unset: methods below read the request itself.
        self._execute_request = execute_request
        self._writer = writer
        self._decoupled = decoupled
        self._is_rescheduled = False
        self._inputs = None
        # A decoupled model may ask for the sender at any time, so it lives with the request.
        self._sender = (
            InferenceResponseSender(execute_request, writer, decoupled=True) if decoupled else None
        )

    def inputs(self) -> list[Tensor]:
        """Return the inputs."""
        inputs = self._inputs
        if inputs is None:
            inputs = self._inputs = [*map(Tensor.from_wire, self._execute_request.request.inputs)]
        return inputs

    def request_id(self) -> str:
        """Return the client's id of the request; empty when none."""
        return self._execute_request.request.id

    def correlation_id(self) -> int | str:
        """Return the sequence id; 0 or empty when none."""
        return self._execute_request.request.correlation_id

    def flags(self) -> int:
        """Return the sequence flags."""
        return self._execute_request.request.flags

    def set_flags(self, flags: int) -> None:
        """Set the sequence flags."""
        self._execute_request.request.flags = flags

    def timeout(self) -> int:
        """Return the client's timeout in microseconds; 0 when none."""
        return self._execute_request.request.timeout_us

    def parameters(self) -> str:
        """Return the custom parameters as JSON."""
        return json.dumps(self._execute_request.request.parameters)

    def preferred_memory(self) -> PreferredMemory:
        """Return where outputs shall lie: in host memory."""
        return _CPU

    def trace(self) -> InferenceTrace:
        """Return the trace; it has a context in OpenTelemetry mode only."""
        trace = self._execute_request.request.trace
        return _NO_TRACE if trace is None else InferenceTrace(trace.context or None, trace)

    def requested_output_names(self) -> set[str]:
        """Return the names of the outputs wanted; all when the client named none."""
        return set(self._execute_request.request.outputs or self._writer.output_names)

    def is_cancelled(self) -> bool:
        """Whether the client has gone or cancelled."""
        return self._execute_request.is_cancelled

    def set_release_flags(self, flags: int) -> None:
        """Choose what happens to the request after execute: it ends, or is executed once more."""
        self._is_rescheduled = bool(flags & RELEASE_RESCHEDULE)

    def get_response_sender(self) -> InferenceResponseSender:
        """Return the sender of the request's responses, the same one each time."""
        if self._sender is None:
            self._sender = InferenceResponseSender(
                self._execute_request, self._writer, decoupled=False
            )
        return self._sender

    @property
    def execute_request(self) -> ExecuteRequest:
        """The server's side of the request."""
        return self._execute_request

    @property
    def sender(self) -> InferenceResponseSender | None:
        """The sender, if there is one."""
        return self._sender

    @property
    def is_rescheduled(self) -> bool:
        """Whether the model wants it executed once more."""
        return self._is_rescheduled

    def reschedule(self) -> None:
        """Hand the request back to be executed once more; its next sender is another one."""
        if self._sender is None or self._sender.let_go():
            self._execute_request.reschedule()

    def answer(self, response: InferenceResponse) -> None:
        """Answer with the response execute returned, unless the sender already did."""
        if self._sender is not None:
            self._sender.finish(response)
        else:
            self._writer.write(
                self._execute_request, response, final=True, inputs=self._inputs or ()
            )
