# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One version of an ensemble: the models it finds, what it counts, whose trace its steps join."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from backends.api.errors import InternalError, NotFoundError, TritonError, UnavailableError
from backends.api.model_config import EnsembleStep
from backends.api.request import InferenceRequest, InferenceResponse, TraceContext
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.ensembles.ensemble import Ensemble, StepModel
from deployments.metrics.counters import BatchStatistics, FailureReason
from deployments.tracing.call import Recorder, TracedCall
from deployments.tracing.record import TraceReport
from tests.support.step_graphs import Sink, model, request, step, tensor

STEPS = (step("a", "I=X", "O=m"), step("b", "I=m", "O=Y"))


class Model:
    """The model of a step; its requests wait until the test answers them."""

    def __init__(self, name: str, version: int = 1) -> None:
        self.name = name
        self.version = version
        self.config = model(name, "I", "O")
        self.is_ready = True
        self.calls: list[tuple[InferenceRequest, ResponseSink]] = []
        self.cancelled = 0

    def start(self, request: InferenceRequest, sink: ResponseSink, /) -> Inflight:
        self.calls.append((request, sink))
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    def answer(self, at: int = -1, compute_ns: tuple[int, int, int] = (1, 2, 3)) -> None:
        text = bytes(self.calls[at][0].inputs[0].data).decode()
        output = tensor("O", f"{self.name}({text})")
        response = InferenceResponse(self.name, "1", outputs=[output], compute_ns=compute_ns)
        self.calls[at][1].respond(response, final=True)


class World:
    """An ensemble of two models, and how often each was looked for."""

    def __init__(self, steps: tuple[EnsembleStep, ...] = STEPS, **config: object) -> None:
        self.models = {"a": Model("a", 3), "b": Model("b")}
        self.found: list[tuple[str, int]] = []
        base = model("e", "X", "Y")
        made = replace(base, has_ensemble_scheduling=True, ensemble_steps=steps, **config)
        self.ensemble = Ensemble(self.find, made, "5")

    def find(self, key: str, version: int) -> StepModel:
        self.found.append((key, version))
        if key not in self.models:
            raise NotFoundError(f"unknown model '{key}'")
        return self.models[key]

    def start(self, given: InferenceRequest | None = None) -> Sink:
        sink = Sink()
        self.ensemble.start(given or request("X"), sink)
        return sink

    def run(self, given: InferenceRequest | None = None) -> Sink:
        sink = self.start(given)
        self.models["a"].answer()
        self.models["b"].answer()
        return sink


def test_models_are_looked_up_once_until_the_table_changes() -> None:
    world = World()
    for _ in range(2):
        sink = world.run()
        assert sink.texts == [{"Y": "b(a(X))"}]
        assert sink.responses[0].model_version == "5"
    assert world.found == [("a", -1), ("b", -1)]
    world.ensemble.unbind()
    world.run()
    assert len(world.found) == 4


def test_a_request_keeps_the_models_it_began_with() -> None:
    world = World()
    sink = world.start()
    before = world.models["b"]
    world.models["b"] = Model("b", 2)
    world.ensemble.unbind()
    world.models["a"].answer()
    before.answer()
    assert sink.texts == [{"Y": "b(a(X))"}]


def test_a_request_that_succeeds_is_counted_with_the_work_of_its_steps() -> None:
    world = World()
    assert not world.ensemble.is_used
    world.run(request(tensor("X", "X", (3, 1))))
    world.run()
    assert world.ensemble.is_used
    counts = world.ensemble.statistics()
    assert (counts.success_count, counts.execution_count, counts.inference_count) == (2, 2, 4)
    assert (counts.compute_input_ns, counts.compute_infer_ns, counts.compute_output_ns) == (
        4,
        8,
        12,
    )
    assert counts.batches == {
        3: BatchStatistics(1, 2, 4, 6),
        1: BatchStatistics(1, 2, 4, 6),
    }
    # Less than a minute, which a clock's reading is not.
    assert 0 < counts.success_ns < 60 * 10**9
    assert (counts.pending_count, sum(counts.fail_count.values()), counts.fail_ns) == (0, 0, 0)
    assert counts.last_inference_ms > 1_700_000_000_000


