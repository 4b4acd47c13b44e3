# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which requests are traced, and what their traces hold."""

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np

from backends.api.errors import InvalidArgumentError, TritonError
from backends.api.request import (
    InferenceRequest,
    InferenceResponse,
    TraceContext,
    tensor_from_numpy,
)
from deployments.settings.server_settings import ServerSettings, TraceChange, TraceSettings, changed
from deployments.tracing.call import Recorder, TracedCall, calls_of
from deployments.tracing.record import TracedModel, TraceReport
from deployments.tracing.tracer import GRPC, HTTP, Arrival, Trace, Tracer

ON = TraceSettings(("TIMESTAMPS",), rate=1, file="t.json")
PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Sink:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        self.heard.append((response, final))

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        self.heard.append((error, final))


class Writer:
    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.settled: list[int] = []
        self.is_closed = False

    def write(self, trace: Trace) -> None:
        self.traces.append(trace)

    def settle(self, sampler: Any) -> None:
        self.settled.append(sampler.used)

    async def close(self) -> None:
        self.is_closed = True


class Rig:
    """A tracer whose clock counts calls."""

    def __init__(self, trace: TraceSettings = ON) -> None:
        self.writer = Writer()
        self.uses: list[tuple[str, int, int]] = []
        self.settings = ServerSettings(trace=trace, trace_at_start=trace)
        clock = itertools.count(100)
        self.tracer = Tracer(
            lambda *use: self.uses.append(use), lambda _: self.writer, lambda: next(clock)
        )
        self.tracer.apply(self.settings, "here")

    def change(self, model: str = "", **values: Any) -> None:
        self.settings = changed(self.settings, TraceChange(model, values))
        self.tracer.apply(self.settings, "here")

    def send(
        self, model: str = "m", front: Any = HTTP, headers: Any = (), **fields: Any
    ) -> tuple[InferenceRequest, Any, Sink]:
        tensor = tensor_from_numpy("IN", np.array([1, 2], np.int32))
        request, sink = InferenceRequest(model, inputs=[tensor], **fields), Sink()
        arrival = Arrival(front, 1, 2, headers)
        return request, self.tracer.traced(model, 3, request, sink, arrival), sink

    def run(self, *models: str) -> int:
        """Send a request to each model and return how many were traced."""
        before = len(self.writer.traces)
        for model in models:
            self.send(model)[1].respond(None, final=True)
        return len(self.writer.traces) - before


def names(trace: Trace) -> list[str]:
    activities = [*trace.front, *trace.models[0].activities]
    return [name for name, _ in sorted(activities, key=lambda each: each[1])]


def test_without_settings_that_trace_the_tracer_is_off():
    assert not Tracer().is_on
    assert not Rig(replace(ON, level=())).tracer.is_on
    assert Rig().tracer.is_on


def test_a_request_that_is_not_traced_goes_with_its_own_sink():
    request, passed, sink = Rig(replace(ON, rate=2)).send()
    assert passed is sink
    assert request.trace is None


def test_a_trace_holds_the_way_of_its_request():
    rig = Rig()
    request, passed, sink = rig.send(id="seven")
    assert request.trace is not None
    passed.traced(TraceReport([("QUEUE_START", 103), ("COMPUTE_END", 103)]))
    response = InferenceResponse("m", "3")
    passed.respond(response, final=True)
    assert sink.heard == [(response, True)]
    (trace,) = rig.writer.traces
    (model,) = trace.models
    assert (model.id, model.model_name, model.model_version) == (request.trace.id, "m", 3)
    assert (model.request_id, model.parent_id, model.tensors) == ("seven", 0, [])
    assert names(trace) == [
        "HTTP_RECV_START",
        "HTTP_RECV_END",
        "REQUEST_START",
        "QUEUE_START",
        "COMPUTE_END",
        "REQUEST_END",
        "INFER_RESPONSE_COMPLETE",
        "HTTP_SEND_START",
        "HTTP_SEND_END",
    ]


def test_an_error_ends_a_trace():
    rig = Rig()
    _, passed, sink = rig.send(front=GRPC)
    error = InvalidArgumentError("no")
    passed.fail(error)
    assert sink.heard == [(error, True)]
    assert names(rig.writer.traces[0])[-3:] == ["REQUEST_END", "GRPC_SEND_START", "GRPC_SEND_END"]


def test_a_stream_of_responses_is_one_trace():
    rig = Rig()
    _, passed, _ = rig.send(front=GRPC)
    for _ in range(3):
        passed.respond(InferenceResponse("m", "3"), final=False)
    assert not rig.writer.traces
    passed.respond(None, final=True)
    assert names(rig.writer.traces[0]).count("GRPC_SEND_START") == 4


def test_an_error_that_more_follows_does_not_end_a_trace():
    rig = Rig()
    _, passed, sink = rig.send(front=GRPC)
    error = InvalidArgumentError("no")
    passed.fail(error, final=False)
    assert sink.heard == [(error, False)]
    assert not rig.writer.traces
    passed.respond(None, final=True)
    assert names(rig.writer.traces[0]).count("GRPC_SEND_START") == 2


