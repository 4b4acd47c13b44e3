# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What surrounds a request hears of each request's begin, its answers and its one end."""

from itertools import combinations

import pytest

from backends.api.errors import InternalError, RequestCancelledError, TritonError
from backends.api.request import InferenceResponse
from tests.support.lane_rig import Sink
from tests.support.staged_plane import FEATURES, StagedPlane, refused, staged_plane

_REFUSE = ("access", "tenants", "rollouts", "admission", "regions", "check")

# What each feature has seen of a request, by what becomes of the request.
_ANSWERED = {
    "tracing": "ended 1",
    "access": "begun",
    "tenants": "ended 1",
    "rollouts": "ended 1, failed 0",
    "provenance": "1 named",
    "captures": "ok 1",
    "admission": "even",
    "regions": "even",
}
_FAILED = _ANSWERED | {
    "rollouts": "ended 1, failed 1",
    "provenance": "0 named",
    "captures": "Internal 0",
}
_CANCELLED = _FAILED | {"rollouts": "begun", "captures": "Cancelled 0"}
_STREAMED = _ANSWERED | {"provenance": "3 named", "captures": "ok 3"}
# By who refuses it: what those have seen that come before, and the one that refuses. A version does
# not answer for requests that are wrong.
_REFUSED = {
    "access": {"tracing": "ended 1", "access": "-"},
    "tenants": {"tracing": "ended 1", "access": "begun", "tenants": "refused"},
    "rollouts": {"tracing": "ended 1", "access": "begun", "tenants": "ended 1", "rollouts": "-"},
    "admission": {
        "tracing": "ended 1",
        "access": "begun",
        "tenants": "ended 1",
        "rollouts": "ended 1, failed 1",
        "provenance": "0 named",
        "captures": "Unavailable 0",
        "admission": "refused",
    },
    "regions": {
        "tracing": "ended 1",
        "access": "begun",
        "tenants": "ended 1",
        "rollouts": "begun",
        "provenance": "0 named",
        "captures": "Not found 0",
        "admission": "even",
        "regions": "even",
    },
}
_REFUSED["check"] = _REFUSED["regions"] | {"captures": "Invalid argument 0"}


async def _begun(here: StagedPlane):
    plane, sink = here.caller(), Sink()
    asked = here.request(region="r" if "regions" in here.features else "")
    inflight = here.send(plane, plane.resolve("m"), asked, sink)
    return asked, sink, inflight, await here.arrived()


async def test_all_hear_of_an_answered_request() -> None:
    async with staged_plane(*FEATURES) as here:
        asked, sink, _, executed = await _begun(here)
        executed.respond(InferenceResponse("m", "2"), final=True)
        await sink.ended
        assert here.seen(asked, sink) == _ANSWERED


async def test_all_hear_of_a_failed_request() -> None:
    async with staged_plane(*FEATURES) as here:
        asked, sink, _, executed = await _begun(here)
        executed.fail(InternalError("broken"))
        await sink.ended
        assert here.seen(asked, sink) == _FAILED


async def test_all_hear_of_a_cancelled_request_and_no_version_answers_for_it() -> None:
    async with staged_plane(*FEATURES) as here:
        asked, sink, inflight, executed = await _begun(here)
        inflight.cancel()
        executed.fail(RequestCancelledError(""))
        await sink.ended
        assert here.seen(asked, sink) == _CANCELLED


async def test_all_hear_of_each_answer_of_a_stream_and_of_one_end() -> None:
    async with staged_plane(*FEATURES) as here:
        asked, sink, _, executed = await _begun(here)
        for _ in range(3):
            executed.respond(InferenceResponse("m", "2"), final=False)
        executed.respond(None, final=True)
        await sink.ended
        assert here.seen(asked, sink) == _STREAMED


@pytest.mark.parametrize("by", _REFUSE)
async def test_those_before_hear_what_a_later_one_refuses(by: str) -> None:
    async with staged_plane(*FEATURES) as here:
        _, seen = await refused(here, by)
        before = {name: seen[name] for name in _REFUSED[by]}
        assert before == _REFUSED[by]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        pair
        for pair in combinations((*FEATURES, "check"), 2)
        if pair[1] in _REFUSE and pair[0] not in {"access", "provenance"}
    ],
)
async def test_each_pair_is_as_all_together(earlier: str, later: str) -> None:
    async with staged_plane(earlier, later) as here:
        error, seen = await refused(here, later)
        assert isinstance(error, TritonError)
        assert seen[earlier] == _REFUSED[later][earlier]


async def test_an_answer_names_its_version_and_arm_where_the_request_asks_for_it() -> None:
    async with staged_plane("rollouts") as here:
        sink, asked = Sink(), here.request(parameters={"manta_provenance": True})
        here.send(here.plane, here.plane.resolve("m"), asked, sink)
        (await here.arrived()).respond(InferenceResponse("m", "2"), final=True)
        await sink.ended
        (response,) = sink.responses
        assert response is not None
        assert response.parameters == {"manta_model_version": "2", "manta_rollout_arm": "two"}
