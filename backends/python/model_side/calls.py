# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Business logic scripting: the calls a model makes to other models.

A call's answers come on a thread of the server and wait in a queue until the model takes them. A
call belongs to the requests whose execution made it: when all of those are cancelled, so is the
call. What fails becomes a response with an error, as in Triton.

Triton: python_backend/src/infer_request.cc Exec, request_executor.cc, pb_response_iterator.cc
"""

import asyncio
import contextlib
import json
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from typing import Any, Final

from backends.api.backend import ExecuteRequest, Pause
from backends.api.errors import TritonError as ApiError
from backends.api.model_caller import Call, ModelCaller
from backends.api.request import InferenceRequest as ApiRequest
from backends.api.request import InferenceResponse as ApiResponse
from backends.api.request import TraceContext
from backends.python.model_side.current_model import CURRENT
from backends.python.model_side.failure import TritonModelException, from_api_error
from backends.python.model_side.response import InferenceResponse
from backends.python.model_side.tensor import Tensor

# How often a call that takes long looks whether anybody still waits for it.
_CANCEL_POLL_S: Final = 0.05

_Answer = tuple[InferenceResponse, bool]

_parents: "ContextVar[Sequence[ExecuteRequest]]" = ContextVar("parents", default=())


def allow_control(caller: ModelCaller | None) -> None:
    """Let the model of this process control the repository from now on."""
    CURRENT.control = caller


def allow_calls(caller: ModelCaller | None, pause: Pause | None = None) -> None:
    """Let the model of this process call models from now on; None forbids it again.

    Args:
        caller: What it calls them with.
        pause: What it waits for them in; see `LoadContext.pause`.
    """
    CURRENT.caller = caller
    CURRENT.pause = pause


def set_parents(requests: Sequence[ExecuteRequest]) -> None:
    """Note the requests that are executed here, and in coroutines started from here."""
    _parents.set(requests)


def log_fields() -> dict[str, str]:
    """Return request id, tenant and trace id of what is executed here, if it is one request."""
    parents = _parents.get()
    if len(parents) != 1:
        return {}
    request = parents[0].request
    trace = request.trace
    return {
        "request_id": request.id,
        "tenant": request.tenant,
        "trace_id": "" if trace is None else trace_id(trace),
    }


def trace_id(trace: TraceContext) -> str:
    """Return the id that a trace's records have: OpenTelemetry's, else the number of the record."""
    if not trace.context:
        return str(trace.id)
    parts = json.loads(trace.context).get("traceparent", "").split("-")
    return str(parts[1]) if len(parts) > 1 else ""


def pins_of_parents(request_id: str) -> dict[str, int] | None:
    """Return the versions that a call made here shall be answered by.

    They are those of the request that is executed. Of several that are executed together, it is the
    one whose id the call has too, else the first.

    Args:
        request_id: Id of the call.
    """
    parents = _parents.get()
    if not parents:
        return None
    for parent in parents if request_id and len(parents) > 1 else ():
        if parent.request.id == request_id:
            return parent.request.pins
    return parents[0].request.pins


def controller() -> ModelCaller:
    """Return what controls the repository.

    Raises:
        TritonModelException: Nothing does: the model does not run in a server.
    """
    if CURRENT.control is None:
        raise TritonModelException("models can only be controlled inside a server")
    return CURRENT.control


def paused() -> "contextlib.AbstractContextManager[None]":
    """Return the context in which the model waits for others."""
    return contextlib.nullcontext() if CURRENT.pause is None else CURRENT.pause()


def paused_for_calls() -> "contextlib.AbstractContextManager[None]":
    """Return the context in which an event loop without anything to do waits."""
    return paused() if CURRENT.awaited else contextlib.nullcontext()


def execute(request: ApiRequest) -> InferenceResponse:
    """Call a model and wait for its response."""
    parents = _parents.get()
    sink = _QueueSink()
    call = _call(request, sink, decoupled=False)
    first, final = _take(sink.answers, call, parents)
    while not final:
        _, final = _take(sink.answers, call, parents)
    return first


def execute_decoupled(request: ApiRequest) -> "ResponseIterator":
    """Call a model that may answer any number of times."""
    sink = _QueueSink()
    call = _call(request, sink, decoupled=True)
    return ResponseIterator(sink.answers, call, _parents.get())


def execute_async(request: ApiRequest, *, decoupled: bool) -> "asyncio.Future[Any]":
    """Call a model at once; the future is done with the response, or with the first of several."""
    loop = asyncio.get_running_loop()
    parents = _parents.get()
    future: asyncio.Future[Any] = loop.create_future()
    sink = _LoopSink(loop, future, keeps_open=decoupled)
    call = _call(request, sink, decoupled=decoupled)
    if decoupled:
        sink.iterator = ResponseIterator(sink.answers, call, parents)

    def poll() -> None:
        if future.done():
            return
        if all(parent.is_cancelled for parent in parents):
            call.cancel()
        else:
            loop.call_later(_CANCEL_POLL_S, poll)

    if parents:
        loop.call_later(_CANCEL_POLL_S, poll)
    future.add_done_callback(lambda done: call.cancel() if done.cancelled() else None)
    if CURRENT.pause is not None:
        CURRENT.awaited.add(future)
        future.add_done_callback(CURRENT.awaited.discard)
    return future


def _call(request: ApiRequest, sink: "_QueueSink", *, decoupled: bool) -> Call:
    if CURRENT.caller is None:
        raise TritonModelException("BLS is only supported during the 'execute' function.")
    parents = _parents.get()
    if parents:
        # A batch of several tenants calls for nobody in particular.
        first = parents[0].request
        if first.tenant and all(each.request.tenant == first.tenant for each in parents):
            request.tenant, request.weight = first.tenant, first.weight
    return CURRENT.caller.call(request, sink, decoupled=decoupled)


def _take(
    answers: "SimpleQueue[_Answer]", call: Call, parents: Sequence[ExecuteRequest]
) -> _Answer:
    """Wait for the next answer; meanwhile look whether anybody still waits for the result."""
    if CURRENT.pause is not None and answers.empty():
        with CURRENT.pause():
            return _wait(answers, call, parents)
    return _wait(answers, call, parents)


def _wait(
    answers: "SimpleQueue[_Answer]", call: Call, parents: Sequence[ExecuteRequest]
) -> _Answer:
    if not parents:
        return answers.get()
    while True:
        try:
            return answers.get(timeout=_CANCEL_POLL_S)
        except Empty:
            if all(parent.is_cancelled for parent in parents):
                call.cancel()


def _from_wire(response: ApiResponse | None) -> InferenceResponse:
    if response is None:
        # The end of a stream is an answer without tensors, as models expect it.
        return InferenceResponse()
    tensors = [Tensor.from_wire(output) for output in response.outputs]
    return InferenceResponse(tensors, parameters=response.parameters)


class _QueueSink:
    """Keeps the answers of a call for whoever takes them."""

    __slots__ = ("answers",)

    def __init__(self) -> None:
        self.answers: SimpleQueue[_Answer] = SimpleQueue()

    def respond(self, response: ApiResponse | None, *, final: bool) -> None:
        self.answers.put((_from_wire(response), final))

    def fail(self, error: ApiError, *, final: bool = True) -> None:
        self.answers.put((InferenceResponse(error=from_api_error(error)), final))


class _LoopSink(_QueueSink):
    """Wakes the model's event loop: with the only answer, or with the first of several."""

    __slots__ = ("_future", "_is_told", "_keeps_open", "_loop", "iterator")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", *, keeps_open: bool
    ) -> None:
        super().__init__()
        self._loop = loop
        self._future = future
        self._keeps_open = keeps_open
        self._is_told = False
        self.iterator: ResponseIterator | None = None

    def respond(self, response: ApiResponse | None, *, final: bool) -> None:
        super().respond(response, final=final)
        if final or self._keeps_open:
            self._tell()

    def fail(self, error: ApiError, *, final: bool = True) -> None:
        super().fail(error, final=final)
        if final or self._keeps_open:
            self._tell()

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            # The model may have closed its loop without waiting for the answer.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._done)

    def _done(self) -> None:
        if not self._future.done():
            iterator, self.iterator = self.iterator, None
            self._future.set_result(iterator or self.answers.get_nowait()[0])