def test_tensors_are_recorded_when_asked_for():
    rig = Rig(replace(ON, level=("TENSORS",)))
    request, passed, _ = rig.send()
    assert request.trace is not None
    assert request.trace.has_tensors
    output = tensor_from_numpy("OUT", np.array([0.5], np.float32))
    passed.respond(InferenceResponse("m", "3", outputs=[output]), final=True)
    (trace,) = rig.writer.traces
    assert not trace.has_timestamps
    shown = [(each.activity, each.name, each.data) for each in trace.models[0].tensors]
    assert shown == [
        ("TENSOR_QUEUE_INPUT", "IN", "1,2"),
        ("TENSOR_BACKEND_OUTPUT", "OUT", "0.5"),
    ]


def test_steps_and_calls_of_a_model_become_children():
    rig = Rig()
    request, passed, _ = rig.send(model="ensemble")
    assert request.trace is not None
    assert isinstance(passed, TracedCall)
    step = InferenceRequest("step")
    inner = passed.step("step", 1, step, Sink())
    assert step.trace is not None
    assert step.trace.parent_id == request.trace.id
    called = TracedModel(9, "called", 1, parent_id=step.trace.id)
    inner.traced(TraceReport([], [called]))
    inner.respond(None, final=True)
    passed.respond(None, final=True)
    (trace,) = rig.writer.traces
    assert [each.model_name for each in trace.models] == ["ensemble", "step", "called"]
    assert [each.parent_id for each in trace.models] == [0, request.trace.id, step.trace.id]


def test_a_call_of_a_model_waits_for_the_report_of_the_request_it_was_made_for():
    now = iter(range(100))
    recorder = Recorder(lambda: next(now))
    executed = TraceContext(7, 3, False, '{"traceparent":"00-1-2-01"}')
    request, sink = InferenceRequest("called", trace=executed), Sink()
    passed = recorder.call(2, request, sink)
    assert request.trace is not None
    assert (request.trace.parent_id, request.trace.context) == (7, executed.context)
    passed.traced(TraceReport([], [TracedModel(9, "deeper", 1, parent_id=request.trace.id)]))
    passed.respond(None, final=True)
    assert sink.heard == [(None, True)]
    call, deeper = calls_of(executed)
    assert (call.model_name, call.model_version, call.parent_id) == ("called", 2, 7)
    assert call.activities == [("REQUEST_START", 0), ("REQUEST_END", 1)]
    assert call.span_id
    assert deeper.parent_id == call.id == request.trace.id
    assert calls_of(executed) == calls_of(None) == []


def test_models_without_settings_of_their_own_share_a_counter():
    rig = Rig(replace(ON, rate=2))
    assert rig.run("a", "b", "a", "b") == 2
    rig.change("a", rate=1)
    assert rig.run("a", "a") == 2
    assert rig.run("b", "c") == 1


def test_a_model_can_be_traced_alone():
    rig = Rig(replace(ON, level=()))
    rig.change("a", level=("TIMESTAMPS",))
    assert rig.tracer.is_on
    assert rig.run("a", "b") == 1
    rig.change("a", level=None)
    assert not rig.tracer.is_on


def test_a_change_of_settings_starts_sampling_anew_and_settles_what_was_taken():
    rig = Rig(replace(ON, count=2))
    assert rig.run("a", "a", "a") == 2
    rig.change(count=2)
    assert rig.writer.settled == [2]
    assert rig.run("a", "a", "a") == 2


def test_a_trace_that_ends_after_its_settings_is_written():
    rig = Rig()
    _, passed, _ = rig.send()
    rig.change(rate=5)
    passed.respond(None, final=True)
    assert len(rig.writer.traces) == 1
    assert len(rig.writer.settled) == 2


def test_use_of_a_finite_count_is_reported_and_that_of_others_counts():
    rig = Rig(replace(ON, count=3))
    assert rig.run("a") == 1
    assert rig.uses == [("", 1, 0)]
    rig.settings = replace(rig.settings, trace_uses={"": {"here": 1, "there": 1}})
    rig.tracer.apply(rig.settings, "here")
    assert rig.run("a", "a") == 1


def test_a_caller_s_trace_is_joined_whatever_the_rate():
    rig = Rig(replace(ON, rate=0, mode="opentelemetry"))
    assert rig.run("a") == 0
    headers = [(b"traceparent", PARENT), (b"tracestate", b"k=v")]
    request, passed, _ = rig.send(headers=headers)
    assert request.trace is not None
    context = json.loads(request.trace.context)
    version, trace_id, span_id, flags = context["traceparent"].split("-")
    assert (version, flags, context["tracestate"]) == ("00", "01", "k=v")
    assert trace_id == "0af7651916cd43dd8448eb211c80319c"
    passed.respond(None, final=True)
    (trace,) = rig.writer.traces
    assert trace.models[0].span_id == int(span_id, 16)
    assert trace.parent is not None


async def test_closing_closes_the_writer():
    rig = Rig()
    await rig.tracer.close()
    assert rig.writer.is_closed
    assert not rig.tracer.is_on
