# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances of another release are replaced one by one, and never by what does not load."""

import asyncio

from backends.api.errors import InternalError
from cluster.models.renewal import RenewalPhase
from deployments.contracts.routing_table import ModelReadyState
from tests.support.control_plane_fakes import (
    DRAIN_S,
    LOAD_S,
    World,
    ensemble,
    in_virtual_time,
    model,
)

OLD, NEW = "1.0+old", "1.1+new"


async def loaded(*counts: int) -> World:
    """Return a world with a model of so many instances each, all of the old release."""
    world = World(*(model(f"m{at}", count=count) for at, count in enumerate(counts)))
    world.host.running = OLD
    await world.lifecycle.load_all(world.candidates)
    world.host.log.clear()
    world.states.clear()
    world.host.running = NEW
    return world


@in_virtual_time
async def test_a_new_instance_is_ready_before_the_old_one_drains_one_after_the_other() -> None:
    world = await loaded(2)
    renewal = world.lifecycle.renewal
    await renewal.run(NEW)
    assert world.host.log == [
        "start m0/1#2@1",
        "ready m0/1#2@1",
        "drain m0/1#0@1",
        "start m0/1#3@1",
        "ready m0/1#3@1",
        "drain m0/1#1@1",
    ]
    assert (renewal.phase, renewal.done_count, renewal.current) == (RenewalPhase.CURRENT, 2, "")
    assert {seen["m0/1"] for seen in world.states} <= {"READY"}
    assert not list(renewal.stale(NEW))


@in_virtual_time
async def test_the_next_instance_waits_for_the_room_of_the_one_that_ends() -> None:
    world = await loaded(2)
    world.lifecycle.renewal.drain_s = 60.0
    renewing = asyncio.create_task(world.lifecycle.renewal.run(NEW))
    await asyncio.sleep(LOAD_S + 10)
    assert world.host.log == ["start m0/1#2@1", "ready m0/1#2@1", "drain m0/1#0@1"]
    assert world.lifecycle.renewal.counts() == {OLD: 2, NEW: 1}
    await asyncio.sleep(60)
    assert "start m0/1#3@1" in world.host.log
    await world.lifecycle.close(DRAIN_S)
    await renewing


@in_virtual_time
async def test_an_instance_that_is_gone_before_its_turn_is_not_counted() -> None:
    world = await loaded(2)
    renewing = asyncio.create_task(world.lifecycle.renewal.run(NEW))
    await asyncio.sleep(LOAD_S / 2)
    (pool,) = world.pools
    pool.displace(["m0/1#1@1"])
    await renewing
    assert world.lifecycle.renewal.done_count == 1


@in_virtual_time
async def test_all_models_are_renewed_and_those_of_this_release_left_alone() -> None:
    world = await loaded(1, 3, 1)
    await world.lifecycle.renewal.run(NEW)
    assert world.lifecycle.renewal.counts().keys() >= {NEW}
    assert not list(world.lifecycle.renewal.stale(NEW))
    world.host.log.clear()
    await world.lifecycle.renewal.run(NEW)
    assert not [line for line in world.host.log if line.startswith("start")]


@in_virtual_time
async def test_an_instance_that_does_not_load_ends_the_renewal_and_all_others_stay() -> None:
    world = await loaded(1, 2)
    world.host.fail["m1/1#2"] = [InternalError("no module named numpy")]
    renewal = world.lifecycle.renewal
    await renewal.run(NEW)
    assert renewal.phase is RenewalPhase.FAILED
    assert renewal.reason == "instance m1/1#0@2 is not replaced: no module named numpy"
    assert [each.name for each in renewal.stale(NEW)] == ["m1/1#0@2", "m1/1#1@2"]
    assert world.state("m1") is ModelReadyState.READY
    assert world.endpoints("m1") == ["m1/1#0@2", "m1/1#1@2"]
    await renewal.run(NEW)
    assert renewal.phase is RenewalPhase.CURRENT
    assert not list(renewal.stale(NEW))


@in_virtual_time
async def test_an_instance_without_room_beside_it_goes_first_and_after_all_others() -> None:
    world = await loaded(1, 1)
    world.host.blocked.add("m0/1#1")
    renewing = asyncio.create_task(world.lifecycle.renewal.run(NEW))
    await asyncio.sleep(20)
    assert world.host.log[:3] == ["start m1/1#1@2", "ready m1/1#1@2", "drain m1/1#0@2"]
    assert "drain m0/1#0@1" in world.host.log
    await renewing


@in_virtual_time
async def test_a_load_under_way_is_waited_for() -> None:
    world = await loaded(1)
    world.candidates["m0"] = model("m0", stamp="changed")
    load = asyncio.create_task(world.lifecycle.load("m0"))
    await asyncio.sleep(LOAD_S / 2)
    await world.lifecycle.renewal.run(NEW)
    await load
    assert world.lifecycle.renewal.phase is RenewalPhase.CURRENT
    assert not list(world.lifecycle.renewal.stale(NEW))
    assert [line for line in world.host.log if line.startswith("start")] == ["start m0/1#0@2"]


@in_virtual_time
async def test_an_unload_ends_the_replacement_of_the_models_instances() -> None:
    world = await loaded(1)
    renewing = asyncio.create_task(world.lifecycle.renewal.run(NEW))
    await asyncio.sleep(LOAD_S / 2)
    await world.lifecycle.unload("m0")
    await renewing
    assert world.lifecycle.renewal.phase is RenewalPhase.CURRENT
    assert world.state("m0") is ModelReadyState.UNAVAILABLE
    assert "ready m0/1#1@1" not in world.host.log


@in_virtual_time
async def test_dormant_versions_and_ensembles_have_nothing_to_renew() -> None:
    world = World(model("m"), ensemble("e", "m"))
    world.host.running = OLD
    await world.lifecycle.load("e")
    world.lifecycle.dormancy.rest("m", 1)
    await asyncio.sleep(DRAIN_S + 1)
    world.host.log.clear()
    await world.lifecycle.renewal.run(NEW)
    assert world.host.log == []
