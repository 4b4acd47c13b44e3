# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An adopted instance under the rate limiter: one grant for each batch."""

from collections.abc import Iterator

import pytest

from backends.api.model_config import ModelConfig
from deployments.rate_limiter.arbiter import ClaimPhase, Resource, ResourceDemand
from deployments.rate_limiter.claim import ResourceClaim
from deployments.reactor.reactor import Reactor
from tests.support.arbiters import Arbiters
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import until
from tests.support.pool_rig import PooledInstance, ids, request_for

BATCHING = ModelConfig("m", max_batch_size=8)
ONE = ResourceDemand({Resource(0, "R"): 1})


@pytest.fixture
def arbiters(tmp_path) -> Iterator[Arbiters]:
    arbiters = Arbiters(tmp_path)
    yield arbiters
    arbiters.end()


class Rival:
    """Another instance of the node that wants the same resource."""

    def __init__(self, arbiters: Arbiters) -> None:
        self.reactor = Reactor()
        self.claim = ResourceClaim("rival", ONE, arbiters.path, self.reactor)
        self.claim.join(10)
        self.claim.serve(lambda: None)

    def take(self) -> None:
        self.claim.ask()
        while not self.claim.is_held:
            self.reactor.turn(10)

    def close(self) -> None:
        self.claim.close()
        self.reactor.close()


@pytest.fixture
def rival(arbiters) -> Iterator[Rival]:
    rival = Rival(arbiters)
    yield rival
    rival.close()


def limited(arbiters: Arbiters) -> PooledInstance:
    def claim(reactor: Reactor) -> ResourceClaim:
        claim = ResourceClaim("i", ONE, arbiters.path, reactor)
        claim.join(10)
        return claim

    return PooledInstance(BATCHING, ScriptedModel(), claim)


def is_at(arbiters: Arbiters, phase: ClaimPhase):
    return lambda: arbiters.reactor.submit(arbiters.arbiter.phase, "i").result(10) is phase


async def test_a_grant_is_asked_for_used_once_and_given_back(arbiters):
    async with limited(arbiters) as instance:
        holder = await instance.router()
        assert (await holder.adopt()).is_limited
        holder.lane.ask()
        await holder.next("granted")
        assert await ids(holder.push(1, request_for("a"))) == ["a"]
        await holder.next("done")
        await until(is_at(arbiters, ClaimPhase.IDLE))
        holder.lane.ask()
        await holder.next("granted", 2)


async def test_a_grant_that_is_declined_is_free_for_others(arbiters, rival):
    async with limited(arbiters) as instance:
        holder = await instance.holder()
        holder.lane.ask()
        await holder.next("granted")
        holder.lane.decline()
        await until(is_at(arbiters, ClaimPhase.IDLE))
        rival.take()
        # Declined before it is there.
        holder.lane.ask()
        await until(is_at(arbiters, ClaimPhase.ASKING))
        holder.lane.decline()
        await holder.lane.call("statistics", b"", 30)
        rival.claim.done(ask_again=False)
        await until(is_at(arbiters, ClaimPhase.IDLE))
        assert len(holder.all("granted")) == 1


async def test_a_batch_without_a_grant_waits_for_one(arbiters, rival):
    async with limited(arbiters) as instance:
        holder = await instance.holder()
        rival.take()
        requests = holder.push(1, request_for("a"))
        await until(is_at(arbiters, ClaimPhase.ASKING))
        assert instance.executor.activity().pending_count == 1
        rival.claim.done(ask_again=False)
        assert await ids(requests) == ["a"]
        await until(is_at(arbiters, ClaimPhase.IDLE))


async def test_what_is_asked_for_during_an_execution_is_granted_after_it(arbiters):
    async with limited(arbiters) as instance:
        holder = await instance.holder()
        with instance.held():
            running = holder.push(1, request_for("a"))
            await instance.entered()
            holder.lane.ask()
            await holder.lane.call("statistics", b"", 30)
            assert not holder.all("granted")
        assert await ids(running) == ["a"]
        await holder.next("granted")


async def test_the_grant_of_a_lost_holder_is_given_back(arbiters):
    async with limited(arbiters) as instance:
        holder = await instance.holder()
        holder.lane.ask()
        await holder.next("granted")
        holder.lane.close()
        await until(is_at(arbiters, ClaimPhase.IDLE))


async def test_an_execution_begun_before_the_adoption_gives_its_grant_back(arbiters):
    async with limited(arbiters) as instance:
        router = await instance.router()
        with instance.held():
            running = router.submit(request_for("a"))
            await instance.entered()
            queued = router.submit(request_for("b"))
            assert (await router.adopt()).batch_count == 1
            assert await router.next("bounced") is queued
        assert await ids([running]) == ["a"]
        await until(is_at(arbiters, ClaimPhase.IDLE))


async def test_a_cancelled_batch_does_not_keep_its_grant(arbiters, rival):
    async with limited(arbiters) as instance:
        holder = await instance.holder()
        rival.take()
        (request,) = holder.push(1, request_for("a"))
        await until(is_at(arbiters, ClaimPhase.ASKING))
        request.cancel()
        assert (await holder.next("done")).number == 1
        rival.claim.done(ask_again=False)
        await until(is_at(arbiters, ClaimPhase.IDLE))
