# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    RequestCancelledError,
)
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.ensembles.graph import StepGraph
from deployments.ensembles.step import StepLimits
from tests.support.step_graphs import Rig, graph, model, request, step, tensor

A = model("a", "I", "O")
B = model("b", "I", "O")
PAIR = model("pair", "I J", "O")
CHAIN = graph("X", "Y", [step("a", "I=X", "O=m"), step("b", "I=m", "O=Y")], [A, B])
DIAMOND = graph(
    "X",
    "Y",
    [
        step("a", "I=X", "O=l"),
        step("b", "I=X", "O=r"),
        step("pair", "I=l J=r", "O=Y"),
    ],
    [A, B, PAIR],
)


def test_a_step_starts_when_its_input_is_there():
    rig = Rig(CHAIN, request("X"))
    assert rig.names == ["a"]
    rig.calls[0].run()
    assert rig.names == ["a", "b"]
    rig.calls[1].run()
    assert rig.sink.texts == [{"Y": "b(a(X).O).O"}]
    assert rig.sink.finals == [True]
    assert rig.ended == [None]


def test_independent_steps_run_in_parallel_and_meet():
    rig = Rig(DIAMOND, request("X"))
    assert rig.names == ["a", "b"]
    rig.calls[1].run()
    assert len(rig.calls) == 2
    rig.calls[0].run()
    assert rig.calls[2].inputs == {"I": "a(X).O", "J": "b(X).O"}


def test_steps_carry_what_the_request_says():
    given_request = request(
        "X",
        parameters={"k": "v"},
        priority=2,
        timeout_us=5,
        correlation_id=9,
        flags=SEQUENCE_START,
    )
    rig = Rig(CHAIN, given_request)
    rig.calls[0].run()
    for call in rig.calls:
        sent = call.request
        assert (sent.id, sent.parameters, sent.priority, sent.timeout_us) == ("7", {"k": "v"}, 2, 5)
        assert (sent.correlation_id, sent.flags) == (9, SEQUENCE_START)
        assert sent.outputs == ["O"]


def test_a_response_repeats_the_sequence_fields():
    rig = Rig(CHAIN, request("X", correlation_id=9, flags=SEQUENCE_END))
    rig.calls[0].run()
    rig.calls[1].run()
    assert rig.sink.responses[0].parameters == {
        "sequence_id": 9,
        "sequence_start": False,
        "sequence_end": True,
    }


def test_computing_times_are_summed_over_the_steps():
    rig = Rig(CHAIN, request("X", wants_times=True))
    assert rig.calls[0].request.wants_times
    rig.calls[0].answer(tensor("O"), compute_ns=(1, 2, 3))
    rig.calls[1].answer(tensor("O"), compute_ns=(10, 20, 30))
    assert rig.run.compute_ns == (11, 22, 33)
    assert rig.sink.responses[0].compute_ns == (11, 22, 33)


def test_steps_are_the_tenants_who_asked_and_what_they_cost_is_summed():
    rig = Rig(CHAIN, request("X", wants_times=True, tenant="t", weight=3.0))
    asked = [rig.calls[0].request]
    rig.calls[0].answer(tensor("O"), compute_ns=(1, 2, 3), share_ns=4, queue_ns=5)
    asked.append(rig.calls[1].request)
    rig.calls[1].answer(tensor("O"), compute_ns=(1, 2, 3), share_ns=40, queue_ns=50)
    assert [(each.tenant, each.weight) for each in asked] == [("t", 3.0)] * 2
    answer = rig.sink.responses[0]
    assert (answer.share_ns, answer.queue_ns) == (44, 55)


def test_a_steps_response_may_set_the_sequence_of_what_follows():
    rig = Rig(CHAIN, request("X"))
    rig.calls[0].answer(
        tensor("O"), parameters={"sequence_id": "s", "sequence_start": True, "other": 1}
    )
    assert (rig.calls[1].request.correlation_id, rig.calls[1].request.flags) == (
        "s",
        SEQUENCE_START,
    )


def test_sequence_parameters_of_the_wrong_type_are_an_error():
    rig = Rig(CHAIN, request("X"))
    rig.calls[0].answer(tensor("O"), parameters={"sequence_start": 1})
    assert rig.sink.error is not None
    assert rig.sink.error.message == (
        "in ensemble 'e', expect parameter 'sequence_start' to be TRITONSERVER_PARAMETER_BOOL"
    )


def test_steps_that_no_requested_output_needs_do_not_run():
    fan = graph(
        "X",
        "Y Z",
        [step("a", "I=X", "O=Y"), step("b", "I=X", "O=m"), step("pair", "I=m J=X", "O=Z")],
        [A, B, PAIR],
    )
    rig = Rig(fan, request("X", outputs=["Y"]))
    assert rig.names == ["a"]
    rig.calls[0].run()
    assert rig.sink.texts == [{"Y": "a(X).O"}]
    assert rig.sink.finals == [True]


