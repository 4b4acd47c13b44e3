# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ensembles as the router serves them: the compiled graph, the models it runs on, the counters.

An ensemble runs in its caller: no process of its own, no further hop. Its graph is compiled when
the first request after a change of the routing table comes. A request keeps the graph it began
with.

Triton: core/src/ensemble_scheduler/ensemble_scheduler.cc @73aad7c
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from backends.api.errors import TritonError, UnavailableError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.ensembles.graph import Step, StepGraph, compile_graph
from deployments.ensembles.run import EnsembleRun
from deployments.ensembles.step import StepLimits, StepRunner
from deployments.metrics.counters import FailureReason, InstanceStatistics, Snapshot
from deployments.tracing.call import TracedCall

_NS_PER_MS: Final = 1_000_000


class StepModel(Protocol):
    """The model of a step, as an ensemble needs it."""

    @property
    def name(self) -> str:
        """Model name."""

    @property
    def version(self) -> int:
        """Version number."""

    @property
    def config(self) -> ModelConfig:
        """The complete config."""

    @property
    def is_ready(self) -> bool:
        """Whether it has an instance, or gets one when a request comes."""

    def start(self, request: InferenceRequest, sink: ResponseSink, /) -> Inflight:
        """Check a request and send it; everything that follows reaches the sink.

        Raises:
            TritonError: The request does not fit the model; the sink hears nothing.
        """


# Model key and version (-1 for the newest ready one) -> the ready model; raises TritonError.
FindStepModel = Callable[[str, int], StepModel]


class Ensemble:
    """One ready version of an ensemble.

    Args:
        find: Finds the model of a step.
        config: The complete config.
        version_text: The version, for responses.
    """

    __slots__ = (
        "_bound",
        "_config",
        "_find",
        "_is_batching",
        "_is_used",
        "_limits",
        "_statistics",
        "_version_text",
    )

    def __init__(self, find: FindStepModel, config: ModelConfig, version_text: str) -> None:
        self._find = find
        self._config = config
        self._version_text = version_text
        self._is_batching = config.max_batch_size > 0
        self._statistics = InstanceStatistics()
        limit = config.max_inflight_requests
        self._limits = StepLimits(limit) if limit else None
        self._bound: _Bound | None = None
        self._is_used = False

    def unbind(self) -> None:
        """Look the models up again for the next request: this ensemble or a step's has changed."""
        self._bound = None

    def start(self, request: InferenceRequest, sink: ResponseSink) -> Inflight:
        """Run a checked request; everything that follows reaches the sink."""
        self._is_used = True
        bound = self._bound
        if bound is None:
            try:
                bound = self._bind()
            except TritonError as error:
                self._statistics.record_failure(FailureReason.OTHER, 0)
                sink.fail(type(error)(f"in ensemble '{self._config.name}', {error.message}"))
                return _ENDED
        runner: StepRunner = bound.run_step
        if request.trace is not None:
            caller = _traced_call(sink)
            if caller is not None:
                runner = bound.runner_in(caller)
        run = EnsembleRun(
            bound.graph,
            self._version_text,
            request,
            sink,
            runner,
            self._limits,
            self._ended,
        )
        run.start_ns = time.monotonic_ns()
        run.start()
        return run

    def check_ready(self) -> None:
        """Check that every step has a ready model.

        Raises:
            TritonError: One has not.
        """
        bound = self._bound or self._bind()
        for model in bound.models:
            if not model.is_ready:
                raise UnavailableError(
                    f"ensemble '{self._config.name}' is not ready: all instances of model "
                    f"'{model.name}' version {model.version} are being started again"
                )

    @property
    def is_used(self) -> bool:
        """Whether a request ever ran here."""
        return self._is_used

    def statistics(self) -> Snapshot:
        """Return the counters of the requests that ran here."""
        return self._statistics.snapshot(0)

    def _bind(self) -> "_Bound":
        models = [
            self._find(step.model_key, step.model_version) for step in self._config.ensemble_steps
        ]
        graph = compile_graph(self._config, [model.config for model in models])
        self._bound = bound = _Bound(graph, models)
        return bound

    def _ended(self, run: EnsembleRun, error: TritonError | None) -> None:
        now_ns = time.monotonic_ns()
        if error is not None:
            self._statistics.record_failure(FailureReason.OTHER, now_ns - run.start_ns)
            return
        request = run.request
        batch_size = request.inputs[0].shape[0] if self._is_batching and request.inputs else 1
        batch_size = max(1, batch_size)
        self._statistics.record_steps(
            batch_size, now_ns - run.start_ns, run.compute_ns, time.time_ns() // _NS_PER_MS
        )


def _traced_call(sink: ResponseSink) -> TracedCall | None:
    """Return what traces a run, beneath the sinks that stand before it."""
    seen: object = sink
    while seen is not None and not isinstance(seen, TracedCall):
        seen = getattr(seen, "sink", None)
    return seen


class _Bound:
    """A graph and the models its steps run on."""

    __slots__ = ("graph", "models")

    def __init__(self, graph: StepGraph, models: Sequence[StepModel]) -> None:
        self.models = models
        self.graph = graph

    def run_step(self, step: Step, request: InferenceRequest, sink: ResponseSink, /) -> Inflight:
        """Send a step's request to its model; see `deployments.ensembles.step.StepRunner`."""
        return self.models[step.index].start(request, sink)

    def runner_in(self, call: TracedCall) -> StepRunner:
        """Return a `run_step` whose requests belong to a trace."""
        call.queued()

        def run_step(step: Step, request: InferenceRequest, sink: ResponseSink, /) -> Inflight:
            model = self.models[step.index]
            traced = call.step(model.name, model.version, request, sink)
            return self.run_step(step, request, traced)

        return run_step


class _Ended:
    """The handle of a request that failed at once."""

    def cancel(self) -> None:
        """Do nothing."""


_ENDED: Final = _Ended()
