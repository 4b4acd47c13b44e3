# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest

from backends.api.errors import UnavailableError
from backends.api.request import InferenceRequest, InferenceResponse, tensor_from_numpy
from deployments.captures import provenance
from deployments.captures.capturing import Captures
from deployments.captures.records import CaptureRecord
from deployments.captures.rules import read_rules
from deployments.tracing.passing_sink import Observer


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


def _watched(captures: Captures, *who: str) -> Observer:
    observer = captures.watch("m", "2", _request(), *who)
    assert observer is not None
    return observer


def _answer(observer: Observer) -> None:
    observer.responded(_response(), final=True)
    observer.ended(None, is_refusal=False)


def _fail(observer: Observer, text: str = "no") -> None:
    observer.ended(UnavailableError(text), is_refusal=False)


def _request() -> InferenceRequest:
    return InferenceRequest("m", inputs=[tensor_from_numpy("X", np.zeros(2, np.int32))])


def _response() -> InferenceResponse:
    return InferenceResponse("m", "2", outputs=[tensor_from_numpy("Y", np.ones(2, np.int32))])


def test_request_and_answer_are_kept() -> None:
    queue, clock = Queue(), Clock()
    observer = _watched(_captures(queue, clock), "digest", "arm")
    clock.now_ns = 3_000_000
    _answer(observer)
    [record] = queue.records
    assert (record.version, record.digest, record.arm) == ("2", "digest", "arm")
    assert (record.outcome, record.latency_us) == ("ok", 3000)
    assert record.request is not None
    assert record.request.inputs[0].data == bytes(8)
    assert len(record.responses) == 1


def test_a_model_that_no_rule_has_is_not_observed() -> None:
    assert _captures(Queue(), Clock()).watch("other", "1", _request()) is None


def test_a_request_that_is_not_sampled_is_not_observed() -> None:
    captures = _captures(Queue(), Clock(), fraction=0.5)
    watched = [captures.watch("m", "2", _request()) for _ in range(10)]
    assert sum(each is not None for each in watched) == 5


@pytest.mark.parametrize(
    ("outcomes", "kept"),
    [("all", ["ok", "Unavailable"]), ("answered", ["ok"]), ("failed", ["Unavailable"])],
)
def test_outcomes_choose_what_is_kept(outcomes: str, kept: list[str]) -> None:
    queue = Queue()
    captures = _captures(queue, Clock(), outcomes=outcomes)
    _answer(_watched(captures))
    _fail(_watched(captures))
    assert [each.outcome for each in queue.records] == kept


@pytest.mark.parametrize("fraction", [0.5, 0.1])
@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize(("outcomes", "wanted"), [("answered", "ok"), ("failed", "Unavailable")])
def test_a_fraction_is_one_of_the_requests_that_end_as_wanted(
    outcomes: str, wanted: str, *, fraction: float, is_refused: bool
) -> None:
    queue = Queue()
    captures = _captures(queue, Clock(), outcomes=outcomes, fraction=fraction)
    under_way: list[Observer] = []
    for number in range(1000):
        observer = captures.watch("m", "2", _request())
        # Each second one is answered; some are under way together.
        if observer is not None and number % 2:
            observer.ended(UnavailableError("no"), is_refusal=is_refused)
        elif observer is not None:
            under_way.append(observer)
        if number % 10 == 9:
            for each in under_way:
                each.ended(None, is_refusal=False)
            under_way.clear()
    assert {each.outcome for each in queue.records} == {wanted}
    assert abs(len(queue.records) - 500 * fraction) <= 5


def test_halves_that_are_not_wanted_are_not_kept() -> None:
    queue = Queue()
    _answer(_watched(_captures(queue, Clock(), parts=["response"])))
    assert queue.records[0].request is None
    assert queue.records[0].responses


def test_with_redaction_texts_of_errors_are_not_kept() -> None:
    queue = Queue()
    _fail(_watched(_captures(queue, Clock(), redact={"inputs": ["X"]})), "value 17 is bad")
    assert (queue.records[0].outcome, queue.records[0].message) == ("Unavailable", "")


def test_a_stream_is_one_record() -> None:
    queue = Queue()
    observer = _watched(_captures(queue, Clock()))
    observer.responded(_response(), final=False)
    observer.responded(_response(), final=False)
    assert not queue.records
    observer.ended(None, is_refusal=False)
    assert len(queue.records[0].responses) == 2


def test_an_answer_names_its_origin_and_a_shared_one_stays_as_it_is() -> None:
    shared = {"a": 1}
    response = InferenceResponse("m", "2", parameters=shared)
    provenance.Provenance("2", "digest", "").responded(response, final=True)
    assert response.parameters == {
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
