# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The requests an ensemble's run sends to its steps, and how many of them there may be.

Triton: core/src/ensemble_scheduler/ensemble_scheduler.cc @73aad7c
"""

import logging
from collections import deque
from typing import Final, Protocol

from backends.api.errors import InvalidArgumentError, TritonError
from backends.api.request import (
    SEQUENCE_END,
    SEQUENCE_START,
    InferenceRequest,
    InferenceResponse,
    ParameterValue,
)
from deployments.contracts.faults import fault_of
from deployments.contracts.sinks import Inflight, Paced, ResponseSink
from deployments.ensembles.graph import Step

_log = logging.getLogger(__name__)

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

    A step request counts until the requests that its response starts are in flight themselves.

    A step request may have its outcome while it is being sent: an error, or an answer of the cache.
    Then it frees the place of the next one. So whoever frees the first place sends in a loop, and
    what is freed meanwhile is noted for it: sent from there, each would lie on the stack of the one
    before.

    Args:
        limit: ``max_inflight_requests``; 0 for no limit.
    """

    __slots__ = ("_freed", "_inflight", "_is_sending", "_waiting", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._inflight: dict[int, int] = {}
        self._waiting: dict[int, deque[StepSink]] = {}
        # Steps of which a place is free and requests wait; once for each place.
        self._freed: deque[int] = deque()
        self._is_sending = False

    def admit(self, sink: "StepSink") -> bool:
        """Count a step request in, or keep it until `release` lets it go."""
        index = sink.step.index
        waiting = self._waiting.get(index)
        # A place that is free while others wait is theirs.
        if waiting or self._inflight.get(index, 0) >= self.limit:
            self._waiting.setdefault(index, deque()).append(sink)
            return False
        self._inflight[index] = self._inflight.get(index, 0) + 1
        return True

    def release(self, sink: "StepSink") -> None:
        """Count a step request out, once, and have the next one sent that waits."""
        if not sink.is_admitted:
            return
        sink.is_admitted = False
        index = sink.step.index
        self._inflight[index] -= 1
        if self._waiting.get(index):
            self._freed.append(index)
            if not self._is_sending:
                self._send_waiting()

    def _send_waiting(self) -> None:
        """Send what waits for the places that are free, also for those that this frees."""
        self._is_sending = True
        try:
            while self._freed:
                index = self._freed.popleft()
                waiting = self._waiting[index]
                # What had waited may have been withdrawn, and others have come since.
                if waiting and self._inflight[index] < self.limit:
                    following = waiting.popleft()
                    self._inflight[index] += 1
                    following.send()
        finally:
            self._is_sending = False

    def withdraw(self, sink: "StepSink") -> bool:
        """Take back a step request that waits; False when it does not."""
        waiting = self._waiting.get(sink.step.index)
        if not waiting or sink not in waiting:
            return False
        waiting.remove(sink)
        return True


class Hold:
    """A response whose readers wait for their turn; until the last has it, its step is held up.

    Without this a fast step would go on while its responses pile up in front of a slow one.

    Whoever makes it holds it, and every step request that the response starts.

    Args:
        limits: What the readers wait for.
        sink: The step request that had the response.
    """

    __slots__ = ("_holders", "_limits", "_sink")

    def __init__(self, limits: StepLimits, sink: "StepSink") -> None:
        self._limits = limits
        self._sink = sink
        self._holders = 1
        sink.unread_count += 1

    def hold(self, reader: "StepSink") -> None:
        """Have a step request hold it until it is sent."""
        self._holders += 1
        reader.hold = self

    def let_go(self) -> None:
        """Note that a holder holds it no longer."""
        self._holders -= 1
        if self._holders == 0:
            self._sink.unread_count -= 1
            self._sink.was_read(self._limits)


class StepSink:
    """Takes the outcome of one step request.

    Attributes:
        step: The step.
        request: What is sent.
        inflight: The handle to cancel it, once it was sent.
        is_admitted: Whether it counts in the limits of its step.
        is_over: Whether it has had its outcome.
        hold: What it holds up until it is sent.
        unread_count: Responses of it that hold it up.
    """

    __slots__ = (
        "_run",
        "hold",
        "inflight",
        "is_admitted",
        "is_over",
        "iteration",
        "origin",
        "request",
        "step",
        "unread_count",
    )

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
        self.is_over = False
        self.hold: Hold | None = None
        self.unread_count = 0

    def send(self) -> None:
        """Send the request; an error is its outcome, a fault of the code included."""
        self.is_admitted = True
        try:
            self.inflight = self._run.runner(self.step, self.request, self)
        except Exception as error:
            self.fail(fault_of(error, request_for(self.step)))
        self.let_go()

    def let_go(self) -> None:
        """Hold nothing up any longer."""
        hold, self.hold = self.hold, None
        if hold is not None:
            hold.let_go()

    def was_read(self, limits: StepLimits) -> None:
        """Have the step go on after a response that all its readers have: with the next one."""
        if not self.is_over:
            if isinstance(self.inflight, Paced):
                self.inflight.credit()
        elif not self.unread_count:
            limits.release(self)

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response of the step."""
        self._run.step_responded(self, response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take the step's error."""
        self._run.step_failed(self, error, final=final)


def request_for(step: Step) -> str:
    """Return what a fault names as failed."""
    return f"a request for the step of model '{step.model_name}'"


def tell(
    sink: ResponseSink, outcome: InferenceResponse | TritonError | None, *, final: bool
) -> None:
    """Tell whoever sent a request; its steps go on, and give back their places, if that raises."""
    try:
        if isinstance(outcome, TritonError):
            sink.fail(outcome, final=final)
        else:
            sink.respond(outcome, final=final)
    except Exception:
        _log.exception("the sink of an ensemble raised")


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


class _Nobody:
    """The sink of a run that has ended."""

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Ignore a response."""

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Ignore an error."""


NOBODY: Final[ResponseSink] = _Nobody()