def test_the_first_error_is_the_outcome_once_all_steps_have_ended():
    rig = Rig(DIAMOND, request("X"))
    rig.calls[0].fail(InternalError("no"))
    assert not rig.sink.ends
    assert rig.calls[1].cancelled
    rig.calls[1].fail(RequestCancelledError(""))
    assert isinstance(rig.sink.error, InternalError)
    assert rig.sink.error.message == "in ensemble 'e', no"
    assert rig.names == ["a", "b"]
    assert rig.ended == [rig.sink.error]


def test_a_step_that_refuses_its_request_fails_the_ensemble():
    rig = Rig(DIAMOND, request("X"), refusals={"b": InvalidArgumentError("bad shape")})
    rig.calls[0].run()
    assert rig.sink.error is not None
    assert rig.sink.error.message == "in ensemble 'e', bad shape"


def test_a_step_without_any_response_is_a_deadlock():
    rig = Rig(CHAIN, request("X"))
    rig.calls[0].close()
    assert isinstance(rig.sink.error, InvalidArgumentError)
    assert rig.sink.error.message == (
        "in ensemble 'e', [request id: 7] unexpected deadlock, at least one output is not set "
        "while no more ensemble steps can be made"
    )


def test_a_cancel_reaches_the_steps_and_ends_once():
    rig = Rig(DIAMOND, request("X"))
    rig.run.cancel()
    rig.run.cancel()
    assert [call.cancelled for call in rig.calls] == [True, True]
    rig.calls[0].run()
    rig.calls[1].fail(RequestCancelledError(""))
    assert isinstance(rig.sink.error, RequestCancelledError)
    assert rig.sink.ends == 1
    assert rig.names == ["a", "b"]


def test_an_optional_input_left_out_is_left_out_of_the_step():
    optional = graph(
        "X N?",
        "Y",
        [step("o", "I=X J=N", "O=Y")],
        [model("o", "I J?", "O")],
    )
    rig = Rig(optional, request("X"))
    assert rig.calls[0].inputs == {"I": "X"}


def test_an_output_left_out_is_left_out_of_what_follows():
    two = graph(
        "X",
        "Y Z",
        [step("two", "I=X", "O=m P=Z"), step("a", "I=m", "O=Y")],
        [model("two", "I", "O P"), A],
    )
    rig = Rig(two, request("X"))
    rig.calls[0].run(only=["O"])
    rig.calls[1].run()
    assert rig.sink.texts == [{"Y": "a(two(X).O).O"}]


def test_a_batch_dimension_is_added_for_a_model_that_wants_one_and_dropped_for_one_that_does_not():
    mixed = graph(
        "X",
        "Y",
        [step("plain", "I=X", "O=m"), step("a", "I=m", "O=Y")],
        [model("plain", "I", "O", batch=0, dims=(3,)), model("a", "I", "O", dims=(3,))],
        dims=(3,),
    )
    rig = Rig(mixed, request(tensor("X", shape=(1, 3))))
    assert rig.calls[0].request.inputs[0].shape == (3,)
    rig.calls[0].answer(tensor("O", shape=(3,)))
    assert rig.calls[1].request.inputs[0].shape == (1, 3)
    rig.calls[1].answer(tensor("O", shape=(1, 3)))
    assert rig.sink.responses[0].outputs[0].shape == (1, 3)


def test_a_larger_batch_is_not_dropped():
    mixed = graph(
        "X",
        "Y",
        [step("plain", "I=X", "O=Y")],
        [model("plain", "I", "O", batch=0, dims=(-1, 3))],
        dims=(3,),
    )
    rig = Rig(mixed, request(tensor("X", shape=(2, 3))))
    assert rig.calls[0].request.inputs[0].shape == (2, 3)


@st.composite
def dags(draw: st.DrawFn) -> StepGraph:
    """Steps each of which reads some of the tensors before it."""
    tensors = ["X"]
    steps, models = [], []
    for index in range(draw(st.integers(1, 6))):
        reads = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3, unique=True))
        names = [f"I{place}" for place in range(len(reads))]
        models.append(model(f"s{index}", " ".join(names), "O"))
        pairs = " ".join(f"{name}={read}" for name, read in zip(names, reads, strict=True))
        steps.append(step(f"s{index}", pairs, f"O=t{index}"))
        tensors.append(f"t{index}")
    outputs = draw(st.lists(st.sampled_from(tensors[1:]), min_size=1, unique=True))
    return graph("X", " ".join(outputs), steps, models)


