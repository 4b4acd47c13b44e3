# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Steps of an ensemble that run on a condition."""

import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.request import Tensor
from deployments.ensembles.graph import StepGraph
from tests.support.step_graphs import Rig, graph, model, request, step, tensor


def branches(**parameters: str) -> StepGraph:
    """``a`` and ``b`` read X, ``a2`` follows ``a``, ``join`` takes what there is of both."""
    return graph(
        "X C",
        "Y Z",
        [
            step("a", "I=X", "O=l"),
            step("a2", "I=l", "O=Z"),
            step("b", "I=X", "O=r"),
            step("join", "K=l J=r", "O=Y"),
        ],
        [
            model("a", "I", "O"),
            model("a2", "I", "O"),
            model("b", "I", "O"),
            model("join", "K? J?", "O"),
        ],
        parameters={f"condition.{key.strip('_')}": text for key, text in parameters.items()},
    )


def flag(*values: bool) -> Tensor:
    return Tensor("C", "BOOL", (1, len(values)), memoryview(bytes(values)))


def run(rig: Rig) -> Rig:
    for call in rig.calls:
        call.run()
    assert rig.sink.ends == 1
    return rig


EITHER = branches(_0="C", _2="!C")


def test_a_tensor_decides_which_of_two_branches_runs():
    taken = run(Rig(EITHER, request("X", flag(True))))
    assert taken.names == ["a", "a2", "join"]
    assert taken.sink.texts == [{"Y": "join(a(X).O).O", "Z": "a2(a(X).O).O"}]
    other = run(Rig(EITHER, request("X", flag(False, False))))
    assert other.names == ["b", "join"]
    # What followed the other branch is left out with it.
    assert other.sink.texts == [{"Y": "join(b(X).O).O"}]


def test_a_tensor_that_a_step_makes_decides():
    made = graph(
        "X",
        "Y",
        [step("ask", "I=X", "O=c"), step("a", "I=X", "O=Y")],
        [model("ask", "I", "O"), model("a", "I", "O")],
        parameters={"condition.1": "c"},
    )
    rig = Rig(made, request("X"))
    assert rig.names == ["ask"]
    rig.calls[0].answer(Tensor("O", "BOOL", (1,), memoryview(b"\x01")))
    assert rig.names == ["ask", "a"]
    rig.calls[1].run()
    assert rig.sink.texts == [{"Y": "a(X).O"}]


@pytest.mark.parametrize(
    ("parameters", "names"), [({"on": True}, ["a"]), ({"on": False}, ["b"]), ({}, ["b"])]
)
def test_a_parameter_decides_and_is_false_when_not_given(parameters, names):
    of = branches(_0="parameter:on", _2="!parameter:on")
    assert Rig(of, request("X", flag(True), parameters=parameters)).names == names


def test_when_every_step_is_skipped_the_answer_has_no_outputs():
    of = branches(_0="parameter:on", _2="parameter:on", _3="parameter:on")
    rig = Rig(of, request("X", flag(True)))
    assert (rig.names, rig.sink.texts, rig.sink.ends) == ([], [{}], 1)
    assert rig.ended == [None]


@pytest.mark.parametrize(
    ("condition", "given", "text"),
    [
        ("C", flag(True, False), "has shape [1, 2] with both values, expected the same value"),
        ("C", flag(), "has shape [1, 0] with no element"),
        (
            "parameter:on",
            flag(True),
            "parameter 'on' decides whether a step runs and has value '1'",
        ),
    ],
)
def test_what_cannot_decide_is_an_error(condition, given, text):
    rig = Rig(branches(_0=condition), request("X", given, parameters={"on": 1}))
    assert isinstance(rig.sink.error, InvalidArgumentError)
    assert text in rig.sink.error.message
    assert rig.names == []
    assert rig.sink.ends == 1


def test_an_error_of_a_condition_ends_what_is_in_flight():
    made = graph(
        "X",
        "Y",
        [step("ask", "I=X", "O=c"), step("a", "I=X", "O=m"), step("b", "I=m", "O=Y")],
        [model(name, "I", "O") for name in ("ask", "a", "b")],
        parameters={"condition.2": "c"},
    )
    rig = Rig(made, request("X"))
    rig.calls[1].answer(tensor("O", "m"))
    rig.calls[0].answer(Tensor("O", "BOOL", (2,), memoryview(b"\x01\x00")))
    assert rig.names == ["ask", "a"]
    assert rig.sink.error is not None
    assert rig.sink.ends == 1
