# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The requests an ensemble's run sends to its steps, and how many of them there may be.

Triton: core/src/ensemble_scheduler/ensemble_scheduler.cc @73aad7c
"""

from collections import deque
from typing import Protocol

from backends.api.errors import InvalidArgumentError, TritonError
from backends.api.request import (
    SEQUENCE_END,
    SEQUENCE_START,
    InferenceRequest,
    InferenceResponse,
    ParameterValue,
)
from deployments.scheduling.ensemble_graph import Step
from deployments.seams import Inflight, ResponseSink

# Sequence id and flags that travel with a tensor; None for the ensemble's own inputs.
Origin = tuple[int | str, int] | None


class StepRunner(Protocol):
    """Sends a step's request to the step's model."""

    def __call__(self, step: Step, request: InferenceRequest, sink: ResponseSink, /) -> Inflight:
        """Send it.

        Raises:
            TritonError: The request does not fit the model; the sink hears nothing.
        """


class StepOwner(Protocol):
    """The run a step request belongs to."""

    runner: StepRunner

    def step_responded(
        self, sink: "StepSink", response: InferenceResponse | None, *, final: bool
    ) -> None:
        """Take a response."""

    def step_failed(self, sink: "StepSink", error: TritonError, *, final: bool) -> None:
        """Take an error."""


class StepLimits:
    """Bounds the requests in flight of each step, over all requests of an ensemble.

    Args:
        limit: ``max_inflight_requests``; 0 for no limit.
    """

    __slots__ = ("_inflight", "_waiting", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._inflight: dict[int, int] = {}
        self._waiting: dict[int, deque[StepSink]] = {}

    def admit(self, sink: "StepSink") -> bool:
        """Count a step request in, or keep it until `release` lets it go."""
        index = sink.step.index
        if self._inflight.get(index, 0) >= self.limit:
            self._waiting.setdefault(index, deque()).append(sink)
            return False
        self._inflight[index] = self._inflight.get(index, 0) + 1
        return True

    def release(self, sink: "StepSink") -> None:
        """Count a step request out and send the next one that waits."""
        index = sink.step.index
        self._inflight[index] -= 1
        waiting = self._waiting.get(index)
        if waiting:
            following = waiting.popleft()
            self._inflight[index] += 1
            following.send()

    def withdraw(self, sink: "StepSink") -> bool:
        """Take back a step request that waits; False when it does not."""
        waiting = self._waiting.get(sink.step.index)
        if not waiting or sink not in waiting:
            return False
        waiting.remove(sink)
        return True


class StepSink:
    """Takes the outcome of one step request.

    Attributes:
        step: The step.
        request: What is sent.
        inflight: The handle to cancel it, once it was sent.
    """

    __slots__ = ("_run", "inflight", "is_admitted", "iteration", "origin", "request", "step")

    def __init__(
        self,
        run: "StepOwner",
        step: Step,
        iteration: int,
        request: InferenceRequest,
    ) -> None:
        self._run = run
        self.step = step
        self.iteration = iteration
        self.request = request
        self.origin = (request.correlation_id, request.flags)
        self.inflight: Inflight | None = None
        self.is_admitted = False

    def send(self) -> None:
        """Send the request; an error is its outcome."""
        self.is_admitted = True
        try:
            self.inflight = self._run.runner(self.step, self.request, self)
        except TritonError as error:
            self.fail(error)

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response of the step."""
        self._run.step_responded(self, response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take the step's error."""
        self._run.step_failed(self, error, final=final)


def sequence_of(
    parameters: dict[str, ParameterValue], origin: tuple[int | str, int]
) -> tuple[int | str, int]:
    """Return the sequence id and flags a response's parameters set for what follows.

    Raises:
        InvalidArgumentError: A parameter has the wrong type.
    """
    if not parameters.keys() & {"sequence_id", "sequence_start", "sequence_end"}:
        return origin
    correlation_id: ParameterValue = parameters.get("sequence_id", origin[0])
    if isinstance(correlation_id, bool | float):
        raise InvalidArgumentError(
            "expected parameter 'sequence_id' to be TRITONSERVER_PARAMETER_INT or "
            "TRITONSERVER_PARAMETER_STRING"
        )
    flags = 0
    for name, flag in (("sequence_start", SEQUENCE_START), ("sequence_end", SEQUENCE_END)):
        value = parameters.get(name, False)
        if not isinstance(value, bool):
            raise InvalidArgumentError(
                f"expect parameter '{name}' to be TRITONSERVER_PARAMETER_BOOL"
            )
        flags |= flag if value else 0
    return correlation_id, flags
