# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from backends.api.errors import TritonError, UnavailableError
from backends.api.request import InferenceRequest, InferenceResponse, tensor_from_numpy
from deployments.captures import provenance
from deployments.captures.capturing import Captures
from deployments.captures.records import CaptureRecord
from deployments.captures.rules import read_rules


@dataclass
class Sink:
    """Notes what reaches it."""

    heard: list[Any] = field(default_factory=list)

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        self.heard.append((response, final))

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        self.heard.append((error, final))


@dataclass
class Model:
    name: str = "m"
    version_text: str = "2"


class Queue:
    def __init__(self) -> None:
        self.records: list[CaptureRecord] = []

    def offer(self, record: CaptureRecord) -> bool:
        self.records.append(record)
        return True


class Clock:
    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def _captures(queue: Queue, clock: Clock, **rule: Any) -> Captures:
    rules = read_rules({"store": "x", "captures": [{"models": ["m"], **rule}]})
    return Captures(rules, queue, lambda: 5.0, clock, lambda: "id")


def _request() -> InferenceRequest:
    return InferenceRequest("m", inputs=[tensor_from_numpy("X", np.zeros(2, np.int32))])


def _response() -> InferenceResponse:
    return InferenceResponse("m", "2", outputs=[tensor_from_numpy("Y", np.ones(2, np.int32))])


def test_request_and_answer_are_kept_and_passed_on() -> None:
    queue, clock, sink = Queue(), Clock(), Sink()
    watched = _captures(queue, clock).watch(Model(), _request(), sink, "digest", "arm")
    clock.now_ns = 3_000_000
    response = _response()
    watched.respond(response, final=True)
    assert sink.heard == [(response, True)]
    [record] = queue.records
    assert (record.version, record.digest, record.arm) == ("2", "digest", "arm")
    assert (record.outcome, record.latency_us) == ("ok", 3000)
    assert record.request is not None
    assert record.request.inputs[0].data == bytes(8)
    assert len(record.responses) == 1


def test_a_model_that_no_rule_has_keeps_its_own_sink() -> None:
    sink = Sink()
    captures = _captures(Queue(), Clock())
    assert captures.watch(Model("other"), _request(), sink) is sink


def test_a_request_that_is_not_sampled_keeps_its_own_sink() -> None:
    sink = Sink()
    captures = _captures(Queue(), Clock(), fraction=0.5)
    watched = [captures.watch(Model(), _request(), sink) for _ in range(10)]
    assert sum(each is not sink for each in watched) == 5


@pytest.mark.parametrize(
    ("outcomes", "kept"),
    [("all", ["ok", "Unavailable"]), ("answered", ["ok"]), ("failed", ["Unavailable"])],
)
def test_outcomes_choose_what_is_kept(outcomes: str, kept: list[str]) -> None:
    queue, sink = Queue(), Sink()
    captures = _captures(queue, Clock(), outcomes=outcomes)
    captures.watch(Model(), _request(), sink).respond(_response(), final=True)
    captures.watch(Model(), _request(), sink).fail(UnavailableError("no"))
    assert [each.outcome for each in queue.records] == kept
    assert len(sink.heard) == 2


def test_halves_that_are_not_wanted_are_not_kept() -> None:
    queue = Queue()
    captures = _captures(queue, Clock(), parts=["response"])
    captures.watch(Model(), _request(), Sink()).respond(_response(), final=True)
    assert queue.records[0].request is None
    assert queue.records[0].responses


def test_with_redaction_texts_of_errors_are_not_kept() -> None:
    queue = Queue()
    captures = _captures(queue, Clock(), redact={"inputs": ["X"]})
    captures.watch(Model(), _request(), Sink()).fail(UnavailableError("value 17 is bad"))
    assert (queue.records[0].outcome, queue.records[0].message) == ("Unavailable", "")


def test_a_stream_is_one_record() -> None:
    queue, sink = Queue(), Sink()
    watched = _captures(queue, Clock()).watch(Model(), _request(), sink)
    watched.respond(_response(), final=False)
    watched.respond(_response(), final=False)
    assert not queue.records
    watched.respond(None, final=True)
    assert len(queue.records[0].responses) == 2
    assert len(sink.heard) == 3


def test_an_answer_names_its_origin_and_a_shared_one_stays_as_it_is() -> None:
    sink = Sink()
    shared = {"a": 1}
    response = InferenceResponse("m", "2", parameters=shared)
    provenance.ProvenanceSink(sink, "2", "digest", "").respond(response, final=True)
    assert sink.heard[0][0].parameters == {
        "a": 1,
        provenance.VERSION: "2",
        provenance.DIGEST: "digest",
    }
    assert shared == {"a": 1}


@pytest.mark.parametrize(
    ("parameters", "is_asked"),
    [({}, False), ({"manta_provenance": False}, False), ({"manta_provenance": True, "b": 1}, True)],
)
def test_the_parameter_that_asks_for_the_origin_is_taken_out(
    parameters: dict[str, Any], is_asked: bool
) -> None:
    request = InferenceRequest("m", parameters=parameters)
    assert provenance.is_asked(request) is is_asked
    assert provenance.ASKED_BY not in request.parameters
