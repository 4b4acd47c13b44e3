# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How many requests of a step are in flight at a time."""

from backends.api.errors import (
    RequestCancelledError,
)
from deployments.ensembles.step import StepLimits
from tests.support.step_graphs import Rig, graph, model, request, step

A = model("a", "I", "O")
B = model("b", "I", "O")
CHAIN = graph("X", "Y", [step("a", "I=X", "O=m"), step("b", "I=m", "O=Y")], [A, B])
FLOW = graph(
    "X",
    "Y",
    [step("flow", "I=X", "O=m"), step("b", "I=m", "O=Y")],
    [model("flow", "I", "O", decoupled=True), B],
    decoupled=True,
)


def test_no_more_requests_of_a_step_are_in_flight_than_the_limit_over_all_requests():
    limits = StepLimits(1)
    first = Rig(CHAIN, request("X"), limits=limits)
    second = Rig(CHAIN, request("X"), limits=limits)
    assert (first.names, second.names) == (["a"], [])
    first.calls[0].run()
    assert (first.names, second.names) == (["a", "b"], ["a"])
    first.calls[1].run()
    second.calls[0].run()
    second.calls[1].run()
    assert first.sink.ends == second.sink.ends == 1


def test_a_request_cancelled_while_a_step_waits_for_its_turn_ends_at_once():
    limits = StepLimits(1)
    first = Rig(CHAIN, request("X"), limits=limits)
    second = Rig(CHAIN, request("X"), limits=limits)
    second.run.cancel()
    assert isinstance(second.sink.error, RequestCancelledError)
    first.calls[0].run()
    first.calls[1].run()
    assert first.sink.finals == [True]


def test_a_decoupled_step_is_given_credit_when_what_follows_takes_its_response():
    limits = StepLimits(2)
    rig = Rig(FLOW, request("X"), limits=limits)
    stream = rig.calls[0]
    assert stream.request.window == 2
    stream.run(final=False)
    stream.run(final=False)
    assert stream.credits == 2
    stream.run(final=False)
    stream.run(final=False)
    assert (rig.names, stream.credits) == (["flow", "b", "b"], 2)
    rig.calls[1].run()
    assert (rig.names, stream.credits) == (["flow", "b", "b", "b"], 3)
    stream.close()
    for call in rig.calls[2:4]:
        call.run()
    rig.calls[4].run()
    assert (len(rig.sink.responses), rig.sink.ends) == (4, 1)


def test_a_step_counts_in_its_limit_until_what_it_starts_is_in_flight():
    limits = StepLimits(1)
    rigs = [Rig(CHAIN, request("X"), limits=limits) for _ in range(3)]
    for rig in rigs[:2]:
        rig.calls[0].run()
    # The second is between the steps, so that the third has to wait in front of the first.
    assert [rig.names for rig in rigs] == [["a", "b"], ["a"], []]
    rigs[0].calls[1].run()
    assert [rig.names for rig in rigs] == [["a", "b"], ["a", "b"], ["a"]]
    rigs[1].run.cancel()
    rigs[1].calls[1].run()
    rigs[2].calls[0].run()
    rigs[2].calls[1].run()
    assert [rig.sink.ends for rig in rigs] == [1, 1, 1]


def test_a_cancel_between_steps_frees_the_place_of_the_step_before():
    limits = StepLimits(1)
    rigs = [Rig(CHAIN, request("X"), limits=limits) for _ in range(3)]
    for rig in rigs[:2]:
        rig.calls[0].run()
    rigs[1].run.cancel()
    assert [rig.names for rig in rigs] == [["a", "b"], ["a"], ["a"]]
