# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One request to an ensemble on its way through the step graph.

Theory of operation. Tensors live in *frames*, one per iteration: iteration 0 holds the request's
inputs, and a decoupled step writes its nth response to iteration n. A step runs in the iteration
in which the last tensor it reads was set, and its outputs stay there. An iteration in which all
wanted outputs are set becomes a response. A tensor is dropped after its last reading, a frame with
its last tensor, so an endless stream holds only what is on its way.

After the first error nothing more starts, what is in flight is cancelled and waited for, and then
the error is the one terminal outcome. Step outcomes may come while a step is being submitted.

Triton: core/src/ensemble_scheduler/ensemble_scheduler.cc EnsembleContext @73aad7c. There,
iterations are counted per tensor in the order of arrival; here they follow the step, so that the
responses of parallel branches meet those they belong to.
"""

import logging
from collections.abc import Callable, Iterable

from backends.api.errors import InvalidArgumentError, RequestCancelledError, TritonError
from backends.api.request import (
    SEQUENCE_END,
    SEQUENCE_START,
    InferenceRequest,
    InferenceResponse,
    ParameterValue,
    Tensor,
    id_prefix,
)
from deployments.contracts.faults import fault_of
from deployments.contracts.sinks import ResponseSink
from deployments.ensembles.condition import SKIPPED, is_met
from deployments.ensembles.frame import StepTensors
from deployments.ensembles.graph import StepGraph
from deployments.ensembles.step import (
    NOBODY,
    Hold,
    Origin,
    StepLimits,
    StepRunner,
    StepSink,
    request_for,
    sequence_of,
    tell,
)

_log = logging.getLogger(__name__)


class EnsembleRun:
    """One request of an ensemble; implements `deployments.contracts.sinks.Inflight`.

    Args:
        graph: The ensemble.
        version: Its version, as text.
        request: A request that was checked against the ensemble's config.
        sink: Takes the responses.
        runner: Sends step requests.
        limits: Bounds of the steps; None when there are none.
        on_end: Called with this run and its error, or None, right before the terminal outcome.

    Attributes:
        request: The request.
        runner: Sends step requests.
        start_ns: When it came, for whoever made it; 0 until set.
        compute_ns: Input, inference and output, summed over the steps whose responses carry them.
        own_ns: Its part of them by its rows, and its waiting for them, likewise.
    """

    __slots__ = (
        "_cancelled",
        "_counts",
        "_error",
        "_frames",
        "_graph",
        "_has_responded",
        "_limits",
        "_on_end",
        "_open",
        "_plan",
        "_sink",
        "_unfinished",
        "_version",
        "compute_ns",
        "own_ns",
        "request",
        "runner",
        "start_ns",
    )

    def __init__(
        self,
        graph: StepGraph,
        version: str,
        request: InferenceRequest,
        sink: ResponseSink,
        runner: StepRunner,
        limits: StepLimits | None = None,
        on_end: "Callable[[EnsembleRun, TritonError | None], None] | None" = None,
    ) -> None:
        self.request = request
        self.runner = runner
        self.start_ns = 0
        self.compute_ns = (0, 0, 0)
        self.own_ns = (0, 0)
        self._graph = graph
        self._version = version
        self._sink = sink
        self._limits = limits
        self._on_end = on_end
        self._plan = graph.plan(request.outputs)
        self._frames: dict[int, StepTensors] = {}
        # Responses of each decoupled step so far: the next one's iteration.
        self._counts: dict[int, int] = {}
        self._open: set[StepSink] = set()
        # Step requests without a terminal outcome, and one for whoever is starting steps.
        self._unfinished = 0
        self._error: TritonError | None = None
        self._has_responded = False
        self._cancelled = False

    def start(self) -> None:
        """Run the steps whose inputs are there."""
        inputs = self._graph.inputs
        given = {inputs[each.name]: each for each in self.request.inputs}
        values: list[tuple[int, Tensor | None]] = [*given.items()]
        values += [(number, None) for number in self._graph.optional if number not in given]
        self._unfinished = 1
        try:
            ready = self._set(0, values, None)
        except TritonError as error:
            self._stop(error)
        else:
            if ready is not None:
                # Every step was skipped.
                self._end(ready)
        self._finished_one()

    def cancel(self) -> None:
        """Cancel what is in flight; the sink still gets its terminal call. Idempotent."""
        if not self._cancelled:
            self._cancelled = True
            self._unfinished += 1
            self._stop(RequestCancelledError(""))
            self._finished_one()

    # Outcomes of steps

    def step_responded(
        self, sink: StepSink, response: InferenceResponse | None, *, final: bool
    ) -> None:
        """Take a step's response and run what it makes possible."""
        if sink not in self._open:
            return
        if final:
            self._close(sink)
        ready: InferenceResponse | None = None
        limits = self._limits
        hold = None if limits is None or response is None else Hold(limits, sink)
        if response is not None and self._error is None:
            try:
                ready = self._take(sink, response, hold)
            except Exception as error:
                self._stop(fault_of(error, request_for(sink.step)))
        if ready is not None:
            if final and self._unfinished == 1:
                self._end(ready)
            else:
                self._respond(ready)
        if hold is not None:
            hold.let_go()
        elif limits is not None:
            sink.was_read(limits)
        if final:
            self._finished_one()

    def step_failed(self, sink: StepSink, error: TritonError, *, final: bool) -> None:
        """Take a step's error: it is the ensemble's, whatever the step may still send."""
        if sink not in self._open:
            return
        if final:
            self._close(sink)
        self._stop(error)
        if final:
            if self._limits is not None:
                sink.was_read(self._limits)
            self._finished_one()

    def _take(
        self, sink: StepSink, response: InferenceResponse, hold: Hold | None
    ) -> InferenceResponse | None:
        step = sink.step
        if response.compute_ns is not None:
            before, more = self.compute_ns, response.compute_ns
            self.compute_ns = (before[0] + more[0], before[1] + more[1], before[2] + more[2])
            self.own_ns = (
                self.own_ns[0] + response.share_ns,
                self.own_ns[1] + max(response.queue_ns, 0),
            )
        origin = sink.origin
        if response.parameters:
            origin = sequence_of(response.parameters, origin)
        iteration = sink.iteration
        if step.is_decoupled:
            iteration = self._counts.get(step.index, 0)
            self._counts[step.index] = iteration + 1
        given = {each.name: each for each in response.outputs}
        # An output that was left out is set all the same: its reader's input may be optional.
        values = [(number, given.get(name)) for name, number in step.outputs.items()]
        return self._set(iteration, values, origin, hold)

    # Frames

    def _set(
        self,
        iteration: int,
        values: list[tuple[int, Tensor | None]],
        origin: Origin,
        hold: Hold | None = None,
    ) -> InferenceResponse | None:
        """Set tensors, start the steps that waited for them, and return a response they complete.

        A response with further steps behind it goes out before those start.
        """
        frame = self._frames.get(iteration)
        if frame is None:
            frame = self._frames[iteration] = StepTensors(self._plan)
        missing = frame.missing
        sinks: list[StepSink] = []
        self._fill(iteration, frame, values, origin, sinks)
        if hold is not None:
            for sink in sinks:
                hold.hold(sink)
        response = self._response_of(frame) if missing and not frame.missing else None
        if frame.open_uses == 0:
            del self._frames[iteration]
        if response is not None and sinks:
            self._respond(response)
            response = None
        for sink in sinks:
            self._send(sink)
        return response

    def _fill(
        self,
        iteration: int,
        frame: StepTensors,
        values: Iterable[tuple[int, Tensor | None]],
        origin: Origin,
        sinks: list[StepSink],
    ) -> None:
        """Set tensors, make the requests of the steps that waited for them, and skip others."""
        for index in frame.set(values, origin):
            sink = self._request_of(index, iteration, frame)
            if sink is not None:
                sinks.append(sink)
                continue
            step = self._graph.steps[index]
            # A decoupled one may answer nothing, and its answers are counted.
            if not step.is_decoupled:
                skipped = [(number, SKIPPED) for number in step.outputs.values()]
                self._fill(iteration, frame, skipped, None, sinks)

    def _respond(self, response: InferenceResponse) -> None:
        self._has_responded = True
        tell(self._sink, response, final=False)

    def _request_of(self, index: int, iteration: int, frame: StepTensors) -> StepSink | None:
        """Return the request of a step that has its inputs, or None when the step is skipped."""
        step = self._graph.steps[index]
        request = self.request
        taken = {number: frame.use(number) for number in step.reads}
        if step.condition is not None:
            decider = taken[step.decider][0] if step.decider >= 0 else None
            if not is_met(step.condition, decider, request):
                return None
        sequence: Origin = None
        inputs = []
        for edge in step.inputs:
            tensor, origin = taken[edge.tensor]
            if tensor is SKIPPED:
                if not edge.is_optional:
                    return None
            elif tensor is not None:
                inputs.append(
                    Tensor(edge.name, tensor.datatype, edge.shape_for(tensor.shape), tensor.data)
                )
            if origin is not None:
                if sequence is not None and origin != sequence:
                    _log.error(
                        "%sDifferent set of response parameters are set for '%s'. Parameter "
                        "correlation ID %s, flags %d is used.",
                        id_prefix(request.id),
                        step.model_name,
                        *sequence,
                    )
                    continue
                sequence = origin
        correlation_id, flags = sequence or (request.correlation_id, request.flags)
        return StepSink(
            self,
            step,
            iteration,
            InferenceRequest(
                step.model_name,
                step.model_version,
                request.id,
                inputs,
                list(step.output_names),
                request.parameters,
                request.priority,
                request.timeout_us,
                correlation_id,
                flags,
                wants_times=True,
                window=self._limits.limit if self._limits is not None and step.is_decoupled else 0,
                pins=request.pins,
                tenant=request.tenant,
                weight=request.weight,
            ),
        )

    def _response_of(self, frame: StepTensors) -> InferenceResponse:
        request = self.request
        outputs = []
        parameters: dict[str, ParameterValue] = {}
        # Triton walks a hash map here, which yields the outputs last to first.
        for edge in reversed(self._plan.outputs):
            tensor, origin = frame.use(edge.tensor)
            if tensor is None or tensor is SKIPPED:
                continue
            outputs.append(
                Tensor(edge.name, tensor.datatype, edge.shape_for(tensor.shape), tensor.data)
            )
            if origin is not None:
                parameters["sequence_id"] = origin[0]
                parameters["sequence_start"] = bool(origin[1] & SEQUENCE_START)
                parameters["sequence_end"] = bool(origin[1] & SEQUENCE_END)
        response = InferenceResponse(
            self._graph.name, self._version, request.id, outputs, parameters
        )
        if request.wants_times:
            response.compute_ns = self.compute_ns
            response.share_ns, response.queue_ns = self.own_ns
        return response

    # Step requests in flight

    def _send(self, sink: StepSink) -> None:
        if self._error is not None:
            sink.let_go()
            return
        self._unfinished += 1
        self._open.add(sink)
        limits = self._limits
        if limits is None or limits.admit(sink):
            sink.send()

    def _close(self, sink: StepSink) -> None:
        """Forget a step request that has had its outcome; it counts until `_finished_one`."""
        self._open.discard(sink)
        sink.inflight = None
        sink.is_over = True

    def _stop(self, error: TritonError) -> None:
        """Keep the first error; drop what waits and cancel what is in flight."""
        if self._error is not None:
            return
        self._error = error
        self._frames.clear()
        for sink in list(self._open):
            if self._limits is not None and self._limits.withdraw(sink):
                self._open.discard(sink)
                self._unfinished -= 1
                sink.let_go()
            elif sink.inflight is not None:
                sink.inflight.cancel()

    def _finished_one(self) -> None:
        self._unfinished -= 1
        if self._unfinished == 0:
            self._end(None)

    def _end(self, response: InferenceResponse | None) -> None:
        """Make the terminal call."""
        sink = self._sink
        if sink is NOBODY:
            return
        self._sink = NOBODY
        self._frames.clear()
        error = self._error
        if error is not None:
            error = type(error)(f"in ensemble '{self._graph.name}', {error.message}")
        elif response is None and not (self._has_responded or self._graph.is_decoupled):
            error = InvalidArgumentError(
                f"in ensemble '{self._graph.name}', {id_prefix(self.request.id)}unexpected "
                f"deadlock, at least one output is not set while no more ensemble steps can be made"
            )
        if self._on_end is not None:
            self._on_end(self, error)
        tell(sink, response if error is None else error, final=True)
