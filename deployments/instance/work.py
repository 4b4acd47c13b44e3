# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request between lane and model: what schedulers order, what backends answer.

One object serves as both, because a request should cost one allocation. Models that are not
decoupled answer within ``execute``; their outcome stays with the request until the batch is done.
Responses of decoupled models go out as they come, from any thread.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
)
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceResponse, Tensor
from deployments.lane.server_request import ServerRequest
from deployments.scheduling.request_terms import RequestTerms
from deployments.scheduling.sequence_controls import SequenceStates
from deployments.scheduling.shape_buckets import Lengths, ShapeBuckets
from deployments.scheduling.signature import Signature

if TYPE_CHECKING:
    from deployments.instance.settlement import Settlement

_log = logging.getLogger(__name__)

Outcome = InferenceResponse | TritonError | None


class ExecutedModel:
    """What every request of one model version shares.

    Args:
        config: The complete config.
        version: Version number.
        signature: What requests must agree on to be batched; None compares nothing.
        buckets: What inputs are padded to; None pads nothing.
    """

    def __init__(
        self,
        config: ModelConfig,
        version: int,
        signature: Signature | None,
        buckets: ShapeBuckets | None = None,
    ) -> None:
        self._config = config
        self.name = config.name
        self.version = str(version)
        self.is_batching = config.max_batch_size > 0
        sequences = config.sequence_batching
        self.is_iterative = sequences is not None and sequences.iterative
        self.signature = signature
        self.buckets = buckets
        self._reshapes = {
            output.name: (output.reshape, output.dims)
            for output in config.output
            if output.reshape is not None
        }

    def without_signature(self) -> "ExecutedModel":
        """Return the same model for requests that were batched elsewhere."""
        return ExecutedModel(self._config, int(self.version), None, self.buckets)

    def finish(self, response: InferenceResponse, work: "Work") -> None:
        """Fill in what no backend should have to care about.

        Names the model, echoes the id, keeps the states of a sequence, leaves out outputs nobody
        asked for and gives outputs with a ``reshape`` the shape ``[batch, *dims]`` the config
        promises.
        """
        request = work.request
        if work.states is not None:
            work.states.take(response)
        response.model_name = self.name
        response.model_version = self.version
        response.id = request.id
        wanted = request.outputs
        if wanted and len(response.outputs) > len(wanted):
            response.outputs = [output for output in response.outputs if output.name in wanted]
        if self.buckets is not None:
            self.buckets.unpad(response, work.lengths)
        if self._reshapes:
            response.outputs = [self._reshaped(output) for output in response.outputs]

    def _reshaped(self, output: Tensor) -> Tensor:
        reshape = self._reshapes.get(output.name)
        if reshape is None:
            return output
        model_dims, client_dims = reshape
        lead = 1 if self.is_batching else 0
        given = output.shape[lead:]
        if len(given) != len(model_dims):
            return output
        # The n-th variable dimension of one shape is the n-th of the other.
        sizes = iter([size for size, dim in zip(given, model_dims, strict=True) if dim < 0])
        dims = tuple(next(sizes, 1) if dim < 0 else dim for dim in client_dims)
        return Tensor(output.name, output.datatype, output.shape[:lead] + dims, output.data)


