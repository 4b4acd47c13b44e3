# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How many requests of a step are in flight at a time."""

import time
from collections.abc import Sequence

import pytest

from backends.api.errors import (
    InternalError,
    RequestCancelledError,
    TritonError,
    UnavailableError,
)
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.ensembles.graph import Step
from deployments.ensembles.step import StepLimits
from deployments.response_cache.cached_model import CachedModel
from deployments.response_cache.local import LocalCache
from tests.support.step_graphs import Call, Rig, graph, model, request, step

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
# More than fit on the stack, were each sent from within the end of the one before.
MANY = 400


class CachedRig(Rig):
    """Runs one request whose steps' models have a cache in this process."""

    def __init__(self, cache: CachedModel, limits: StepLimits) -> None:
        self.cache = cache
        super().__init__(CHAIN, request("X"), limits=limits)

    def _send(self, step: Step, request: InferenceRequest, sink: ResponseSink, /) -> Inflight:  # type: ignore[override]
        forward = super()._send
        return self.cache.start(request, sink, lambda asked, sink: forward(step, asked, sink))


def ended(rigs: Sequence[Rig]) -> int:
    return sum(rig.sink.ends for rig in rigs)


def is_free(limits: StepLimits) -> bool:
    """Whether no step request counts, and none waits."""
    return not any(limits._inflight.values()) and not any(limits._waiting.values())


def is_served(limits: StepLimits) -> bool:
    """Whether one request more is answered."""
    rig = Rig(CHAIN, request("X"), limits=limits)
    for at in range(2):
        rig.calls[at].run()
    return rig.sink.finals == [True] and is_free(limits)


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


def test_all_requests_that_wait_end_when_their_steps_model_loses_its_instance():
    limits = StepLimits(1)
    rigs = [Rig(CHAIN, request("X"), limits=limits) for _ in range(MANY)]
    gone = UnavailableError("model 'a' has no instance")
    for rig in rigs:
        rig.refusals["a"] = gone
    rigs[0].calls[0].fail(gone)
    assert ended(rigs) == MANY
    assert {type(rig.sink.error) for rig in rigs} == {UnavailableError}
    assert is_served(limits)


def test_all_requests_that_wait_end_when_the_cache_answers_their_steps_at_once():
    limits = StepLimits(1)
    cache = CachedModel(LocalCache(1 << 20, time.monotonic_ns), time.monotonic_ns)
    rigs: list[Rig] = [CachedRig(cache, limits) for _ in range(MANY)]
    # The answers of the first request are those of all others.
    for at in range(2):
        rigs[0].calls[at].run()
    assert ended(rigs) == MANY
    assert all(rig.sink.texts == [{"Y": "b(a(X).O).O"}] for rig in rigs)
    assert is_served(limits)


def test_a_place_that_is_free_is_given_to_who_waits_longest():
    limits = StepLimits(1)
    rigs = [Rig(CHAIN, request("X"), limits=limits) for _ in range(3)]
    late: list[Rig] = []
    # One more comes while the second is refused, when its place is free and the third waits.
    rigs[1].refusals["a"] = UnavailableError("no")
    rigs[1].sink.fail = lambda *_, **__: late.append(Rig(CHAIN, request("X"), limits=limits))  # type: ignore[method-assign]
    rigs[0].calls[0].run()
    rigs[0].calls[1].run()
    assert (rigs[2].names, late[0].names) == (["a"], [])
    rigs[2].calls[0].run()
    assert late[0].names == ["a"]


@pytest.mark.parametrize("fault", [ValueError("no such row"), RecursionError("too deep")])
def test_whatever_a_step_raises_ends_its_request_and_frees_its_place(fault: Exception):
    limits = StepLimits(1)
    rigs = [Rig(CHAIN, request("X"), limits=limits) for _ in range(3)]
    rigs[1].refusals["a"] = fault  # type: ignore[assignment]
    rigs[0].calls[0].run()
    error = rigs[1].sink.error
    assert isinstance(error, InternalError)
    assert error.message == (
        f"in ensemble 'e', a request for the step of model 'a' failed: "
        f"{type(fault).__name__}: {fault}; the server's log says where"
    )
    rigs[0].calls[1].run()
    for call in range(2):
        rigs[2].calls[call].run()
    assert ended(rigs) == 3
    assert is_served(limits)


def test_a_fault_while_a_response_is_taken_ends_its_request_and_frees_its_place():
    limits = StepLimits(1)
    rigs = [Rig(CHAIN, request("X"), limits=limits) for _ in range(2)]
    response = InferenceResponse("a", "1", outputs=None)  # type: ignore[arg-type]
    rigs[0].calls[0].sink.respond(response, final=True)
    assert isinstance(rigs[0].sink.error, InternalError)
    assert "a request for the step of model 'a' failed" in rigs[0].sink.error.message
    assert rigs[1].names == ["a"]
    for call in range(2):
        rigs[1].calls[call].run()
    assert is_served(limits)


def test_a_sink_that_raises_costs_no_other_request_its_place():
    limits = StepLimits(1)
    rigs = [Rig(CHAIN, request("X"), limits=limits) for _ in range(2)]

    def fail(error: TritonError, *, final: bool = True) -> None:
        raise OSError(f"nobody takes '{error.message}'")

    rigs[0].sink.fail = fail  # type: ignore[method-assign]
    first: Call = rigs[0].calls[0]
    first.fail(UnavailableError("no"))
    assert rigs[1].names == ["a"]
    for call in range(2):
        rigs[1].calls[call].run()
    assert is_served(limits)


def test_a_sink_that_raises_at_one_of_several_responses_holds_no_step_up():
    limits = StepLimits(1)
    rig = Rig(FLOW, request("X"), limits=limits)

    def respond(response: InferenceResponse | None, *, final: bool) -> None:
        if not final:
            raise OSError("nobody takes it")

    rig.sink.respond = respond  # type: ignore[method-assign]
    stream = rig.calls[0]
    for at in (1, 2):
        stream.run(final=False)
        rig.calls[at].run()
    assert stream.credits == 2
    stream.close()
    assert is_free(limits)


def test_a_place_that_was_freed_is_given_away_once():
    limits = StepLimits(2)
    rigs = [Rig(CHAIN, request("X"), limits=limits) for _ in range(4)]
    for rig in rigs[:2]:
        rig.calls[0].run()
    assert [len(rig.calls) for rig in rigs] == [2, 2, 1, 1]
    # Two of the first step are in flight, though nobody waits.
    fifth = Rig(CHAIN, request("X"), limits=limits)
    assert fifth.names == []
    rigs[0].calls[1].run()
    rigs[2].calls[0].run()
    assert fifth.names == ["a"]


def test_a_stream_that_has_ended_keeps_its_place_until_all_its_responses_are_taken():
    limits = StepLimits(1)
    rig = Rig(FLOW, request("X"), limits=limits)
    for _ in range(3):
        rig.calls[0].run(final=False)
    rig.calls[0].close()
    second = Rig(FLOW, request("X"), limits=limits)
    assert (rig.names, second.names) == (["flow", "b"], [])
    rig.calls[1].run()
    assert (rig.names, second.names) == (["flow", "b", "b"], [])
    rig.calls[2].run()
    assert (rig.names, second.names) == (["flow", "b", "b", "b"], ["flow"])


def test_the_end_of_a_request_that_was_never_sent_frees_no_place():
    limits = StepLimits(1)
    first, second = (Rig(CHAIN, request("X"), limits=limits) for _ in range(2))
    second.run.cancel()
    assert Rig(CHAIN, request("X"), limits=limits).names == []
    assert first.names == ["a"]
