# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that meet rollouts, on a data plane with two versions of a model."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import EnsembleStep, ModelConfig, ModelInput, ModelOutput
from backends.api.request import InferenceResponse, tensor_from_numpy
from deployments.contracts.arm_report import ArmReport
from deployments.contracts.routing_table import Model, ModelReadyState, ModelVersion, RoutingTable
from deployments.data_plane.data_plane import DataPlane
from deployments.lane.server import ServerRequest
from deployments.rollouts.encoding import encode_traffic
from deployments.rollouts.spec import Arm, Shadow, Source, Sticky, Traffic
from deployments.routing.mirror import MOST_BYTES, MOST_UNDER_WAY, Mirror
from deployments.routing.mismatch_file import MismatchFile
from tests.support.cluster_of_instances import CONFIG, Instance, Routed, request
from tests.support.lane_rig import Sink
from tests.support.memory_plane import Repository

READY = ModelReadyState.READY
# Asks the model twice.
PAIR = ModelConfig(
    "pair",
    input=(ModelInput("A", "INT32", (2,)),),
    output=(ModelOutput("B", "INT32", (2,)),),
    has_ensemble_scheduling=True,
    ensemble_steps=(
        EnsembleStep("m", -1, {"A": "A"}, {"B": "between"}),
        EnsembleStep("m", -1, {"A": "between"}, {"B": "B"}),
    ),
)


class Here:
    """A data plane, a model ``m`` with versions 1 and 2, and what each version has been asked."""

    def __init__(self, routed: Routed) -> None:
        self.router = routed.router
        self.plane = DataPlane("manta", routed.router, routed.slabs, Repository())
        self.asked: Counter[int] = Counter()
        self.order: list[int] = []
        self.values = {1: 1, 2: 2}
        self.error: InternalError | None = None
        self.is_stream = False
        self.instances: dict[int, Instance] = {}
        self._version = 1 << 40

    def answer(self, version: int, asked: ServerRequest) -> None:
        self.asked[version] += 1
        self.order.append(version)
        if self.error is not None and version == 2:
            asked.fail(self.error)
            return
        output = tensor_from_numpy("B", np.full(2, self.values[version], np.int32))
        response = InferenceResponse("m", str(version), asked.request.id, [output])
        if self.is_stream:
            asked.respond(response, final=False)
        asked.respond(response, final=True)

    def table(self, traffic: Traffic | None, **states: ModelReadyState) -> None:
        self._version += 1
        versions = tuple(
            ModelVersion(
                version,
                states.get(f"v{version}", READY),
                config=CONFIG,
                instances=(instance.endpoint,),
            )
            for version, instance in self.instances.items()
        )
        encoded = b"" if traffic is None else encode_traffic(traffic)
        pair = ModelVersion(1, READY, config=PAIR)
        models = {"m": Model("m", versions, traffic=encoded), "pair": Model("pair", (pair,))}
        self.router.update(RoutingTable(self._version, models, initialised=True))

    async def infer(self, version: str = "", headers: Any = (), **fields: Any) -> Sink:
        sink = Sink()
        self.plane.infer(self.plane.resolve("m", version), request(**fields), sink, headers)
        await sink.ended
        return sink

    async def version(self, **more: Any) -> int:
        sink = await self.infer(**more)
        assert sink.error is None, sink.error
        response = sink.responses[0]
        assert response is not None
        return int(response.model_version)

    def counts(self) -> dict[int, ArmReport]:
        rows = self.router.models.rollouts["m"].take_counts()
        return {row.version: row for row in rows}


def split(weight: int, **more: Any) -> Traffic:
    return Traffic(1, "salt", (Arm("one", 1, 10_000 - weight), Arm("two", 2, weight)), **more)


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Here]:
    monkeypatch.setenv("MANTA_ROLLOUT_DIRECTORY", str(tmp_path))
    async with Routed() as routed:
        found = Here(routed)
        for version in (1, 2):

            def answer(asked: ServerRequest, version: int = version) -> None:
                found.answer(version, asked)

            instance = await Instance(answer).start()
            routed.instances.append(instance)
            found.instances[version] = instance
        found.table(None)
        yield found


