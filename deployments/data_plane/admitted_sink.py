# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tells the gate of a model how long its requests took; what is refused gets no further."""

from collections.abc import Callable

from backends.api.errors import TritonError
from backends.api.request import SEQUENCE_START, InferenceRequest, InferenceResponse
from deployments.admission.gate import AdmissionGate
from deployments.contracts.sinks import ResponseSink
from deployments.tracing.passing_sink import PassingSink

_NS_PER_US = 1000


class AdmittedSink(PassingSink):
    """Passes a request's outcomes on, and tells the gate of the one that ends the wait.

    Args:
        gate: What has admitted the request.
        sink: Takes the outcomes.
        clock_ns: The gate's clock.
        start_ns: When the request was admitted.
        level: Its priority level.
    """

    __slots__ = ("_clock_ns", "_first_ns", "_gate", "_level", "_outstanding", "_start_ns")

    def __init__(
        self,
        gate: AdmissionGate,
        sink: ResponseSink,
        clock_ns: Callable[[], int],
        start_ns: int,
        level: int,
    ) -> None:
        super().__init__(sink)
        self._gate = gate
        self._clock_ns = clock_ns
        self._start_ns = start_ns
        self._level = level
        self._outstanding = gate.outstanding
        self._first_ns = 0

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Pass a response on."""
        gate = self._gate
        if gate.rules.is_decoupled and not self._first_ns:
            self._first_ns = self._clock_ns()
        if final:
            times = None if response is None else response.compute_ns
            if self._first_ns:
                gate.answered(self._first_ns, self._start_ns, self._outstanding, 0, self._level)
            elif times is not None and response is not None:
                gate.answered(
                    self._clock_ns(),
                    self._start_ns,
                    self._outstanding,
                    sum(times),
                    self._level,
                    response.queue_ns,
                )
            else:
                gate.leave()
        self.sink.respond(response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Pass an error on."""
        if final:
            self._gate.leave()
        self.sink.fail(error, final=final)


def admitted(
    gate: AdmissionGate, request: InferenceRequest, sink: ResponseSink, clock_ns: Callable[[], int]
) -> AdmittedSink:
    """Return the sink a request goes with that a gate has admitted.

    Args:
        gate: The gate of its model.
        request: The request, checked; what it lacks for the gate is added.
        sink: Takes its outcomes.
        clock_ns: The gate's clock.

    Raises:
        UnavailableError: The gate refuses it.
    """
    now_ns = clock_ns()
    is_bound = bool(request.correlation_id) and not request.flags & SEQUENCE_START
    left_ns = _NS_PER_US * request.deadline_us
    if request.timeout_us and gate.rules.counts_timeout:
        timeout_ns = _NS_PER_US * request.timeout_us
        left_ns = min(left_ns, timeout_ns) if left_ns else timeout_ns
    refusal = gate.admit(now_ns, request.priority, left_ns, is_bound=is_bound)
    if refusal is not None:
        raise refusal.error()
    request.wants_times = True
    return AdmittedSink(gate, sink, clock_ns, now_ns, request.priority)
