# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""pb_utils.InferenceResponse and its sender.

Triton: python_backend/src/infer_response.cc, response_sender.cc
"""

import gc
import itertools
import json
import logging
import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from queue import SimpleQueue
from typing import Any

from backends.api.backend import ExecuteRequest
from backends.api.errors import InternalError, RequestCancelledError
from backends.api.errors import TritonError as ApiError
from backends.api.request import InferenceResponse as ApiResponse
from backends.api.request import Tensor as WireTensor
from backends.python.model_side.failure import TritonError, TritonModelException, to_api_error
from backends.python.model_side.tensor import Tensor

logger = logging.getLogger(__name__)

COMPLETE_FINAL = 1

# How often the wait for a model's answer looks whether anybody can still give or take it.
_LOOK_S = 0.05
_LOOKS_PER_COLLECTION = 20


class InferenceResponse:
    """One response of a model.

    Args:
        output_tensors: Outputs; those nobody asked for are dropped.
        error: Makes this an error; outputs are ignored then.
        parameters: Response parameters: bool, int or str by name.
    """

    __module__ = "c_python_backend_utils"
    __slots__ = ("_error", "_parameters", "_tensors")

    def __init__(
        self,
        output_tensors: Sequence[Any] = (),
        error: TritonError | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        for tensor in output_tensors:
            if not isinstance(tensor, Tensor):
                if tensor is None:
                    raise TritonModelException(
                        "Output tensor for inference response should not be empty."
                    )
                raise TypeError(
                    "InferenceResponse takes a list of pb_utils.Tensor, found type "
                    f"'{type(tensor)}' in it"
                )
        if error is not None and not isinstance(error, TritonError):
            raise TypeError(
                f"InferenceResponse takes a pb_utils.TritonError as error, got '{type(error)}'"
            )
        self._tensors = output_tensors
        self._error = error
        self._parameters = checked_parameters(parameters) if parameters is not None else {}

    def output_tensors(self) -> list[Tensor]:
        """Return the outputs."""
        return list(self._tensors)

    def has_error(self) -> bool:
        """Whether this is an error."""
        return self._error is not None

    def error(self) -> TritonError | None:
        """Return the error, if any."""
        return self._error

    def parameters(self) -> str:
        """Return the parameters as JSON."""
        return json.dumps(self._parameters)


def checked_parameters(parameters: Any) -> dict[str, Any]:
    """Return a copy of request or response parameters.

    Raises:
        TritonModelException: They are no dict of bool, int or str by str.
    """
    if not isinstance(parameters, Mapping):
        raise TritonModelException(f"parameters must be a dict, got {type(parameters)}")
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException(
                f"Expect parameters keys to have type str, found type {type(key)}"
            )
        if not isinstance(value, bool | int | str):
            raise TritonModelException(
                f"Expect parameters values to have type bool/int/str, found type {type(value)}"
            )
    return dict(parameters)


class ResponseWriter:
    """Turns responses of one model into those of the server.

    Args:
        model_name: Name in responses.
        model_version: Version in responses.
        outputs: Names of all outputs in the config; others cannot be asked for.
        states: Names of the outputs a sequence keeps, asked for or not.
        declared: Datatype and shape of outputs by name, as configured; -1 is any length.
    """

    __slots__ = ("_model_name", "_model_version", "_states", "_unseen", "output_names")

    def __init__(
        self,
        model_name: str,
        model_version: str,
        outputs: Sequence[str],
        states: Sequence[str] = (),
        declared: Mapping[str, tuple[str, tuple[int, ...]]] | None = None,
    ) -> None:
        self._model_name = model_name
        # Those that no response has had yet: the first one is looked at.
        self._unseen = dict(declared or {})
        self._states = frozenset(states)
        self._model_version = model_version
        self.output_names = frozenset(outputs)

    def write(
        self,
        execute_request: ExecuteRequest,
        response: InferenceResponse,
        *,
        final: bool,
        inputs: Sequence[Tensor] = (),
    ) -> None:
        """Answer a request; a response that cannot be written answers it with an error.

        Args:
            execute_request: The request.
            response: What the model made.
            final: Whether it is the last one.
            inputs: The request's, where the model has read any; outputs may be their arrays.
        """
        error = response._error  # noqa: SLF001 - read for every request, and of the same module
        if error is not None:
            _fail(execute_request, to_api_error(error), final=final)
            return
        request = execute_request.request
        wanted: Collection[str] = request.outputs or self.output_names
        if self._states:
            wanted = self._states.union(wanted)
        try:
            outputs = [
                tensor.to_wire(inputs)
                for tensor in response._tensors  # noqa: SLF001 - as above
                if tensor._name in wanted  # noqa: SLF001 - as above
            ]
        except Exception as unwritable:
            reason = f"model '{self._model_name}' sent an output that cannot be written: "
            _fail(execute_request, InternalError(f"{reason}{unwritable}"), final=final)
            return
        if self._unseen:
            self._compare(outputs)
        execute_request.respond(
            ApiResponse(
                self._model_name,
                self._model_version,
                request.id,
                outputs,
                response._parameters,  # noqa: SLF001 - as above
            ),
            final=final,
        )

    def _compare(self, outputs: Sequence[WireTensor]) -> None:
        """Warn of outputs that are not as configured; Triton answers with what the model made."""
        for output in outputs:
            datatype, shape = self._unseen.pop(output.name, (output.datatype, output.shape))
            is_alike = len(shape) == len(output.shape) and all(
                wanted in {-1, given} for wanted, given in zip(shape, output.shape, strict=True)
            )
            if datatype != output.datatype or not is_alike:
                logger.warning(
                    "model '%s' answers output '%s' with %s%s, but its config says %s%s: correct"
                    " one of them; clients get what the model made",
                    self._model_name,
                    output.name,
                    output.datatype,
                    list(output.shape),
                    datatype,
                    list(shape),
                )


def _fail(execute_request: ExecuteRequest, error: ApiError, *, final: bool) -> None:
    if final:
        execute_request.fail(error)
    else:
        execute_request.fail(error, final=False)


class InferenceResponseSender:
    """Sends the responses of one request, from any thread, also after execute returned.

    A model that is not decoupled sends exactly one response; it is held back until the model
    closes the sender. A sender that is dropped unclosed closes itself, so that no client waits
    for a response that cannot come.
    """

    __slots__ = (
        "__weakref__",
        "_closed",
        "_decoupled",
        "_held",
        "_lock",
        "_request",
        "_writer",
        "finished",
    )

    def __init__(self, request: ExecuteRequest, writer: ResponseWriter, *, decoupled: bool) -> None:
        self._request = request
        self._writer = writer
        self._decoupled = decoupled
        self._held: InferenceResponse | None = None
        self._closed = False
        self._lock = threading.Lock()
        _start_closer()
        # Set when the request is answered.
        self.finished = threading.Event()

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        """Send a response, close the sender, or both.

        Args:
            response: The response; None only with the final flag.
            flags: 0 or TRITONSERVER_RESPONSE_COMPLETE_FINAL.

        Raises:
            TritonModelException: The sender is closed, or the combination is not allowed.
        """
        if response is not None and not isinstance(response, InferenceResponse):
            raise TypeError(f"send takes a pb_utils.InferenceResponse, got '{type(response)}'")
        with self._lock:
            self._check(response, flags)
            if self._decoupled:
                self._send_decoupled(response, final=flags == COMPLETE_FINAL)
            else:
                self._send_only(response, final=flags == COMPLETE_FINAL)

    def is_cancelled(self) -> bool:
        """Whether the client has gone or cancelled."""
        return self._request.is_cancelled

    def finish(self, response: InferenceResponse) -> None:
        """Close the sender with a response, unless the model already answered through it."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._writer.write(self._request, self._held or response, final=True)
                self.finished.set()

    def abandon(self, error: ApiError) -> None:
        """Close the sender with an error, unless the model closed it."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._request.fail(error)
                self.finished.set()

    def let_go(self) -> bool:
        """Close the sender and leave the request unanswered; False when it was answered."""
        with self._lock:
            was_open, self._closed = not self._closed, True
        return was_open

    def awaited(self) -> "AwaitedAnswer":
        """Return what waits for the answer and lets the model drop the sender meanwhile."""
        return AwaitedAnswer(self.finished, weakref.ref(self), self._request)

    def _check(self, response: InferenceResponse | None, flags: int) -> None:
        if self._closed:
            raise TritonModelException("Unable to send response. Response sender has been closed.")
        if flags not in {0, COMPLETE_FINAL}:
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if response is None and flags == 0:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        if self._decoupled:
            return
        if response is not None and self._held is not None:
            raise TritonModelException(
                "Unable to send response. Non-decoupled model cannot send more than one response."
            )
        if response is None and self._held is None:
            raise TritonModelException(
                "Unable to send response. Non-decoupled model cannot send complete final before "
                "sending a response."
            )

    def _send_decoupled(self, response: InferenceResponse | None, *, final: bool) -> None:
        self._closed = final
        if response is None:
            self._request.respond(None)
        else:
            self._writer.write(self._request, response, final=final)
        if final:
            self.finished.set()

    def _send_only(self, response: InferenceResponse | None, *, final: bool) -> None:
        if response is not None:
            self._held = response
        if final and self._held is not None:
            self._closed = True
            self._writer.write(self._request, self._held, final=True)
            self.finished.set()

    def __del__(self) -> None:
        # The garbage collector may come by inside any lock of the server, so that nothing may be
        # answered from here; put is the one call that may be made.
        if not getattr(self, "_closed", True):
            _dropped.put((self._request, self._writer, self._held, self._decoupled, self.finished))


class AwaitedAnswer:
    """The answer of a model that is not decoupled and has not closed its sender yet."""

    __slots__ = ("_finished", "_request", "_sender")

    def __init__(
        self,
        finished: threading.Event,
        sender: "weakref.ref[InferenceResponseSender]",
        request: ExecuteRequest,
    ) -> None:
        self._finished = finished
        self._sender = sender
        self._request = request

    def wait(self) -> None:
        """Wait until the request is answered; it fails when nobody waits for it any more."""
        for look in itertools.count():
            if self._finished.wait(_LOOK_S):
                return
            sender = self._sender()
            if sender is not None and self._request.is_cancelled:
                sender.abandon(RequestCancelledError(""))
            elif look % _LOOKS_PER_COLLECTION == 0:
                # A sender that was dropped within a cycle closes itself only when it is found.
                sender = None
                gc.collect()


_Dropped = tuple[ExecuteRequest, ResponseWriter, InferenceResponse | None, bool, threading.Event]
_dropped: "SimpleQueue[_Dropped]" = SimpleQueue()


@cache
def _start_closer() -> None:
    threading.Thread(target=_close_dropped, name="dropped-senders", daemon=True).start()


def _close_dropped() -> None:
    """Answer requests whose senders were dropped unclosed, for as long as the process lives."""
    while True:
        request, writer, held, decoupled, finished = _dropped.get()
        logger.warning(
            "a Python model dropped a response sender without TRITONSERVER_RESPONSE_COMPLETE_FINAL"
        )
        try:
            if held is not None:
                writer.write(request, held, final=True)
            elif decoupled:
                request.respond(None)
            else:
                request.fail(
                    InternalError(
                        "the model dropped its response sender without sending a response; send "
                        "one with flags=TRITONSERVER_RESPONSE_COMPLETE_FINAL"
                    )
                )
        except ApiError as refused:
            logger.warning("a request whose sender was dropped had its answer: %s", refused)
        finished.set()
        # Until the next one comes, nothing of this one may be kept alive.
        del request, writer, held, finished