class Work(RequestTerms):
    """One request in an executor; implements what schedulers and backends ask of it.

    Attributes:
        states: What its sequence carries along; None when nothing.
        is_rescheduled: Whether it is to be executed once more.
        lengths: Of inputs with shape buckets; set only where the model has some.
    """

    __slots__ = (
        "batch_size",
        "enqueue_ns",
        "is_closed",
        "is_rescheduled",
        "lane",
        "lengths",
        "model",
        "request",
        "signature",
        "states",
    )

    lengths: Lengths

    def __init__(self, model: ExecutedModel, lane: ServerRequest, enqueue_ns: int) -> None:
        request = lane.request
        self.model = model
        self.lane = lane
        self.request = request
        self.enqueue_ns = enqueue_ns
        self.is_closed = False
        self.is_rescheduled = False
        self.states: SequenceStates | None = None
        self.batch_size = 1
        if model.is_batching and request.inputs:
            shape = request.inputs[0].shape
            if shape:
                self.batch_size = max(1, shape[0])
        signature = model.signature
        self.signature = None if signature is None else signature(request)

    @property
    def is_cancelled(self) -> bool:
        """Whether the client has gone or cancelled."""
        return self.lane.is_cancelled

    def reschedule(self) -> None:
        """Have the request executed once more after this execution."""
        self.is_rescheduled = True

    def refusal(self, error: TritonError | None) -> TritonError | None:
        """Return what ends a rescheduled request after all; None lets it go on.

        Args:
            error: What its execution failed with.
        """
        if self.model.is_iterative:
            return error
        return error or InvalidArgumentError(
            "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is "
            "not configured to handle such a flag."
        )


class UnaryWork(Work):
    """A request of a model that answers each request once, within ``execute``."""

    __slots__ = ("outcome",)

    def __init__(self, model: ExecutedModel, lane: ServerRequest, enqueue_ns: int) -> None:
        super().__init__(model, lane, enqueue_ns)
        self.outcome: Outcome = None

    def respond(self, response: InferenceResponse | None, *, final: bool = True) -> None:
        """Keep the response until the batch is done.

        Raises:
            InternalError: The request has its response, or its execution is over.
        """
        if self.is_closed or (response is not None and self.outcome is not None):
            raise self._refuse()
        if response is not None:
            self.model.finish(response, self)
            self.outcome = response
        if final:
            self.close(None)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Keep the error until the batch is done; it is final however it is given.

        Raises:
            InternalError: The request has its response, or its execution is over.
        """
        del final
        if self.is_closed:
            raise self._refuse()
        self.outcome = error
        self.is_closed = True

    def close(self, error: TritonError | None) -> Outcome:
        """Take no more answers and return the outcome; without one, that is an error."""
        if not self.is_closed:
            self.is_closed = True
            if error is not None:
                self.outcome = error
            elif self.outcome is None:
                self.outcome = InternalError(
                    f"model '{self.model.name}' sent no response to a request; a model that is not "
                    "decoupled must answer every request before execute returns"
                )
        return self.outcome

    def _refuse(self) -> InternalError:
        message = (
            f"model '{self.model.name}' sent more than one response to a request, or sent it after "
            "execute returned; set model_transaction_policy { decoupled: true } to allow that"
        )
        self.outcome = InternalError(message)
        self.is_closed = True
        # Another object than the one kept: once raised, it refers to the batch by its traceback.
        return InternalError(message)


class StreamWork(Work):
    """A request of a decoupled model.

    Attributes:
        error: The last error it was answered with, if any.
        response_count: Responses so far.
        started_ns: When its execution began.
    """

    __slots__ = ("_settlement", "error", "response_count", "started_ns")

    def __init__(
        self, settlement: "Settlement", model: ExecutedModel, lane: ServerRequest, enqueue_ns: int
    ) -> None:
        super().__init__(model, lane, enqueue_ns)
        self._settlement = settlement
        self.error: TritonError | None = None
        self.response_count = 0
        self.started_ns = enqueue_ns

    def respond(self, response: InferenceResponse | None, *, final: bool = True) -> None:
        """Send a response at once.

        Raises:
            InternalError: The request already had its final response.
        """
        if response is not None:
            self.model.finish(response, self)
            if self.request.window:
                self._settlement.await_credit(self)
        elif not final:
            return
        self._settlement.stream(self, response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Send an error at once; with final=False the model may go on.

        Raises:
            InternalError: The request already had its final response.
        """
        self._settlement.stream(self, error, final=final)


def bounce(requests: Sequence[ServerRequest]) -> None:
    """Have requests that nothing is noted of sent by way of their pool's queue."""
    for request in requests:
        request.bounce()
