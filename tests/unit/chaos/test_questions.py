# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What clients ask and how they know the answer."""

import json

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from tests.chaos import wire
from tests.chaos.load import MIX
from tests.chaos.questions import TRAFFICS, Question, Summing, questions_of
from tests.chaos.records import ERROR, HUNG, LOST, OK, REFUSED, WRONG

ALL = sorted({part.traffic for part in MIX})


def first(traffic: str, client: int = 3) -> Question:
    return questions_of(traffic, client, has_large=False).next()


@pytest.mark.parametrize("traffic", ALL)
def test_no_two_clients_ask_the_same_question(traffic: str) -> None:
    numbers = []
    for client in range(5):
        questions = questions_of(traffic, client, has_large=True)
        for _ in range(50):
            numbers.append(questions.next().number)
            questions.settle(OK)
    assert len(set(numbers)) == len(numbers)


def test_all_traffic_is_that_of_some_model() -> None:
    assert frozenset().union(*TRAFFICS.values()) == set(ALL)


class TestSequences:
    def test_a_sequence_sums_and_ends(self) -> None:
        questions = Summing(1)
        total, asked = 0, []
        while not asked or questions.is_midway:
            asked.append(questions.next())
            questions.settle(OK)
            total += asked[-1].number
            (expected,) = asked[-1].expected
            assert expected["ROW"].tolist() == [[total, asked[0].number]]
        assert [each.parameters["sequence_start"] for each in asked] == [
            True, *[False] * (len(asked) - 1),
        ]  # fmt: skip
        assert [each.parameters["sequence_end"] for each in asked] == [
            *[False] * (len(asked) - 1), True,
        ]  # fmt: skip
        assert questions.next().sequence != asked[0].sequence

    @pytest.mark.parametrize("kind", [ERROR, LOST, HUNG, REFUSED, WRONG])
    def test_a_sequence_of_which_a_request_failed_is_given_up(self, kind: str) -> None:
        questions = Summing(1)
        before = questions.next()
        questions.settle(kind)
        assert not questions.is_midway
        after = questions.next()
        assert after.parameters["sequence_start"]
        assert after.sequence != before.sequence


def http_answer(question: Question) -> dict[str, object]:
    (expected,) = question.expected
    outputs = [
        {
            "name": name,
            "datatype": {"int32": "INT32", "int64": "INT64"}[str(array.dtype)],
            "shape": list(array.shape),
            "data": array.reshape(-1).tolist(),
        }
        for name, array in expected.items()
    ]
    return {"id": str(question.number), "outputs": outputs}


@pytest.mark.parametrize("traffic", [each for each in ALL if each != "stream"])
def test_the_answer_is_known_over_http(traffic: str) -> None:
    question = first(traffic)
    assert json.loads(wire.http_body(question, None))["id"] == str(question.number)
    answer = json.dumps(http_answer(question)).encode()
    assert wire.of_http(question, None, 200, answer)[0] == OK


def test_the_answer_to_another_question_is_wrong_over_http() -> None:
    question, other = first("unary"), first("unary", client=4)
    swapped = {**http_answer(other), "id": str(question.number)}
    assert wire.of_http(question, None, 200, json.dumps(swapped).encode())[0] == WRONG
    assert wire.of_http(question, None, 200, json.dumps(http_answer(other)).encode())[0] == WRONG
    assert wire.of_http(question, None, 200, b"{")[0] == WRONG


def test_an_error_over_http_has_the_code_that_grpc_has_for_it() -> None:
    assert wire.of_http(first("unary"), None, 503, b"later") == (ERROR, "UNAVAILABLE", "later")


def grpc_answers(question: Question) -> list[service_pb2.ModelInferResponse]:
    answers = []
    for each in question.expected:
        answer = service_pb2.ModelInferResponse(id=str(question.number))
        for name, array in each.items():
            kind = {"int32": "INT32", "int64": "INT64"}[str(array.dtype)]
            answer.outputs.add(name=name, datatype=kind, shape=array.shape)
            answer.raw_output_contents.append(array.tobytes())
        answers.append(answer)
    return answers


@pytest.mark.parametrize("traffic", ALL)
def test_the_answer_is_known_over_grpc(traffic: str) -> None:
    question = first(traffic)
    assert wire.grpc_request(question, None).id == str(question.number)
    assert wire.of_grpc(question, None, grpc_answers(question))[0] == OK


def test_responses_that_are_missing_doubled_or_swapped_are_wrong() -> None:
    questions = questions_of("stream", 2, has_large=False)
    question = next(q for q in iter(questions.next, None) if len(q.expected) > 2)
    answers = grpc_answers(question)
    for found in (answers[:-1], [*answers, answers[-1]], answers[::-1], []):
        assert wire.of_grpc(question, None, found)[0] == WRONG


def test_an_array_of_another_shape_is_wrong() -> None:
    question = first("unary")
    wrong = [{"SUM": question.expected[0]["SUM"].reshape(-1, 1)}]
    assert wire.compare(question, str(question.number), wrong)[0] == WRONG
    assert wire.compare(question, str(question.number), [{"SUM": np.array([])}])[0] == WRONG


@pytest.mark.parametrize(
    ("text", "code"),
    [("instance 'a' ended; send the request again", "UNAVAILABLE"), ("no such tensor", "")],
)
def test_an_error_on_a_stream_is_told_by_its_text(text: str, code: str) -> None:
    assert wire.of_stream_error(text) == (ERROR, code, text)
