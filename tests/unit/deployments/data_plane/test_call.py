# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The list of stages: who begins in which order, and who hears of the end."""

from typing import Any

import pytest

from backends.api.errors import InternalError, TritonError, UnavailableError
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.contracts.sinks import ResponseSink
from deployments.data_plane.call import Call, Stage
from deployments.data_plane.data_plane import DataPlane
from deployments.routing.router import Router
from deployments.routing.served_model import ServedModel
from deployments.slabs.pool import SlabPool
from deployments.tracing.passing_sink import Observer
from deployments.tracing.tracer import GRPC, Arrival
from tests.support.cluster_of_instances import request, table
from tests.support.memory_plane import Repository
from tests.support.staged_plane import FEATURES, staged_plane

Heard = list[tuple[Any, ...]]


class Hearing(Observer):
    def __init__(self, name: str, heard: Heard) -> None:
        self.name = name
        self.heard = heard

    def responded(self, response: InferenceResponse, *, final: bool) -> None:
        self.heard.append((self.name, "responded", final))

    def failed(self, error: TritonError) -> None:
        self.heard.append((self.name, "failed", error.message))

    def ended(self, error: TritonError | None, *, is_refusal: bool) -> None:
        text = "" if error is None else error.message
        self.heard.append((self.name, "ended", text, is_refusal))
        if self.name == "raising":
            raise ValueError("an observer with a fault")


class Named:
    def __init__(self, name: str, heard: Heard, error: BaseException | None = None) -> None:
        self.name = name
        self.heard = heard
        self.error = error

    def __call__(self, call: Call) -> Observer | None:
        if self.error is not None:
            raise self.error
        return None if self.name == "silent" else Hearing(self.name, self.heard)


class Port:
    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        self.heard.append(("port", final))

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        self.heard.append(("port", error.message, final))


class Going:
    def cancel(self) -> None:
        """Nothing is under way."""


class Sent:
    """Notes what is sent on."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.sinks: list[ResponseSink] = []
        self.error = error

    def __call__(self, model: Any, request: InferenceRequest, sink: ResponseSink) -> Going:
        if self.error is not None:
            raise self.error
        self.sinks.append(sink)
        return Going()


def start(
    heard: Heard, *names: str, error: BaseException | None = None, sent: Sent | None = None
) -> Sent:
    sent = sent or Sent()
    stages: list[Stage] = [Named(name, heard) for name in names]
    if error is not None:
        stages.append(Named("refusing", heard, error))
    Call(None, request(), Port(heard)).start(stages, sent)
    return sent


def test_outcomes_are_told_from_the_last_stage_to_the_first_and_then_to_the_port() -> None:
    heard: Heard = []
    (sink,) = start(heard, "first", "second").sinks
    sink.respond(InferenceResponse("m", "1"), final=False)
    sink.fail(InternalError("go on"), final=False)
    sink.respond(InferenceResponse("m", "1"), final=True)
    assert heard == [
        ("second", "responded", False),
        ("first", "responded", False),
        ("port", False),
        ("second", "failed", "go on"),
        ("first", "failed", "go on"),
        ("port", "go on", False),
        ("second", "responded", True),
        ("first", "responded", True),
        ("second", "ended", "", False),
        ("first", "ended", "", False),
        ("port", True),
    ]


def test_a_stream_that_ends_without_a_response_ends_once() -> None:
    heard: Heard = []
    (sink,) = start(heard, "first").sinks
    sink.respond(None, final=True)
    assert heard == [("first", "ended", "", False), ("port", True)]


def test_who_has_begun_hears_once_what_a_later_stage_refuses_and_the_port_does_not() -> None:
    heard: Heard = []
    with pytest.raises(UnavailableError):
        start(heard, "first", "second", error=UnavailableError("full"))
    assert heard == [("second", "ended", "full", True), ("first", "ended", "full", True)]


def test_who_has_begun_hears_what_cannot_be_sent() -> None:
    heard: Heard = []
    with pytest.raises(UnavailableError):
        start(heard, "first", sent=Sent(UnavailableError("gone")))
    assert heard == [("first", "ended", "gone", True)]


def test_a_request_that_was_answered_does_not_end_again_when_what_sends_it_fails() -> None:
    heard: Heard = []

    def send(model: Any, request: InferenceRequest, sink: ResponseSink) -> Going:
        sink.respond(None, final=True)
        raise ValueError("a fault behind the answer")

    with pytest.raises(ValueError, match="behind the answer"):
        Call(None, request(), Port(heard)).start([Named("first", heard)], send)
    assert heard == [("first", "ended", "", False), ("port", True)]


def test_a_fault_of_a_stage_is_an_end_too() -> None:
    heard: Heard = []
    with pytest.raises(KeyError):
        start(heard, "first", error=KeyError("x"))
    assert heard == [("first", "ended", "KeyError('x')", True)]


def test_an_observer_that_raises_keeps_nobody_from_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: Heard = []
    (sink,) = start(heard, "first", "raising").sinks
    sink.fail(InternalError("broken"))
    assert heard[-2:] == [("first", "ended", "broken", False), ("port", "broken", True)]
    assert "an observer with a fault" in caplog.text


def test_where_no_stage_observes_a_request_it_is_sent_with_the_sink_of_its_port() -> None:
    (sink,) = start([], "silent").sinks
    assert isinstance(sink, Port)


class Answering(Router):
    """Notes the sinks that requests are sent with."""

    def note_in(self, sinks: list[ResponseSink]) -> None:
        self.sinks = sinks

    def submit(self, model: ServedModel, request: InferenceRequest, sink: ResponseSink) -> Going:
        self.sinks.append(sink)
        return Going()


async def test_without_a_feature_the_router_gets_the_sink_of_the_port() -> None:
    sinks: list[ResponseSink] = []
    slabs = SlabPool(1 << 20)
    router = Answering("node", b"secret", slabs)
    router.note_in(sinks)
    router.update(table())
    plane = DataPlane("", router, slabs, Repository())
    model, port = plane.resolve("m"), Port([])
    assert plane.stages.of(model, request(), None, ()) == []
    plane.infer(model, request(), port)
    assert sinks == [port]
    await router.close()


async def test_the_order_of_the_stages_is_the_one_that_is_written_down() -> None:
    async with staged_plane(*FEATURES) as here:
        model = here.plane.resolve("m")
        callers: list[Stage] = [Named("access", []), Named("tenants", [])]
        asked = here.request(region="r")
        stages = here.plane.stages.of(model, asked, Arrival(GRPC, 1, 2, ()), callers)
        names = [getattr(stage, "name", "") or stage.__qualname__ for stage in stages]
        assert names == [
            "Stages._trace",
            "access",
            "tenants",
            "RolloutStage.begin",
            "Stages._name_origin",
            "Stages._capture",
            "Stages._admit",
            "Stages._find_regions",
        ]