@pytest.mark.parametrize("shape", [(4,), (0, 2)])
def test_what_has_no_batch_counts_as_one(shape: tuple[int, ...]) -> None:
    world = World() if shape[0] == 0 else World(max_batch_size=0)
    if shape[0]:
        for each in world.models.values():
            each.config = replace(each.config, max_batch_size=0)
    world.run(request(tensor("X", "X", shape)))
    assert world.ensemble.statistics().inference_count == 1


def test_a_request_that_fails_is_counted_as_such() -> None:
    world = World()
    sink = world.start()
    world.models["a"].calls[0][1].fail(InternalError("it broke"))
    assert sink.error is not None
    counts = world.ensemble.statistics()
    assert counts.fail_count[FailureReason.OTHER] == sum(counts.fail_count.values()) == 1
    assert 0 < counts.fail_ns < 60 * 10**9
    assert (counts.success_count, counts.execution_count) == (0, 0)


def test_an_ensemble_whose_model_is_gone_fails_its_requests_and_names_itself() -> None:
    world = World()
    del world.models["b"]
    sink = world.start()
    assert isinstance(sink.error, NotFoundError)
    assert sink.error.message == "in ensemble 'e', unknown model 'b'"
    counts = world.ensemble.statistics()
    assert counts.fail_count[FailureReason.OTHER] == sum(counts.fail_count.values()) == 1
    assert counts.fail_ns == 0
    world.ensemble.start(request("X"), Sink()).cancel()  # which is nothing
    with pytest.raises(NotFoundError):
        world.ensemble.check_ready()


def test_an_ensemble_is_ready_while_all_its_models_are() -> None:
    world = World()
    world.ensemble.check_ready()
    world.models["a"].is_ready = False
    with pytest.raises(UnavailableError) as caught:
        world.ensemble.check_ready()
    assert caught.value.message == (
        "ensemble 'e' is not ready: all instances of model 'a' version 3 are being started again"
    )


def test_a_bound_on_what_runs_at_once_holds_over_all_requests() -> None:
    for limit, running in ((0, 3), (2, 2)):
        world = World(max_inflight_requests=limit)
        for _ in range(3):
            world.start()
        assert len(world.models["a"].calls) == running


class Before:
    """A sink that stands before another one, as what counts or caches does."""

    def __init__(self, sink: ResponseSink) -> None:
        self.sink = sink
        self.respond: Callable[..., None] = sink.respond
        self.fail: Callable[[TritonError], None] = sink.fail


def traced(world: World, layers: int) -> TracedCall:
    given = request("X", trace=TraceContext(7, 0, False, ""))
    traced = Recorder().call(5, given, Sink())
    sink: ResponseSink = traced
    for _ in range(layers):
        sink = Before(sink)
    world.ensemble.start(given, sink)
    for each in world.models.values():
        each.answer()
    return traced


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_steps_join_the_trace_of_their_request(layers: int) -> None:
    world = World()
    call = traced(world, layers)
    report = TraceReport([], [])
    call.traced(report)
    records = {each.model_name: each for each in call._models}
    assert records.keys() == {"e", "a", "b"}
    assert (records["a"].model_version, records["b"].model_version) == (3, 1)
    assert records["a"].parent_id == records["b"].parent_id == call.context.id
    assert records["a"].request_id == "7"
    assert [name for name, _ in records["e"].activities] == [
        "REQUEST_START",
        "QUEUE_START",
        "REQUEST_END",
    ]
    for each in world.models.values():
        ((sent, _),) = each.calls
        assert sent.trace is not None
        assert sent.trace.parent_id == call.context.id


def test_a_request_whose_sinks_trace_nothing_runs_all_the_same() -> None:
    world = World()
    sink = world.run(request("X", trace=TraceContext(7, 0, False, "")))
    assert sink.texts == [{"Y": "b(a(X))"}]