async def test_without_a_rollout_the_newest_version_answers_and_nothing_is_pinned(
    here: Here,
) -> None:
    assert not here.router.models.rollouts
    assert await here.version() == 2


async def test_requests_are_split_by_weight_and_counted_by_version(here: Here) -> None:
    here.table(split(2500))
    seen = Counter([await here.version() for _ in range(200)])
    assert abs(seen[2] - 50) <= 2
    counts = here.counts()
    assert {version: row.requests for version, row in counts.items()} == seen
    assert sum(counts[1].latencies.values()) == seen[1]
    assert here.counts() == {}


async def test_who_names_a_version_gets_it_and_is_not_counted(here: Here) -> None:
    here.table(split(0))
    assert await here.version(version="2") == 2
    assert here.counts() == {}


async def test_metadata_without_a_version_is_that_of_the_stable_one(here: Here) -> None:
    here.table(split(10_000))
    assert here.plane.resolve("m").version == 1
    assert here.plane.model_ready("m")


async def test_a_header_is_a_key_whatever_its_case(here: Here) -> None:
    here.table(split(5000, sticky=Sticky(Source.HEADER, "x-user")))
    for number in range(20):
        name = b"X-User" if number % 2 else b"x-user"
        user = b"u%d" % number
        found = {await here.version(headers=[(name, user)]) for _ in range(3)}
        assert len(found) == 1


async def test_a_sequence_stays_where_it_began_when_weights_change(here: Here) -> None:
    here.table(split(0))
    assert await here.version(correlation_id=7, flags=1) == 1
    here.table(split(10_000))
    assert await here.version(correlation_id=7) == 1
    assert await here.version(correlation_id=8, flags=1) == 2


async def test_a_version_that_is_not_ready_leaves_its_share_to_the_stable_one(here: Here) -> None:
    here.table(split(10_000), v2=ModelReadyState.UNAVAILABLE)
    assert await here.version() == 1
    here.table(split(10_000))
    assert await here.version() == 2


async def test_faults_are_counted_and_what_the_client_did_wrong_is_not(here: Here) -> None:
    here.table(split(10_000))
    here.error = InternalError("broken")
    assert (await here.infer()).error is not None
    assert (here.counts()[2].requests, here.counts()) == (1, {})
    here.error = None
    with pytest.raises(InvalidArgumentError):
        here.plane.infer(here.plane.resolve("m"), request(outputs=["NO"]), Sink())
    assert here.counts() == {}


async def test_all_steps_of_an_ensemble_are_answered_by_one_version_and_counted(
    here: Here,
) -> None:
    here.table(split(5000))
    for _ in range(20):
        sink = Sink()
        here.plane.infer(here.plane.resolve("pair"), request(), sink)
        await sink.ended
        assert sink.error is None
    pairs = list(zip(here.order[::2], here.order[1::2], strict=True))
    assert all(one == other for one, other in pairs)
    assert {one for one, _ in pairs} == {1, 2}
    assert sum(row.requests for row in here.counts().values()) == 40


async def test_steps_follow_the_headers_of_the_ensembles_client(here: Here) -> None:
    here.table(split(5000, sticky=Sticky(Source.HEADER, "x-user")))
    headers = [(b"x-user", b"u1")]
    own = await here.version(headers=headers)
    here.order.clear()
    for _ in range(5):
        sink = Sink()
        here.plane.infer(here.plane.resolve("pair"), request(), sink, headers)
        await sink.ended
    assert here.order == [own] * 10


async def test_an_ended_rollout_brings_the_newest_version_back(here: Here) -> None:
    here.table(split(0))
    assert await here.version() == 1
    here.table(None)
    assert await here.version() == 2


def shadowed(**more: Any) -> Traffic:
    return Traffic(1, "salt", (Arm("stable", 1, 10_000),), shadow=Shadow(2, **more))


