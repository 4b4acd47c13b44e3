# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The stages of an ingress, and the one order in which requests pass them; why this one: ADR 26."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from backends.api.errors import TritonError
from backends.api.request import SEQUENCE_START, InferenceRequest, InferenceResponse
from deployments.admission.gate import AdmissionGate
from deployments.captures.capturing import Captures
from deployments.captures.provenance import ASKED_BY, Provenance, is_asked
from deployments.data_plane.call import Call, Stage
from deployments.data_plane.rollout_stage import RolloutStage
from deployments.data_plane.settings_plane import SettingsPlane
from deployments.routing.router import Router
from deployments.routing.served_model import ServedModel
from deployments.shared_memory.objects import RegionMemory
from deployments.shared_memory.regions import locate_regions, look_at_inputs, region_names
from deployments.shared_memory.uses import RegionUses
from deployments.tracing.passing_sink import Observer
from deployments.tracing.tracer import Arrival, ClientCall, Tracer

_NS_PER_US: Final = 1000


class Stages:
    """Tells which stages a request passes.

    Args:
        router: Has rollouts and the gates of models.
        tracer: Traces requests.
        settings: Knows clients' regions of shared memory, and counts who uses them.
        memory: This process's access to them.

    Attributes:
        captures: Keeps some of the requests; None when none is kept.
        always_names_origin: ``--answer-provenance``.
    """

    def __init__(
        self, router: Router, tracer: Tracer, settings: SettingsPlane, memory: RegionMemory
    ) -> None:
        self.captures: Captures | None = None
        self.always_names_origin = False
        self._router = router
        self._tracer = tracer
        self._settings = settings
        self._memory = memory
        # Always the same mapping; empty without rollouts.
        self._with_rollouts = router.models.rollouts
        # Bound once: requests share them.
        self._tracing: Stage = self._trace
        self._rollouts: Stage = RolloutStage(router.models, router.mirror).begin
        self._provenance: Stage = self._name_origin
        self._capturing: Stage = self._capture
        self._admission: Stage = self._admit
        self._regions: Stage = self._find_regions

    def of(
        self,
        model: ServedModel,
        request: InferenceRequest,
        arrival: Arrival | None,
        callers: Sequence[Stage],
    ) -> list[Stage]:
        """Return the stages that a request passes, in order; ``callers`` are access and tenants."""
        stages: list[Stage] = []
        if arrival is not None:
            stages.append(self._tracing)
        if callers:
            stages += callers
        has_rollouts = bool(self._with_rollouts)
        if has_rollouts:
            stages.append(self._rollouts)
        if self.always_names_origin or ASKED_BY in request.parameters:
            stages.append(self._provenance)
        if self.captures is not None:
            stages.append(self._capturing)
        if has_rollouts or model.admission is not None:
            stages.append(self._admission)
        if request.regions is not None:
            stages.append(self._regions)
        return stages

    def _trace(self, call: Call) -> Observer | None:
        model, arrival = call.model, call.arrival
        if arrival is None:
            return None
        sink = self._tracer.traced(model.name, model.version, call.request, call.sink, arrival)
        if not isinstance(sink, ClientCall):
            return None
        call.sink = sink
        return _Traced(sink)

    def _name_origin(self, call: Call) -> Observer | None:
        model: ServedModel = call.model
        if is_asked(call.request) or self.always_names_origin:
            return Provenance(model.version_text, model.digest, call.arm)
        return None

    def _capture(self, call: Call) -> Observer | None:
        model: ServedModel = call.model
        captures = self.captures
        if captures is None:
            return None
        return captures.watch(
            model.name, model.version_text, call.request, model.digest, call.arm, call.tenant
        )

    def _admit(self, call: Call) -> Observer | None:
        """Count a request in at its model's gate; the answer is to tell what it took."""
        model: ServedModel = call.model
        gate = model.admission
        if gate is None:
            return None
        request = call.request
        clock_ns = self._router.models.admissions.clock_ns
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
        return _Admitted(gate, clock_ns, now_ns, request.priority)

    def _find_regions(self, call: Call) -> Observer | None:
        """Find a request's regions of shared memory, which stay while it uses them."""
        model: ServedModel = call.model
        request, settings = call.request, self._settings
        names, uses = region_names(request), settings.uses
        copied_bytes = locate_regions(
            request, settings.known_regions(), node_id=self._router.node_id
        )
        uses.begin(names, copied_bytes)
        try:
            look_at_inputs(request, self._memory, runs_here=model.ensemble is not None)
        except Exception:
            uses.end(names, copied_bytes)
            raise
        return _Using(uses, names, copied_bytes)


class _Traced(Observer):
    """Ends the trace of a request of which its sink never hears."""

    __slots__ = ("_sink",)

    def __init__(self, sink: ClientCall) -> None:
        self._sink = sink

    def ended(self, error: TritonError | None, *, is_refusal: bool) -> None:
        if is_refusal:
            self._sink.refused()


class _Admitted(Observer):
    """Tells the gate of a model how long a request took."""

    __slots__ = ("_clock_ns", "_first_ns", "_gate", "_last", "_level", "_outstanding", "_start_ns")

    def __init__(
        self, gate: AdmissionGate, clock_ns: Callable[[], int], start_ns: int, level: int
    ) -> None:
        self._gate = gate
        self._clock_ns = clock_ns
        self._start_ns = start_ns
        self._level = level
        self._outstanding = gate.outstanding
        self._first_ns = 0
        self._last: InferenceResponse | None = None

    def responded(self, response: InferenceResponse, *, final: bool) -> None:
        if self._gate.rules.is_decoupled and not self._first_ns:
            self._first_ns = self._clock_ns()
        if final:
            self._last = response

    def ended(self, error: TritonError | None, *, is_refusal: bool) -> None:
        gate, last = self._gate, self._last
        if error is None and gate.rules.is_decoupled:
            first_ns = self._first_ns or self._clock_ns()
            gate.answered(first_ns, self._start_ns, self._outstanding, 0, self._level)
        elif last is not None and last.compute_ns is not None:
            gate.answered(
                self._clock_ns(),
                self._start_ns,
                self._outstanding,
                sum(last.compute_ns),
                self._level,
                last.queue_ns,
            )
        else:
            gate.leave()


class _Using(Observer):
    """Gives regions back."""

    __slots__ = ("_copied_bytes", "_names", "_uses")

    def __init__(self, uses: RegionUses, names: Collection[str], copied_bytes: int) -> None:
        self._uses = uses
        self._names = names
        self._copied_bytes = copied_bytes

    def ended(self, error: TritonError | None, *, is_refusal: bool) -> None:
        self._uses.end(self._names, self._copied_bytes)