def expected(of: StepGraph, name: str) -> str:
    for each in of.steps:
        if of.tensors[next(iter(each.outputs.values()))] == name:
            reads = ",".join(expected(of, of.tensors[edge.tensor]) for edge in each.inputs)
            return f"{each.model_name}({reads}).O"
    return name


@given(dags(), st.data())
def test_any_graph_in_any_order_of_answers_gives_what_its_steps_compose_to(
    dag: StepGraph, data: Any
):
    wanted = data.draw(st.lists(st.sampled_from([each.name for each in dag.outputs]), unique=True))
    rig = Rig(dag, request("X", outputs=wanted))
    answered = 0
    waiting = list(rig.calls)
    while waiting:
        call = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
        before = len(rig.calls)
        call.run()
        answered += 1
        waiting += rig.calls[before:]
    names = wanted or [each.name for each in dag.outputs]
    assert rig.sink.texts == [{name: expected(dag, name) for name in reversed_as(dag, names)}]
    assert rig.sink.ends == 1
    assert answered == len(dag.plan(wanted).steps) == len(set(rig.names))


def reversed_as(dag: StepGraph, names: list[str]) -> list[str]:
    return [each.name for each in dag.outputs if each.name in names]


@given(dags(), st.data())
def test_an_error_or_a_cancel_at_any_point_ends_exactly_once(dag: StepGraph, data: Any):
    limits = StepLimits(1) if data.draw(st.booleans()) else None
    rigs = [Rig(dag, request("X"), limits=limits) for _ in range(2)]
    waiting = [(rig, call) for rig in rigs for call in rig.calls]
    while waiting:
        rig, call = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
        before = [len(each.calls) for each in rigs]
        action = data.draw(st.sampled_from(["run", "fail", "close", "cancel"]))
        if action == "cancel":
            rig.run.cancel()
        if action == "fail" or call.cancelled:
            call.fail(InternalError("no"))
        elif action == "close":
            call.close()
        else:
            call.run()
        for each, count in zip(rigs, before, strict=True):
            waiting += [(each, call) for call in each.calls[count:]]
    # No place is lost: another request runs as far as it can.
    last = Rig(dag, request("X"), limits=limits)
    for call in last.calls:
        call.run()
    assert [each.sink.ends for each in (*rigs, last)] == [1, 1, 1]
    assert [len(each.ended) for each in (*rigs, last)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, (9, SEQUENCE_START)),
        ({"other": 1}, (9, SEQUENCE_START)),
        ({"sequence_id": 4}, (4, 0)),
        ({"sequence_id": "four"}, ("four", 0)),
        ({"sequence_start": True}, (9, SEQUENCE_START)),
        ({"sequence_end": True}, (9, SEQUENCE_END)),
        ({"sequence_end": False}, (9, 0)),
        ({"sequence_start": True, "sequence_end": True}, (9, SEQUENCE_START | SEQUENCE_END)),
    ],
)
def test_a_step_may_say_which_sequence_those_after_it_belong_to(parameters, expected):
    rig = Rig(CHAIN, request("X", correlation_id=9, flags=SEQUENCE_START))
    rig.calls[0].answer(tensor("O"), parameters=parameters)
    sent = rig.calls[1].request
    assert (sent.correlation_id, sent.flags) == expected


@pytest.mark.parametrize(
    "parameters", [{"sequence_id": True}, {"sequence_id": 0.5}, {"sequence_start": 1}]
)
def test_a_sequence_of_another_type_is_an_error(parameters):
    rig = Rig(CHAIN, request("X"))
    rig.calls[0].answer(tensor("O"), parameters=parameters)
    assert isinstance(rig.sink.error, InvalidArgumentError)


def test_a_cancelled_request_says_so_with_its_ensemble():
    rig = Rig(CHAIN, request("X"))
    rig.run.cancel()
    assert rig.calls[0].cancelled
    rig.calls[0].fail(RequestCancelledError(""))
    assert rig.sink.error is not None
    assert rig.sink.error.message == "in ensemble 'e', "


def test_tensors_that_all_readers_have_are_kept_no_longer():
    rig = Rig(CHAIN, request("X"))
    rig.calls[0].run()
    assert rig.run._frames == {}


def test_a_request_that_was_answered_before_its_last_step_ended_has_no_error():
    rig = Rig(CHAIN, request("X"))
    rig.calls[0].run()
    rig.calls[1].run(final=False)
    assert (rig.sink.finals, rig.sink.ends) == ([False], 0)
    rig.calls[1].close()
    assert (rig.sink.error, rig.sink.ends) == (None, 1)