async def _mirrored(here: Here, count: int) -> ArmReport:
    total = ArmReport("m", 2)
    for _ in range(1000):
        await asyncio.sleep(0.001)
        for row in here.counts().values():
            if row.version == 2:
                total.add(row)
        if total.mirrored + total.dropped >= count:
            break
    return total


def _lines(folder: Path) -> list[Any]:
    (path,) = folder.iterdir()
    return [json.loads(line) for line in path.read_text().splitlines()]


def _offer(here: Here, count: int) -> None:
    shadow = here.router.models.rollouts["m"].shadow_for(request(), 1)
    assert shadow is not None
    for _ in range(count):
        here.router.mirror.offer(shadow, request(), InferenceResponse("m", "1", "", []))


async def test_a_shadow_gets_copies_whose_answers_are_compared(here: Here, tmp_path: Path) -> None:
    here.table(shadowed())
    assert await here.version(id="7") == 1
    total = await _mirrored(here, 1)
    assert (total.mirrored, total.mismatches, total.mirror_errors) == (1, 1, 0)
    (line,) = _lines(tmp_path)
    assert (line["request_id"], line["output"], line["elements"]) == ("7", "B", 2)
    here.values[2] = 1
    await here.version()
    assert (await _mirrored(here, 1)).mismatches == 0


async def test_a_stream_of_responses_is_not_compared(here: Here) -> None:
    here.table(shadowed())
    here.is_stream = True
    await here.infer()
    here.is_stream = False
    await here.version()
    assert (await _mirrored(here, 1)).mirrored == 1


async def test_a_shadow_that_fails_is_counted_and_nobody_hears_of_it(here: Here) -> None:
    here.table(shadowed())
    here.error = InternalError("broken")
    assert await here.version() == 1
    total = await _mirrored(here, 1)
    assert (total.mirrored, total.mirror_errors) == (1, 1)


async def test_a_shadow_that_is_gone_costs_copies_only(here: Here) -> None:
    here.table(shadowed(), v2=ModelReadyState.UNAVAILABLE)
    assert await here.version() == 1
    total = await _mirrored(here, 1)
    assert (total.mirrored, total.mirror_errors) == (1, 1)
    assert here.asked[2] == 0


async def test_what_is_too_much_to_be_copied_is_dropped_and_counted(here: Here) -> None:
    here.table(shadowed(max_pending=1))
    _offer(here, 10)
    total = await _mirrored(here, 10)
    assert (total.mirrored, total.dropped) == (1, 9)
    assert MOST_BYTES == 64 << 20


async def test_copies_wait_for_others_until_many_can_be_sent_together(
    here: Here, tmp_path: Path
) -> None:
    router = here.router
    router.mirror = Mirror(router.submit, router.models.get, MismatchFile(tmp_path), 3600.0)
    here.table(shadowed())
    _offer(here, MOST_UNDER_WAY - 1)
    assert (await _mirrored(here, 1)).mirrored == 0
    _offer(here, 1)
    assert (await _mirrored(here, MOST_UNDER_WAY)).mirrored == MOST_UNDER_WAY


async def test_few_copies_are_sent_after_a_pause(here: Here) -> None:
    here.table(shadowed())
    _offer(here, 3)
    assert (await _mirrored(here, 3)).mirrored == 3


async def test_copies_beyond_what_is_sent_together_follow(here: Here) -> None:
    here.table(shadowed())
    _offer(here, 3 * MOST_UNDER_WAY)
    total = await _mirrored(here, 3 * MOST_UNDER_WAY)
    assert (total.mirrored, total.dropped) == (3 * MOST_UNDER_WAY, 0)


async def test_sequences_are_not_copied(here: Here) -> None:
    here.table(shadowed())
    rollout = here.router.models.rollouts["m"]
    assert rollout.shadow_for(request(correlation_id=5), 1) is None
    assert rollout.shadow_for(request(regions={}), 1) is None
    assert rollout.shadow_for(request(), 2) is None
