# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The gate of a model between the data plane and its router."""

from dataclasses import replace

import pytest

from backends.api.errors import InvalidArgumentError, UnavailableError
from backends.api.request import SEQUENCE_START, InferenceResponse
from deployments.admission.rules import AdmissionDefaults
from deployments.data_plane.data_plane import DataPlane
from tests.support.cluster_of_instances import CONFIG, Instance, Routed, request
from tests.support.lane_rig import Sink, until
from tests.support.memory_plane import Repository


class Gated:
    def __init__(self, here: Routed) -> None:
        self.here = here
        self.plane = DataPlane("", here.router, here.slabs, Repository())

    @property
    def gate(self):
        gate = self.plane.resolve("m").admission
        assert gate is not None
        return gate

    @property
    def asked(self):
        return self.here.instances[0].handler.requests

    async def start(self, **fields) -> Sink:
        sink, count = Sink(), len(self.asked)
        self.plane.infer(self.plane.resolve("m"), request(**fields), sink)
        await until(lambda: len(self.asked) == count + 1)
        return sink


def routed(defaults: AdmissionDefaults, config=CONFIG) -> Routed:
    here = Routed(Instance(), config=config)
    here.router.admit_with(defaults)
    return here


async def test_without_the_option_requests_pass_no_gate() -> None:
    async with routed(AdmissionDefaults()) as here:
        gated = Gated(here)
        assert gated.plane.resolve("m").admission is None
        await gated.start()
        assert not gated.asked[0].request.wants_times


async def test_an_admitted_request_asks_what_its_execution_took_and_is_counted_out() -> None:
    async with routed(AdmissionDefaults(is_on=True)) as here:
        gated = Gated(here)
        sink = await gated.start()
        assert gated.asked[0].request.wants_times
        assert gated.gate.outstanding == 1
        answer = InferenceResponse("m", "1", compute_ns=(1, 2, 3))
        gated.asked[0].respond(answer, final=True)
        await sink.ended
        assert gated.gate.outstanding == 0


async def test_a_failed_request_is_counted_out() -> None:
    async with routed(AdmissionDefaults(is_on=True)) as here:
        gated = Gated(here)
        sink = await gated.start()
        gated.asked[0].fail(UnavailableError("no"))
        await sink.ended
        assert gated.gate.outstanding == 0


async def test_a_request_that_does_not_fit_its_model_is_counted_out() -> None:
    async with routed(AdmissionDefaults(is_on=True)) as here:
        gated = Gated(here)
        wrong = request(outputs=["none"])
        with pytest.raises(InvalidArgumentError):
            gated.plane.infer(gated.plane.resolve("m"), wrong, Sink())
        assert gated.gate.outstanding == 0


async def test_what_is_refused_never_gets_to_an_instance() -> None:
    async with routed(AdmissionDefaults(max_requests=2)) as here:
        gated = Gated(here)
        sinks = [await gated.start() for _ in range(2)]
        with pytest.raises(UnavailableError, match="--admission-max-requests") as refused:
            gated.plane.infer(gated.plane.resolve("m"), request(), Sink())
        assert refused.value.retry_after_s > 0
        assert len(gated.asked) == 2
        gated.asked[0].respond(InferenceResponse("m", "1"), final=True)
        await sinks[0].ended
        await gated.start()
        assert b"manta_admission_refused_total" in await gated.plane.metrics_text()


async def test_a_request_of_a_sequence_that_has_begun_gets_on() -> None:
    async with routed(AdmissionDefaults(max_requests=1)) as here:
        gated = Gated(here)
        await gated.start(correlation_id=7, flags=SEQUENCE_START)
        await gated.start(correlation_id=7)
        with pytest.raises(UnavailableError):
            gated.plane.infer(
                gated.plane.resolve("m"), request(correlation_id=8, flags=SEQUENCE_START), Sink()
            )


@pytest.mark.parametrize(("mode", "is_gated"), [("on", True), ("off", False)])
async def test_a_models_own_mode_counts_more_than_the_option(mode, is_gated) -> None:
    config = replace(CONFIG, parameters={"admission.mode": mode})
    async with routed(AdmissionDefaults(is_on=not is_gated), config) as here:
        assert (here.model.admission is not None) is is_gated