class ResponseIterator:
    """The responses of one call, in the order they come; may be gone through again afterwards."""

    __module__ = "c_python_backend_utils"
    __slots__ = ("_answers", "_call", "_index", "_is_finished", "_parents", "_taken")

    def __init__(
        self,
        answers: "SimpleQueue[_Answer]",
        call: Call,
        parents: Sequence[ExecuteRequest],
    ) -> None:
        self._answers = answers
        self._call = call
        self._parents = parents
        self._taken: list[InferenceResponse] = []
        self._index = 0
        self._is_finished = False

    def __iter__(self) -> Iterator[InferenceResponse]:
        if self._is_finished and self._index >= len(self._taken):
            self._index = 0
        return self

    def __next__(self) -> InferenceResponse:
        """Wait for the next response; the last one may be empty."""
        if self._index < len(self._taken):
            self._index += 1
            return self._taken[self._index - 1]
        if self._is_finished:
            raise StopIteration
        response, self._is_finished = _take(self._answers, self._call, self._parents)
        if self._is_finished:
            self._parents = ()
        self._taken.append(response)
        self._index += 1
        return response

    def cancel(self) -> None:
        """Ask for the call to be dropped; what has come, and its end, can still be taken."""
        if not self._is_finished:
            self._call.cancel()

    def __del__(self) -> None:
        # Nobody can take the rest.
        if not getattr(self, "_is_finished", True):
            self._call.cancel()
